"""`powerbert serve`: a classifier over HTTP."""

from powerbert.cli.data import existing_folder, open_answering
from powerbert.cli.flags import ServeFlags
from powerbert.cli.output import note, working
from powerbert.serving.app import Service, make_api
from powerbert.serving.limits import ServeLimits
from powerbert.serving.server import address_of, bind, make_server, run_server


def serve(asked: ServeFlags) -> None:
    """Load, warm up, listen; until somebody stops it."""
    key = asked.key()
    limits = ServeLimits(asked.max_bytes, asked.max_inputs, asked.max_characters, asked.queue, asked.deadline)
    with bind(asked.host, asked.port) as bound:
        engine = open_answering(asked, asked.engine)
        service = Service(
            engine,
            existing_folder(asked.model),
            limits=limits,
            word_vectors=asked.word_vectors,
            adaptive=asked.adaptive,
        )
        with working("warming up"):
            service.batcher.warm_up()
        about = f"{engine.name} in {engine.precision}, N={engine.limits.longest}"
        note(f"serving {asked.model} ({about}) at {address_of(bound)}, API at {address_of(bound)}/docs")
        run_server(make_server(make_api(service, key), limits), bound)
        note("stopped")

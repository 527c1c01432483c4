"""`powerbert serve`: a classifier over HTTP."""

from powerbert.cli.answering import ServeFlags
from powerbert.cli.opening import existing_folder, open_answering
from powerbert.cli.output import note, working
from powerbert.errors import PowerBertError
from powerbert.serving.app import Service, make_api
from powerbert.serving.batcher import smaller_budgets
from powerbert.serving.limits import ServeLimits
from powerbert.serving.server import address_of, bind, make_server, run_server


def serve(asked: ServeFlags) -> None:
    """Load, warm up, listen; until somebody stops it."""
    key = asked.key()
    limits = ServeLimits(
        body=asked.max_bytes,
        inputs=asked.max_inputs,
        characters=asked.max_characters,
        word_vectors=asked.word_vectors,
        waiting=asked.queue,
        deadline=asked.deadline,
    )
    with bind(asked.host, asked.port) as bound:
        engine = open_answering(asked, asked.engine)
        if asked.adaptive and not smaller_budgets(engine):
            what, remedy = "--adaptive has no smaller budget to spend", "leave it out, or give a folder with a dial"
            raise PowerBertError(what, got=asked.model, remedy=remedy)
        service = Service(engine, existing_folder(asked.model), limits=limits, adaptive=asked.adaptive)
        with working("warming up"):
            service.batcher.warm_up()
        about = f"{engine.name} in {engine.precision}, N={engine.limits.longest}"
        note(f"serving {asked.model} ({about}) at {address_of(bound)}, API at {address_of(bound)}/docs")
        run_server(make_server(make_api(service, key), limits), bound)
        note("stopped")

"""Open a folder with an engine: a saved one in torch, or in an engine that one of its graphs is for."""

import logging
from pathlib import Path

from powerbert.engines.engine import Engine
from powerbert.engines.graph_engines import OnnxEngine, OpenVinoEngine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import MachineError, MissingExtraError, PowerBertError
from powerbert.export.write import PRECISIONS, Exported, file_precision, read_exported
from powerbert.folders.manifest import Manifest, glance, graph_folder, read_manifest
from powerbert.machine.verdicts import barrier, prepare_openvino, probe, slowness

ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (TorchEngine, OnnxEngine, OpenVinoEngine)}

logger = logging.getLogger(__name__)


def open_engine(
    folder: str | Path,
    engine: str | None = None,
    precision: str | None = None,
    *,
    threads: int | None = None,
    manifest: Manifest | None = None,
) -> Engine:
    """Load a saved or exported folder; by default with the engine and precision that it was made for.

    A saved folder with graphs opens in the graph it was made for, or in the one of the asked engine and precision.
    Where nothing is asked for, and the engine is not installed or its precision does not run here, torch answers,
    with a warning.

    Every engine of the project is opened here, so that a precision which this machine only claims to
    have is found out before it is used. bf16 that crashes or is slower than fp32 is left out, with a
    warning; int8 that crashes is refused. `Engine.precision` tells which one it is.

    manifest: as in `Engine.load`.
    """
    folder = Path(folder)
    graph = find_graph(folder, manifest or glance(folder), engine, precision)
    if graph is None:
        return _open(folder, engine, precision, threads, manifest)
    try:
        return _open(graph, None, precision, threads)
    except (MissingExtraError, MachineError) as error:
        if engine is not None or precision is not None:
            raise
        logger.warning("%s was made for %s, which does not run here: running in torch (%s)", folder, graph.name, error)
    return _open(folder, TorchEngine.name, None, threads, manifest)


def find_graph(folder: Path, manifest: Manifest, engine: str | None, precision: str | None) -> Path | None:
    """The sub-folder of a saved folder that answers what is asked for; None if the folder itself does.

    Of several the one that the folder was made for comes first, and one of the asked precision before one that can
    be had in it.
    """
    if engine is precision is None:
        return None if manifest.engine is None else graph_folder(folder, manifest, manifest.engine)
    if engine == TorchEngine.name:
        return None
    found: list[tuple[bool, Path]] = []
    for name in sorted(manifest.graphs, key=lambda name: name != manifest.engine):
        path = graph_folder(folder, manifest, name)
        exported = read_exported(path, glance(path))
        assert exported is not None  # or it would be no folder of a graph
        own, able = exported.precision, PRECISIONS.get(exported.engine, ())
        same = precision in able and file_precision(precision) == file_precision(own)
        if engine in (None, exported.engine) and (precision in (None, own) or same):
            found.append((precision not in (None, own), path))
    return min(found, key=lambda each: each[0])[1] if found else None


def _open(
    folder: Path, engine: str | None, precision: str | None, threads: int | None, manifest: Manifest | None = None
) -> Engine:
    """Load the model that lies in a folder itself."""
    manifest = manifest or read_manifest(folder)
    exported = None if engine == TorchEngine.name else read_exported(folder, manifest)
    if engine is None:
        engine = TorchEngine.name if exported is None else exported.engine
    if not isinstance(engine, str) or engine not in ENGINES:
        raise PowerBertError("unknown engine", got=engine, rule="one of " + ", ".join(ENGINES))
    known = ENGINES[engine].precisions
    if precision is not None and precision not in known:
        raise PowerBertError(f"unknown precision of {engine}", got=precision, rule="one of " + ", ".join(known))
    if exported is not None and exported.engine == engine and exported.precision in known:
        precision = _sound(exported, precision or exported.precision)
    return ENGINES[engine].load(folder, precision, threads, manifest)


def _sound(exported: Exported, precision: str) -> str:
    """The precision to open an exported folder in: never one that would end this process."""
    engine = exported.engine
    if engine == OpenVinoEngine.name:
        prepare_openvino()
    plain = file_precision(precision)
    if precision == "fp32" or plain != file_precision(exported.precision):
        return precision  # nothing to fear; or not in this folder, which loading refuses
    verdict = probe(engine, precision)
    bar = barrier(verdict)
    why = bar or slowness(verdict)
    if why is None:
        return precision
    if bar is not None and precision == plain:
        raise MachineError(f"{plain} in {engine} {bar}", remedy="export the model in fp32")
    instead = "better export the model in fp32" if precision == plain else f"running in {plain}"
    logger.warning("%s in %s %s: %s", precision, engine, why, instead)
    return precision if precision == plain else _sound(exported, plain)

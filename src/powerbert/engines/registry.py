"""Open a folder with an engine."""

from __future__ import annotations

from pathlib import Path

from powerbert.engines.engine import Engine
from powerbert.engines.exported import read_exported
from powerbert.engines.onnx_engine import OnnxEngine
from powerbert.engines.openvino_engine import OpenVinoEngine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import PowerBertError

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine for engine in (TorchEngine, OnnxEngine, OpenVinoEngine)
}


def open_engine(
    folder: str | Path,
    engine: str | None = None,
    precision: str | None = None,
    *,
    threads: int | None = None,
) -> Engine:
    """Load a saved or exported folder; by default with the engine and precision that it was made for.

    Every engine of the project is opened here, so that a precision which this machine only claims to
    have can be found out before it is used.
    """
    folder = Path(folder)
    if engine is None:
        exported = read_exported(folder)
        engine = TorchEngine.name if exported is None else exported.engine
    if not isinstance(engine, str) or engine not in ENGINES:
        raise PowerBertError("unknown engine", got=engine, rule="one of " + ", ".join(ENGINES))
    known = ENGINES[engine].precisions
    if precision is not None and precision not in known:
        raise PowerBertError(
            f"unknown precision of {engine}", got=precision, rule="one of " + ", ".join(known)
        )
    return ENGINES[engine].load(folder, precision, threads)

"""A folder as a function from text to labels, in any engine."""

from __future__ import annotations

from pathlib import Path

from powerbert.engines.auto import AutoEngine, open_auto
from powerbert.engines.classifier import Classifier
from powerbert.engines.open import ENGINES, open_engine
from powerbert.errors import PowerBertError


def pipeline(folder: str | Path, engine: str = "torch", precision: str | None = None) -> Classifier:
    """Load a saved or exported classifier: pipeline(folder)("some text") gives [{"label", "score"}].

    engine: "torch" runs a saved folder; "onnx" and "openvino" run what was exported to them. "auto" opens an
        exported folder with its own engine; a saved one it opens in every engine that is installed, with and
        without elimination, and takes the fastest. That takes some seconds per encoder.
    precision: by default the folder's own: fp32 unless it was exported otherwise.
    """
    folder = Path(folder)
    if not isinstance(engine, str) or engine not in (AutoEngine.name, *ENGINES):
        known = ", ".join((AutoEngine.name, *ENGINES))
        raise PowerBertError("unknown engine", got=engine, rule=f"one of {known}")
    opened = (
        open_auto(folder, precision) if engine == AutoEngine.name else open_engine(folder, engine, precision)
    )
    return Classifier(opened, opened.choice if isinstance(opened, AutoEngine) else None)

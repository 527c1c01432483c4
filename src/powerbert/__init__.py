"""PoWER-BERT as software: the same BERT-family classifier, several times faster.

    model = powerbert.apply(model, powerbert.RetentionConfiguration.relative((0.9, ..., 0.1)))

Paper: PoWER-BERT: Accelerating BERT Inference via Progressive Word-vector Elimination
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from powerbert.errors import PowerBertError
from powerbert.retention import RetentionConfiguration

if TYPE_CHECKING:
    from powerbert.acceleration.start import accelerate
    from powerbert.elimination.selection import Scoring
    from powerbert.engines.classifier import pipeline
    from powerbert.engines.reranker import reranker
    from powerbert.modeling.apply import apply, remove
    from powerbert.modeling.packing import pack, unpack
    from powerbert.modeling.storage import load, save
    from powerbert.modeling.trace import trace

__version__ = "0.1.0"
__all__ = ["PowerBertError", "RetentionConfiguration", "Scoring", "accelerate", "apply", "load", "pack", "pipeline"]
__all__ += ["remove", "reranker", "save", "trace", "unpack"]

_HOMES = {
    "accelerate": "acceleration.start",
    "Scoring": "elimination.selection",
    "pipeline": "engines.classifier",
    "reranker": "engines.reranker",
    "trace": "modeling.trace",
    **dict.fromkeys(("apply", "remove"), "modeling.apply"),
    **dict.fromkeys(("load", "save"), "modeling.storage"),
    **dict.fromkeys(("pack", "unpack"), "modeling.packing"),
}


def __getattr__(name: str) -> Any:
    """Import torch and transformers only when a name needs them: `powerbert --help` stays instant."""
    if name not in _HOMES:
        raise AttributeError(f"module 'powerbert' has no attribute {name!r}")
    return getattr(import_module(f"powerbert.{_HOMES[name]}"), name)

"""What the paper compares with, each a step from a fine-tuned model folder to a model folder.

    distilbert("fine-tuned", data, "six", encoders=6)
    head_prune("fine-tuned", data, "half", heads=72)

All train on labels and on the fine-tuned model's answers, resume, and are exported, measured and served like any model.
Head-WS and Rand-WS are `retrain` with `strategy="head-ws"` or `"rand-ws"`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from powerbert.baselines.distil import distilbert
    from powerbert.baselines.heads import head_prune
    from powerbert.baselines.patient import bert_pkd
    from powerbert.baselines.plain import first_k, truncate
    from powerbert.baselines.students import StudentOptions

__all__ = ["StudentOptions", "bert_pkd", "distilbert", "first_k", "head_prune", "truncate"]

_HOMES = {
    "StudentOptions": "students",
    "bert_pkd": "patient",
    "distilbert": "distil",
    "head_prune": "heads",
    **dict.fromkeys(("first_k", "truncate"), "plain"),
}


def __getattr__(name: str) -> Any:
    """Import torch and transformers only when a name needs them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'powerbert.baselines' has no attribute {name!r}")
    return getattr(import_module(f"powerbert.baselines.{_HOMES[name]}"), name)

"""The paper's three training steps, and `anytime`, one training for several budgets.

    data = Data.read("train.csv", "dev.csv", text="review", label="stars")
    finetune("encoder", data, "one")
    search("one", data, "two", SearchOptions(regulariser=0.05))
    result = retrain("two", data, "three")
    result.evaluation.value, result.retention

A step says what it does, and how long it will take, through the logger "powerbert.training".
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from powerbert.training.options import AnytimeOptions, Options, RetrainOptions, SearchOptions

if TYPE_CHECKING:
    from powerbert.training.data import Data, Evaluation
    from powerbert.training.runner import StepResult
    from powerbert.training.steps import anytime, finetune, retrain, search
    from powerbert.training.trainer import InterruptedRun

__all__ = ["AnytimeOptions", "Options", "RetrainOptions", "SearchOptions"]
__all__ += ["Data", "Evaluation", "InterruptedRun", "StepResult", "anytime", "finetune", "retrain", "search"]

_HOMES = {"Data": "data", "Evaluation": "data", "InterruptedRun": "trainer"}


def __getattr__(name: str) -> Any:
    """Import torch and transformers only when a name needs them."""
    if name not in __all__:
        raise AttributeError(f"module 'powerbert.training' has no attribute {name!r}")
    return getattr(import_module(f"powerbert.training.{_HOMES.get(name, 'steps')}"), name)

"""The studies by name: what each shows, and what it needs. Nothing heavy is imported until one runs."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from powerbert.errors import PowerBertError


class Study(NamedTuple):
    """One study: `study_NAME` of the module NAME, `-` as `_`, takes a `Subject` and gives an `StudyOutcome`."""

    help: str
    reads: tuple[str, ...] = ()  # flags of its own, which its function takes under the same names
    headed: bool = True  # whether the model has to answer the task
    labelled: bool = True  # whether the rows have to be labelled
    trains: bool = False  # whether it trains, and so takes `data` and `options` too
    drawn: int | None = None  # rows that are drawn unless the user says how many; None: all


STUDIES: dict[str, Study] = {
    "redundancy": Study("how alike the word-vectors of each encoder are", headed=False, labelled=False),
    "cls-position": Study("the metric when another position is read in the place of CLS"),
    "mutual-information": Study(
        "what eliminating the k-th most significant word at encoder j does to the answers",
        reads=("ranks", "encoders"),
        labelled=False,
        drawn=500,
    ),
    "examples": Study("a few inputs, and what survives of them", reads=("retention", "inputs")),
    "lengths": Study("the paper's N, and what leaving out PAD alone gives", headed=False, labelled=False),
    "selection": Study(
        "Attn-WS, Head-WS and Rand-WS, each re-trained at one configuration",
        reads=("retention", "train", "train_rows", "threshold"),
        trains=True,
    ),
    "pareto": Study(
        "metric against time of PoWER-BERT and of every baseline, all trained and timed",
        reads=("train", "train_rows", "methods", "seeds"),
        trains=True,
    ),
}


def find_study(name: str) -> Study:
    """What the study of that name needs."""
    if name not in STUDIES:
        raise PowerBertError("unknown study", got=name, rule="one of " + ", ".join(STUDIES))
    return STUDIES[name]


def study_function(name: str) -> Callable[..., Any]:
    """The function that does it."""
    module = name.replace("-", "_")
    return getattr(import_module(f"powerbert.studies.{module}"), f"study_{module}")

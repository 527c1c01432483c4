"""Logits to scores to the names of labels, as transformers' text-classification pipeline decides it."""

from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

from powerbert.errors import PowerBertError

FUNCTIONS = ("softmax", "sigmoid", "none")

Label = dict[str, Any]  # label and score


def function_of(
    problem_type: str | None, labels: int, activation: str | None = None, *, asked: str | None = None
) -> str:
    """What becomes of the logits: as the model is made for, unless the caller asks for another function.

    activation: of a CrossEncoder. "none" of several labels is what all of them have, and does not make them numbers.
    """
    if asked is not None:
        if asked not in FUNCTIONS:
            raise PowerBertError("unknown function_to_apply", got=asked, rule="one of " + ", ".join(FUNCTIONS))
        return asked
    if activation is not None and (labels == 1 or activation != "none"):
        return activation
    if problem_type == "regression":
        return "none"
    return "sigmoid" if problem_type == "multi_label_classification" or labels == 1 else "softmax"


def scores(logits: list[float], function: str) -> list[float]:
    """What becomes of the logits of a text; a few numbers, for which numpy would be the slow way."""
    if function == "none":
        return logits
    if function == "sigmoid":
        return [1 / (1 + exp(-x)) if x > 0 else exp(x) / (1 + exp(x)) for x in logits]
    most = max(logits)
    shares = [exp(x - most) for x in logits]
    total = sum(shares)
    return [share / total for share in shares]


def ranked(found: Sequence[float], names: Mapping[int, str], count: int | None = None) -> list[Label]:
    """So many labels with their scores, the best first; of equal scores the first label."""
    order = sorted(range(len(found)), key=lambda i: -found[i])
    return [{"label": names.get(i, f"LABEL_{i}"), "score": found[i]} for i in order[:count]]

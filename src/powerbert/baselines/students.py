"""Students: models of some of a teacher's encoders, with its embeddings and its head; and what is common to theirs.

Paper: Baseline methods

A student is a model like any other, with fewer encoders in its configuration: plain transformers loads its folder.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any

import numpy

from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.modeling.apply import base_of, encoders_of
from powerbert.modeling.families import FAMILIES, family_of
from powerbert.training.options import RetrainOptions


@dataclass(frozen=True)
class StudentOptions(RetrainOptions):
    """Options of a distillation into fewer encoders: those of re-training, so that no method is favoured."""

    hidden_weight: Annotated[float, "Weight of the distance to the teacher's hidden states; 0: none."] = 1.0


def check_depth(encoders: int, of: int, least: int = 1) -> None:
    """Refuse a number of encoders that does not make a smaller model."""
    if isinstance(encoders, bool) or not isinstance(encoders, int) or not least <= encoders < of:
        rule = f"a whole number from {least} to {of - 1}: the model has {of}"
        raise PowerBertError("there is no such number of encoders", got=encoders, rule=rule)


def alternate(encoders: int, of: int) -> list[int]:
    """The encoders, numbered from 1, of a DistilBERT: evenly spread, the first and the last among them.

    >>> alternate(6, of=12)
    [1, 3, 5, 8, 10, 12]
    """
    return [int(place) + 1 for place in numpy.linspace(0, of - 1, encoders).round()]


def student_of(teacher: Any, chosen: Sequence[int]) -> Any:
    """A copy of the teacher with the chosen encoders alone, numbered from 1."""
    family = family_of(base_of(teacher))
    if not family.alike:
        serves = ", ".join(name for name, each in FAMILIES.items() if each.alike)
        what, got = "encoders of this family of models cannot change their places", teacher.config.model_type
        raise UnsupportedModelError(what, got=got, rule=f"possible in {serves}")
    student = copy.deepcopy(teacher)
    layers = attrgetter(family.layers)(base_of(student))
    for place in reversed(range(encoders_of(teacher))):
        if place + 1 not in chosen:
            del layers[place]
    student.config.num_hidden_layers = len(layers)
    return student

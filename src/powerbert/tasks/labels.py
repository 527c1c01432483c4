"""Labels as files write them: an index, a number, a name. What comes out is a class index or a float."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from powerbert.tasks.task import Task

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MAX_CLASSES = 1000


class BadValueError(Exception):
    """A value that cannot be used; the caller knows the row and makes it a DataError."""

    def __init__(self, what: str, rule: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.rule, self.remedy = what, rule, remedy


def is_missing(value: object) -> bool:
    """Whether a row has no label at all."""
    return value is None or (isinstance(value, str) and not value.strip())


def lookup(task: Task) -> dict[str, int]:
    """Name of a class -> index; unless the names must be exact also casefolded name, alias and index."""
    known = {name: index for index, name in enumerate(task.labels or ())}
    if task.exact_labels:
        return known
    loose = {name.casefold(): index for name, index in known.items()} | dict(task.label_aliases)
    # A class may itself be called "2" (stars "1" to "5"): then a number is a name, never an index.
    numbered = any(NUMBER.fullmatch(name) for name in known)
    indices = {} if numbered else {str(index): index for index in known.values()}
    if len(known) == 2 and not numbered:
        indices |= {"false": 0, "true": 1}
    return indices | loose | known


def class_index(value: object, known: dict[str, int], task: Task) -> int:
    """The index of a class given by name, alias, index or numeric string."""
    index = known.get(value.strip()) if isinstance(value, str) else None
    if index is None:
        name = class_name(value)
        index = known.get(name if task.exact_labels else name.casefold(), known.get(name))
    if index is None:
        names = task.labels or ()
        shown = [name if task.exact_labels else f"{i} {name}" for i, name in enumerate(names[:10])]
        shown += ["…"] if len(names) > 10 else []
        remedy = "a class must occur in the training data" if task.exact_labels else "give index or name"
        raise BadValueError("the label is unknown", f"labels are {', '.join(shown)}", remedy)
    return index


def class_name(value: object) -> str:
    """The name of a class in a user's own data: text as it is, 1 and 1.0 as "1"."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        text = value.strip()
        if text.casefold() == "nan" or NUMBER.fullmatch(text):
            return _whole(float(text), text)
        return text
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _whole(value, repr(value))
    raise BadValueError("the label is neither text nor a number")


def same_labels(own: Sequence[str], asked: Sequence[str]) -> bool:
    """Whether two lists name the same classes in order; case counts only where two names differ by it."""
    folded = [name.casefold() for name in own]
    alike = folded == [name.casefold() for name in asked] and len({*folded}) == len(folded)
    return alike or list(own) == list(asked)


def discover(names: Iterable[str]) -> tuple[str, ...]:
    """The class names of a user's own training data: sorted, as numbers if they all are whole numbers."""
    found = set(names)
    if all(re.fullmatch(r"[+-]?\d{1,18}", name, re.ASCII) for name in found):
        return tuple(sorted(found, key=lambda name: (int(name), name)))
    return tuple(sorted(found))


def real(value: object, label_range: Sequence[float] | None) -> float:
    """A finite number in range, given as a number or a numeric string."""
    if isinstance(value, str):
        text = value.strip()
        if not NUMBER.fullmatch(text) and text.casefold().lstrip("+-") not in ("nan", "inf", "infinity"):
            raise BadValueError("the label is not a number", "a regression task has numbers as labels")
        value = float(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadValueError("the label is not a number", "a regression task has numbers as labels")
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond the floats
        number = math.inf
    if not math.isfinite(number):
        raise BadValueError("the label is not finite", "labels are finite numbers")
    if label_range is not None and not label_range[0] <= number <= label_range[1]:
        raise BadValueError(
            "the label is out of range", f"labels are between {label_range[0]:g} and {label_range[1]:g}"
        )
    return number


def _whole(number: float, text: str) -> str:
    """A number as the name of a class: whole, so that 1, 1.0 and "1.0" are one class."""
    if not math.isfinite(number):
        raise BadValueError("the label is not finite", "a class is a name or a whole number")
    if number != int(number):
        raise BadValueError(
            "the label is not a class", "a class is a name or a whole number", "for scores use a regression task"
        )
    return text if text.lstrip("+-").isdigit() else str(int(number))

"""Retention configurations: how many word-vectors each encoder retains.

Paper: Retention Configuration
Paper: PoWER-BERT Components
Paper: Loss Function
Paper: Comparison to BERT

A configuration is either *absolute*, the paper's counts (l_1, ..., l_L) for inputs of at most N
word-vectors, or *relative*, a fraction of each input's own real length. Fractions are held as
whole ten-thousandths, so that every engine computes the same count with integer arithmetic:
0.07 of 100 word-vectors is 7, never the 8 that ceil(0.07 * 100.0) gives in floating point.
"""

from __future__ import annotations

import itertools
import json
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

from powerbert.errors import RetentionError

Number = TypeVar("Number", int, float)

SCALE = 10_000  # a fraction is a whole number of ten-thousandths
MAX_LENGTH = 1_000_000
MAX_ENCODERS = 1_000
MAX_TEXT = 20_000  # characters of a configuration given as text


@dataclass(frozen=True)
class RetentionConfiguration:
    """How many word-vectors each encoder retains; make one with `absolute`, `relative` or `parse`.

    >>> RetentionConfiguration.absolute((7, 7, 7, 7, 4, 4, 4, 4, 2, 2, 2, 2), max_length=12).total()
    52
    >>> RetentionConfiguration.relative((0.9, 0.5)).counts(10)
    (9, 5)
    """

    values: tuple[int, ...]
    """Word-vectors for an absolute configuration, ten-thousandths of the real length for a relative one."""
    max_length: int | None = None
    """N of an absolute configuration; None marks a relative one."""

    def __post_init__(self) -> None:
        if not self.values:
            raise RetentionError("the retention configuration is empty", rule="one entry per encoder")
        for value in (*self.values, *([] if self.max_length is None else [self.max_length])):
            _whole(value, "an entry")
        limit = SCALE if self.max_length is None else self.max_length
        if not 1 <= limit <= MAX_LENGTH:
            raise RetentionError("max_length (N) is out of range", got=limit, rule=f"N is between 1 and {MAX_LENGTH:,}")
        for j, value in enumerate(self.values, 1):
            if not 1 <= value <= limit:
                raise RetentionError(
                    f"encoder {j} cannot retain that many word-vectors",
                    got=value,
                    rule=f"a count is between 1 and N={limit}"
                    if self.max_length is not None
                    else f"ten-thousandths are between 1 and {SCALE}",
                    remedy="CLS is never eliminated, so the least is 1",
                )
        for j, (before, after) in enumerate(itertools.pairwise(self.values), 2):
            if after > before:
                raise RetentionError(
                    "the retention configuration rises",
                    got=f"{self._shown(after)} at encoder {j} after {self._shown(before)}",
                    rule="an eliminated word-vector never comes back, so entries never rise",
                )

    # ---- make ----------------------------------------------------------------------------

    @classmethod
    def absolute(cls, counts: Iterable[int], max_length: int) -> RetentionConfiguration:
        """Take the paper's counts for inputs of at most `max_length` (N) word-vectors."""
        values = tuple(_whole(count, f"the count of encoder {j}") for j, count in _numbered(counts))
        return cls(values, _whole(max_length, "max_length (N)"))

    @classmethod
    def relative(cls, fractions: Iterable[float]) -> RetentionConfiguration:
        """Take a fraction of each input's own real length per encoder, rounded up to 1/10,000."""
        return cls(tuple(_ten_thousandths(value, j) for j, value in _numbered(fractions)))

    @classmethod
    def full(cls, encoders: int) -> RetentionConfiguration:
        """Retain everything at every encoder: the untouched model."""
        return cls.relative([1.0] * _whole(encoders, "the number of encoders"))

    @classmethod
    def from_mass(cls, mass: Iterable[float], max_length: int | None = None) -> RetentionConfiguration:
        """Turn learned masses into a configuration: l_j = ceil(mass_j), at least 1, never rising.

        With `max_length` the masses are word-vectors out of N (the paper); without, fractions.
        """
        masses = [_real(value, f"the mass of encoder {j}") for j, value in _numbered(mass)]
        if max_length is None:
            return cls.relative(_running_minimum([min(max(value, 1 / SCALE), 1.0) for value in masses]))
        max_length = _whole(max_length, "max_length (N)")
        counts = [min(max(math.ceil(value), 1), max_length) for value in masses]
        return cls.absolute(_running_minimum(counts), max_length)

    @classmethod
    def parse(cls, text: str, max_length: int | None = None) -> RetentionConfiguration:
        """Read "80,73,...,3" as counts (needs `max_length`) and "0.9,0.8,...,0.1" as fractions."""
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            raise RetentionError("a retention configuration is text", got=text, rule=f"at most {MAX_TEXT:,} characters")
        words = [word.strip() for word in text.split(",")]
        if any("." in word or "e" in word.lower() for word in words):
            whole = [word for word in words if word.isdigit() and word != "1"]
            if whole:
                raise RetentionError(
                    "counts and fractions are mixed",
                    got=text,
                    rule="decimals mean fractions of the real length, whole numbers mean counts",
                    remedy="write all of one kind, such as 0.9,0.5,0.1",
                )
            return cls.relative([_number(word, text) for word in words])
        counts = [_count(word, text) for word in words]
        if max_length is None:
            raise RetentionError(
                "counts need the length N they are meant for",
                got=text,
                remedy="give max_length, or fractions such as 0.9,0.5,0.1",
            )
        return cls.absolute(counts, max_length)

    # ---- ask -----------------------------------------------------------------------------

    @property
    def is_relative(self) -> bool:
        """Whether the values are fractions of each input's own real length."""
        return self.max_length is None

    @property
    def is_full(self) -> bool:
        """Whether no word-vector is ever eliminated."""
        return min(self.values) >= (SCALE if self.max_length is None else self.max_length)

    @property
    def fractions(self) -> tuple[float, ...]:
        """The share each encoder retains: of the real length if relative, of N if absolute."""
        whole = SCALE if self.max_length is None else self.max_length
        return tuple(value / whole for value in self.values)

    def __len__(self) -> int:
        """Return the number of encoders."""
        return len(self.values)

    def __str__(self) -> str:
        """Write the form that `parse` reads."""
        return ",".join(map(self._shown, self.values))

    def counts(self, length: int) -> tuple[int, ...]:
        """Word-vectors that an input of `length` real ones retains at each encoder."""
        if self.is_relative:
            return tuple(max(1, (length * value + SCALE - 1) // SCALE) for value in self.values)
        return tuple(max(1, min(value, length)) for value in self.values)

    def total(self, length: int | None = None) -> int:
        """Word-vectors processed over all encoders for an input of `length` (default N)."""
        return sum(self.counts(self._length(length)))

    def reduction(self, length: int | None = None) -> float:
        """How many times fewer word-vectors are processed than without elimination."""
        length = self._length(length)
        return len(self) * length / self.total(length)

    def check_encoders(self, encoders: int) -> None:
        """Refuse a configuration whose number of entries is not the model's number of encoders."""
        if len(self) != encoders:
            raise RetentionError(
                "the retention configuration does not fit the model",
                got=f"{len(self)} entries",
                rule=f"one entry per encoder, and the model has {encoders}",
                remedy=f"give {encoders} numbers",
            )

    def _shown(self, value: int) -> str:
        """Write one entry; a fraction always with a point, so that `parse` knows it: 9000 -> 0.9."""
        return str(value) if self.max_length is not None else f"{value / SCALE:.4f}".rstrip("0").ljust(3, "0")

    def _length(self, length: int | None) -> int:
        if length is None:
            length = self.max_length
        if length is None:
            raise RetentionError("a relative configuration has no length of its own", remedy="give length")
        return length

    # ---- store ---------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict for JSON; `from_json` reads it back to an equal configuration."""
        if self.is_relative:
            return {"kind": "relative", "fractions": list(self.fractions)}
        return {"kind": "absolute", "max_length": self.max_length, "counts": list(self.values)}

    @classmethod
    def from_json(cls, data: str | Mapping[str, Any]) -> RetentionConfiguration:
        """Read what `to_json` wrote, as a dict or as JSON text."""
        if isinstance(data, str):
            try:
                data = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise RetentionError("the retention configuration is not JSON", got=str(error)) from error
        if isinstance(data, Mapping):
            match data.get("kind"):
                case "relative" if set(data) == {"kind", "fractions"}:
                    return cls.relative(data["fractions"])
                case "absolute" if set(data) == {"kind", "counts", "max_length"}:
                    return cls.absolute(data["counts"], data["max_length"])
        raise RetentionError(
            "the retention configuration cannot be read",
            got=data,
            rule='JSON is {"kind": "absolute", "max_length": N, "counts": [...]} '
            'or {"kind": "relative", "fractions": [...]}',
        )


def _numbered(values: Iterable[Any]) -> list[tuple[int, Any]]:
    """Number the entries from 1, refusing an endless or scalar sequence."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise RetentionError(
            "a retention configuration is a sequence of numbers", got=values, remedy="use parse for text"
        )
    entries: list[tuple[int, Any]] = []
    for j, value in enumerate(values, 1):
        if j > MAX_ENCODERS:
            raise RetentionError(
                "the retention configuration is too long",
                got=f"more than {MAX_ENCODERS:,} entries",
                rule="one entry per encoder",
            )
        entries.append((j, value))
    return entries


def _whole(value: object, what: str) -> int:
    """Accept any integer type but bool."""
    try:
        if type(value).__name__ in ("bool", "bool_"):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise RetentionError(
            f"{what} is not a whole number",
            got=value,
            rule="counts are whole numbers",
            remedy="for fractions of the real length use relative",
        ) from None


def _real(value: object, what: str) -> float:
    """Accept any finite number but bool."""
    try:
        if type(value).__name__ in ("bool", "bool_") or isinstance(value, str | bytes):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise RetentionError(f"{what} is not a number", got=value) from None
    if not math.isfinite(number):
        raise RetentionError(f"{what} is not finite", got=number)
    return number


def _ten_thousandths(value: object, encoder: int) -> int:
    """Round a fraction in (0, 1] up to a whole number of ten-thousandths.

    The decimal text of the float is what the user wrote: 0.07 is 700, not ceil(700.0000000000001).
    """
    number = _real(value, f"the fraction of encoder {encoder}")
    if not 0 < number <= 1:
        raise RetentionError(
            f"the fraction of encoder {encoder} is out of range",
            got=number,
            rule="a fraction is above 0 and at most 1",
            remedy="for counts of word-vectors use absolute with max_length",
        )
    return math.ceil(Decimal(repr(number)) * SCALE)


def _running_minimum(values: Sequence[Number]) -> list[Number]:
    return [min(values[: j + 1]) for j in range(len(values))]


def _number(word: str, text: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise RetentionError(
            "the retention configuration cannot be read", got=text, rule="numbers separated by commas"
        ) from None


def _count(word: str, text: str) -> int:
    digits = word.removeprefix("-").removeprefix("+")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        _number(word, text)
        raise RetentionError("a count is not a whole number", got=word, rule="counts are plain whole numbers")
    return int(word)

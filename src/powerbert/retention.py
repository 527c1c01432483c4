"""Retention configurations: how many word-vectors each encoder retains.

Paper: Retention Configuration
Paper: PoWER-BERT Components
Paper: Loss Function
Paper: Comparison to BERT

A configuration is either *absolute*, the paper's counts (l_1, ..., l_L) for inputs of at most N
word-vectors, or *relative*, a fraction of each input's own real length. Fractions are held as
whole ten-thousandths, so that every engine computes the same count with integer arithmetic:
0.07 of 100 word-vectors is 7, never the 8 that ceil(0.07 * 100.0) gives in floating point.

An entry of 0 leaves its encoder out, and with it all encoders after it: what encoder j - 1 retained is what the
head reads. An encoder that retains CLS alone still reads all of its weights; one that is left out costs nothing.
"""

from __future__ import annotations

import itertools
import json
import math
import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from powerbert.errors import RetentionError

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

    values: tuple[int, ...]  # of an absolute one word-vectors, of a relative one ten-thousandths of the real length
    max_length: int | None = None  # N of an absolute configuration; None marks a relative one

    def __post_init__(self) -> None:
        if not self.values:
            raise RetentionError("the retention configuration is empty", rule="one entry per encoder")
        for value in (*self.values, self._most):
            _whole(value, "an entry")
        if not 1 <= self._most <= MAX_LENGTH:
            what, rule = "max_length (N) is out of range", f"N is between 1 and {MAX_LENGTH:,}"
            raise RetentionError(what, got=self._most, rule=rule)
        kind = "ten-thousandths are between 1 and " if self.is_relative else "a count is between 1 and N="
        for j, value in enumerate(self.values, 1):
            if not (j == 1) <= value <= self._most:
                what = f"encoder {j} cannot retain that many word-vectors"
                remedy = "CLS is never eliminated, so the least is 1; after encoder 1 a 0 leaves encoders out"
                raise RetentionError(what, got=value, rule=f"{kind}{self._most}", remedy=remedy)
        for j, (before, after) in enumerate(itertools.pairwise(self.values), 2):
            if after > before:
                got = f"{self._shown(after)} at encoder {j} after {self._shown(before)}"
                rule = "an eliminated word-vector never comes back, so entries never rise"
                raise RetentionError("the retention configuration rises", got=got, rule=rule)

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
        """Retain everything at every encoder: the full model."""
        return cls.relative([1.0] * _whole(encoders, "the number of encoders"))

    @classmethod
    def from_mass(cls, mass: Iterable[float], max_length: int | None = None) -> RetentionConfiguration:
        """Turn learned masses into a configuration: l_j = ceil(mass_j), at least 1, never rising.

        With `max_length` the masses are word-vectors out of N (the paper); without, fractions.
        """
        masses = (_real(value, f"the mass of encoder {j}") for j, value in _numbered(mass))
        falling = itertools.accumulate(masses, min)
        if max_length is None:
            return cls.relative(min(max(value, 1 / SCALE), 1.0) for value in falling)
        max_length = _whole(max_length, "max_length (N)")
        return cls.absolute([min(max(math.ceil(value), 1), max_length) for value in falling], max_length)

    @classmethod
    def parse(cls, text: str, max_length: int | None = None) -> RetentionConfiguration:
        """Read "80,73,...,3" as counts (needs `max_length`) and "0.9,0.8,...,0.1" as fractions."""
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            raise RetentionError("a retention configuration is text", got=text, rule=f"at most {MAX_TEXT:,} characters")
        words = [word.strip() for word in text.split(",")]
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            what = "the retention configuration cannot be read"
            raise RetentionError(what, got=text, rule="numbers separated by commas") from None
        if any("." in word or "e" in word.lower() for word in words):
            if any(word.isdigit() and word not in ("0", "1") for word in words):
                rule = "decimals mean fractions of the real length, whole numbers mean counts"
                remedy = "write all of one kind, such as 0.9,0.5,0.1"
                raise RetentionError("counts and fractions are mixed", got=text, rule=rule, remedy=remedy)
            return cls.relative(numbers)
        for word in words:
            if not re.fullmatch(r"[+-]?[0-9]{1,18}", word):
                raise RetentionError("a count is not a whole number", got=word, rule="counts are plain whole numbers")
        if max_length is None:
            remedy = "give max_length, or fractions such as 0.9,0.5,0.1"
            raise RetentionError("counts need the length N they are meant for", got=text, remedy=remedy)
        return cls.absolute(map(int, words), max_length)

    @property
    def is_relative(self) -> bool:
        """Whether the values are fractions of each input's own real length."""
        return self.max_length is None

    @property
    def is_full(self) -> bool:
        """Whether no word-vector is ever eliminated."""
        return min(self.values) >= self._most

    @property
    def depth(self) -> int:
        """How many encoders run; those after them are left out."""
        return len(self) - self.values.count(0)

    @property
    def running(self) -> RetentionConfiguration:
        """The configuration of the encoders that run."""
        return self if self.depth == len(self) else RetentionConfiguration(self.values[: self.depth], self.max_length)

    @property
    def fractions(self) -> tuple[float, ...]:
        """The share each encoder retains: of the real length if relative, of N if absolute."""
        return tuple(value / self._most for value in self.values)

    @property
    def _most(self) -> int:
        """What stands for every word-vector."""
        return SCALE if self.max_length is None else self.max_length

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        """Write the form that `parse` reads."""
        return ",".join(map(self._shown, self.values))

    def counts(self, length: int) -> tuple[int, ...]:
        """Word-vectors that an input of `length` real ones retains at each encoder; 0 where it is left out."""
        if self.is_relative:
            return tuple(value and max(1, (length * value + SCALE - 1) // SCALE) for value in self.values)
        return tuple(min(value, max(1, length)) for value in self.values)

    def total(self, length: int | None = None) -> int:
        """Word-vectors processed over all encoders for an input of `length` (default N)."""
        return sum(self.counts(self._length(length)))

    def reduction(self, length: int | None = None) -> float:
        """How many times fewer word-vectors are processed than without elimination."""
        return len(self) * self._length(length) / self.total(length)

    def check_encoders(self, encoders: int) -> None:
        """Refuse a configuration whose number of entries is not the model's number of encoders."""
        if len(self) != encoders:
            what, got = "the retention configuration does not fit the model", f"{len(self)} entries"
            rule = f"one entry per encoder, and the model has {encoders}"
            raise RetentionError(what, got=got, rule=rule, remedy=f"give {encoders} numbers")

    def _shown(self, value: int) -> str:
        """Write one entry; a fraction always with a point, so that `parse` knows it: 9000 -> 0.9."""
        return str(value) if self.max_length is not None else f"{value / SCALE:.4f}".rstrip("0").ljust(3, "0")

    def _length(self, length: int | None) -> int:
        length = self.max_length if length is None else length
        if length is None:
            raise RetentionError("a relative configuration has no length of its own", remedy="give length")
        return length

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict for JSON; `from_json` reads it back to an equal configuration."""
        if self.is_relative:
            return {"kind": "relative", "fractions": list(self.fractions)}
        return {"kind": "absolute", "max_length": self.max_length, "counts": list(self.values)}

    @classmethod
    def from_json(cls, data: str | Mapping[str, Any]) -> RetentionConfiguration:
        """Read what `to_json` wrote, as a dict or as JSON text."""
        try:
            found: Any = json.loads(data) if isinstance(data, str) else data
        except (ValueError, RecursionError) as error:
            raise RetentionError("the retention configuration is not JSON", got=str(error)) from error
        match found:
            case {"kind": "relative", "fractions": fractions, **others} if not others:
                return cls.relative(fractions)
            case {"kind": "absolute", "counts": counts, "max_length": max_length, **others} if not others:
                return cls.absolute(counts, max_length)
        forms = '{"kind": "absolute", "max_length": N, "counts": [...]} or {"kind": "relative", "fractions": [...]}'
        raise RetentionError("the retention configuration cannot be read", got=found, rule=f"JSON is {forms}")


def _numbered(values: Iterable[Any]) -> list[tuple[int, Any]]:
    """Number the entries from 1, refusing an endless or scalar sequence."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        what = "a retention configuration is a sequence of numbers"
        raise RetentionError(what, got=values, remedy="use parse for text")
    entries = list(enumerate(itertools.islice(values, MAX_ENCODERS + 1), 1))
    if len(entries) > MAX_ENCODERS:
        got = f"more than {MAX_ENCODERS:,} entries"
        raise RetentionError("the retention configuration is too long", got=got, rule="one entry per encoder")
    return entries


def _whole(value: object, what: str) -> int:
    """Accept any integer type but bool."""
    try:
        return operator.index(_plain(value))
    except TypeError:
        rule, remedy = "counts are whole numbers", "for fractions of the real length use relative"
        raise RetentionError(f"{what} is not a whole number", got=value, rule=rule, remedy=remedy) from None


def _real(value: object, what: str) -> float:
    """Accept any finite number but bool."""
    try:
        number = float(_plain(value))
    except (TypeError, ValueError, OverflowError):
        raise RetentionError(f"{what} is not a number", got=value) from None
    if not math.isfinite(number):
        raise RetentionError(f"{what} is not finite", got=number)
    return number


def _plain(value: Any) -> Any:
    """The value itself, which is no bool, not numpy's own either, and no text."""
    if type(value).__name__ in ("bool", "bool_") or isinstance(value, str | bytes):
        raise TypeError
    return value


def _ten_thousandths(value: object, encoder: int) -> int:
    """Round a fraction in [0, 1] up to a whole number of ten-thousandths.

    The decimal text of the float is what the user wrote: 0.07 is 700, not ceil(700.0000000000001).
    """
    number = _real(value, f"the fraction of encoder {encoder}")
    if not 0 <= number <= 1:
        what, rule = f"the fraction of encoder {encoder} is out of range", "a fraction is between 0 and 1"
        remedy = "for counts of word-vectors use absolute with max_length"
        raise RetentionError(what, got=number, rule=rule, remedy=remedy)
    return math.ceil(Decimal(repr(number)) * SCALE)

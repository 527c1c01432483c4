"""The rule for N where none is given.

Paper: Maximum Input Sequence Length
"""

from __future__ import annotations

from collections.abc import Iterable

from powerbert.errors import DataError

LENGTHS = (64, 128, 256, 512)
"""The values of N that the paper chooses from."""


def covering_length(lengths: Iterable[int]) -> int:
    """N' of the paper: the least length such that at most 1 % of the inputs are longer.

    >>> covering_length([10] * 99 + [500])
    10
    """
    longest_first = sorted(lengths, reverse=True)
    if not longest_first:
        raise DataError("there are no inputs to choose N from")
    return longest_first[len(longest_first) // 100]  # whole numbers: exactly 1 % is still allowed


def choose_max_length(lengths: Iterable[int], limit: int | None = None) -> int:
    """N: the one of 64, 128, 256, 512 nearest to N', and the larger of two that are equally near.

    `limit` is the longest input of the model, where that is less than 512. Nearest can be less than N':
    up to half of a gap is cut off, as in the paper.

    >>> choose_max_length([96])
    128
    """
    wanted = covering_length(lengths)
    choices = [length for length in LENGTHS if limit is None or length <= limit]
    if not choices:
        return int(limit or LENGTHS[0])  # a model shorter than 64: all it can read
    return min(choices, key=lambda length: (abs(length - wanted), -length))

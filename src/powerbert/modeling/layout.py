"""The two ways in which the word-vectors of a batch lie: padded, or packed without PAD.

*Padded* is one block (batch, width) with a mask: it trains, is traced and serves any head. *Packed* has all
rows of a batch in one matrix. Inputs of equal length attend together, and by the retention configuration
they retain equally many word-vectors: such a group needs no mask and stays a group to the end.
Probabilities are computed for a few inputs at a time, which costs half of what it costs for all
(docs/results/shapes.md).
"""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from powerbert.elimination.extract import extract
from powerbert.modeling.families.base import Projections
from powerbert.modeling.ops import Stage
from powerbert.retention import RetentionConfiguration

CELLS = 1 << 18
"""Probabilities computed at a time, 1 MiB: a core's cache holds them until the values are mixed."""

STEPS = ((32, 1), (64, 4), (128, 8), (512, 16), (1024, 32), (2048, 64), (sys.maxsize, 128))
"""Up to so many rows, the number of rows is a multiple of the step: 2 to 3 % more rows on the average."""


class Block(NamedTuple):
    """Inputs that attend together in one encoder, and what they retain there."""

    positions: Tensor  # (inputs, length), of each row in the whole input
    lengths: Tensor | None  # (inputs,) real rows; None if no row is PAD
    real: Tensor | None  # (inputs, length) bool, False at PAD; None if no row is PAD
    counts: Tensor | None  # (inputs,) word-vectors to retain; None if all retain `width`
    width: int  # the most that any input retains
    eliminates: bool  # whether any input loses a word-vector
    cls: bool  # whether CLS alone is retained
    first: int = 0  # the block's first row among those of the batch


_Rows = Sequence[Tensor | None]
"""For each block the rows (inputs, width) that it goes on with, None for all."""


class Padded(NamedTuple):
    """One block: inputs right-padded to the longest, CLS first."""

    hidden: Tensor  # (batch, width, hidden)
    positions: Tensor  # (batch, width), of each row in the whole input
    lengths: Tensor  # (batch,) real rows
    padded: bool  # whether any row is PAD
    stages: list[Stage]

    def blocks(self, j: int) -> list[Block]:
        """The batch as encoder j meets it."""
        stage, lengths, real = self.stages[j - 1], None, None
        if self.padded:
            lengths = self.lengths
            real = torch.arange(self.positions.shape[1], device=lengths.device) < lengths[:, None]
        counts = stage.counts if stage.padded else None
        return [Block(self.positions, lengths, real, counts, stage.width, stage.eliminates, stage.cls)]

    def split(self, heads: Projections, blocks: list[Block], asking: _Rows) -> Iterable[Projections]:
        """Projections block by block."""
        return (heads,)

    def join(self, mixed: list[Tensor]) -> Tensor:
        """What the blocks mixed, (inputs, queries, hidden) each, in the shape of `hidden`."""
        return mixed[0]

    def rows(self, blocks: list[Block], chosen: _Rows) -> Tensor | None:
        """Rows of each block as an index into `hidden`: (batch, width), None for all."""
        return chosen[0]

    def extract(self, j: int, blocks: list[Block], retained: _Rows) -> Self:
        """Go on with the rows that encoder j retains."""
        index = self.rows(blocks, retained)
        if index is None:
            return self
        hidden, positions = extract(self.hidden, index), self.positions.gather(1, index)
        stage = self.stages[j - 1]
        return self._replace(hidden=hidden, positions=positions, lengths=stage.counts, padded=stage.padded)

    def cls(self) -> Tensor:
        """CLS of each input: (batch, 1, hidden)."""
        return self.hidden[:, :1]


class _Group(NamedTuple):
    """Inputs of equal length; their rows stand together."""

    positions: Tensor  # (inputs, length), of each row in the whole input
    counts: tuple[int, ...]  # word-vectors that each encoder retains
    first: int  # the first row of the group


class Packed(NamedTuple):
    """No PAD: the rows of all inputs in one matrix, short inputs first, filled up to one of a few sizes."""

    hidden: Tensor  # (1, rows, hidden)
    positions: Tensor  # (1, rows), of each row in the whole input
    groups: list[_Group]
    places: Tensor | None  # (batch,), where each input stands among them; None if in the caller's order
    cells: int  # probabilities of one head to compute at a time

    @classmethod
    def of(cls, words: Padded, retention: RetentionConfiguration, cells: int) -> Self:
        """Pack embedded words for a head that reads CLS alone."""
        lengths = sorted(Counter(words.lengths.tolist()).items())
        sizes = [(inputs, length, (*retention.counts(length)[:-1], 1)) for length, inputs in lengths]
        hidden, positions, places = words.hidden.flatten(0, 1), words.positions.flatten(), None
        if not words.padded:
            hidden, positions = _filled([hidden]), _filled([positions])
        else:
            width, order = words.positions.shape[1], words.lengths.argsort(stable=True)
            columns = torch.arange(width, device=order.device)
            rows = _filled([(order[:, None] * width + columns)[columns < words.lengths[order, None]]])
            hidden, positions, places = hidden[rows], positions[rows], order.argsort()
        return cls(hidden[None], positions[None], _grouped(positions, sizes), places, cells)

    def blocks(self, j: int) -> list[Block]:
        """A group that eliminates nothing in encoder j as a whole, of the others a few inputs at a time."""
        blocks = []
        for positions, counts, first in self.groups:
            (inputs, length), width = positions.shape, counts[j - 1]
            step = max(1, self.cells // length**2) if 1 < width < length else inputs
            for start in range(0, inputs, step):
                few = positions if step >= inputs else positions[start : start + step]
                row = first + start * length
                blocks.append(Block(few, None, None, None, width, width < length, width == 1, row))
        return blocks

    def split(self, heads: Projections, blocks: list[Block], asking: _Rows) -> Iterable[Projections]:
        """Projections block by block: (inputs, heads, length, head) out of (1, heads, rows, head)."""
        asked = 0
        for block, rows in zip(blocks, asking, strict=True):
            inputs, length = block.positions.shape
            width = length if rows is None else rows.shape[1]
            key, value = (_cut(each, block.first, inputs, length) for each in (heads.key, heads.value))
            yield Projections(_cut(heads.query, asked, inputs, width), key, value)
            asked += inputs * width

    def join(self, mixed: list[Tensor]) -> Tensor:
        """What the blocks mixed, (inputs, queries, hidden) each, in the shape of `hidden`."""
        return _filled([part.flatten(0, 1) for part in mixed])[None]

    def rows(self, blocks: list[Block], chosen: _Rows) -> Tensor | None:
        """Rows of each block as rows of the matrix: (1, rows), None for all."""
        if all(each is None for each in chosen):
            return None
        parts, device = [], self.positions.device
        for block, each in zip(blocks, chosen, strict=True):
            step = 1 if each is None else block.positions.shape[1]
            starts = torch.arange(block.first, block.first + block.positions.numel(), step, device=device)
            parts.append(starts if each is None else (starts[:, None] + each).flatten())
        return _filled(parts)[None]

    def extract(self, j: int, blocks: list[Block], retained: _Rows) -> Self:
        """Go on with the rows that encoder j retains."""
        index = self.rows(blocks, retained)
        if index is None:
            return self
        hidden, positions = (each[0].index_select(0, index[0])[None] for each in (self.hidden, self.positions))
        sizes = [(len(group.positions), group.counts[j - 1], group.counts) for group in self.groups]
        return self._replace(hidden=hidden, positions=positions, groups=_grouped(positions[0], sizes))

    def cls(self) -> Tensor:
        """CLS of each input after the last encoder, in the caller's order: (batch, 1, hidden)."""
        inputs = sum(len(group.positions) for group in self.groups)
        rows = self.hidden[0, :inputs]
        return (rows if self.places is None else rows[self.places])[:, None]


Words = Padded | Packed


def _grouped(positions: Tensor, sizes: list[tuple[int, int, tuple[int, ...]]]) -> list[_Group]:
    """Groups of so many inputs, of such a length, that retain so much, over rows one after another."""
    groups, first = [], 0
    for inputs, length, counts in sizes:
        end = first + inputs * length
        groups.append(_Group(positions[first:end].view(inputs, length), counts, first))
        first = end
    return groups


def _cut(projected: Tensor, first: int, inputs: int, length: int) -> Tensor:
    """Rows of a block out of (1, heads, rows, head): (inputs, heads, length, head)."""
    _, heads, rows, size = projected.shape
    if rows != inputs * length:
        projected = projected[:, :, first : first + inputs * length]
    return projected if inputs == 1 else projected.view(heads, inputs, length, size).transpose(0, 1)


def _filled(parts: list[Tensor]) -> Tensor:
    """The parts (rows, ...) one after another, filled up with zeros to one of a few numbers of rows.

    The kernels of a linear layer are made for a number of rows and cached, 0.6 MB for each number: a stream
    of texts would make some hundred new ones for every batch, which takes time, and gigabytes in the end.
    """
    rows = sum(part.shape[0] for part in parts)
    if missing := -rows % next(step for most, step in STEPS if rows <= most):
        parts = [*parts, parts[0].new_zeros(missing, *parts[0].shape[1:])]
    return parts[0] if len(parts) == 1 else torch.cat(parts)

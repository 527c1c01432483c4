"""The encoder loop of inference, without PAD: all rows of a batch go through the linear layers as one matrix.

Inputs of equal length attend together, and by the retention configuration they retain equally many
word-vectors: a group of them needs no mask and stays a group to the end. Probabilities are computed
for a few inputs at a time, which costs half of what it costs for all (docs/results/inference.md).
Only for families whose positions live in the embeddings, and heads that read CLS alone.
"""

from __future__ import annotations

import sys
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from powerbert.elimination.extract import extract, extract_queries
from powerbert.elimination.selection import STRATEGIES, select
from powerbert.modeling.encoder import Elimination, Words, attention_probabilities, mix
from powerbert.modeling.families.base import Projections
from powerbert.modeling.schedule import Stage

BLOCK = 1 << 18
"""Probabilities computed at a time, 1 MiB: a core's cache holds them until the values are mixed."""


STEPS = ((32, 1), (64, 4), (128, 8), (512, 16), (1024, 32), (2048, 64), (sys.maxsize, 128))
"""Up to so many rows, the number of rows is a multiple of the step: 2 to 3 % more rows on the average."""


class Group(NamedTuple):
    """Inputs of equal length; their rows stand together in the flat matrix."""

    inputs: int
    positions: Tensor  # (inputs, length), of each row in the whole input
    counts: list[int]  # word-vectors that each encoder retains

    @property
    def rows(self) -> int:
        """Of the flat matrix."""
        return self.positions.numel()


def encode_unpadded(elimination: Elimination, base: Any, words: Words, stages: list[Stage]) -> Tensor:
    """CLS behind the last encoder, (batch, 1, hidden), of a batch that is embedded."""
    family, order = elimination.family, words.lengths.argsort(stable=True)
    groups = _groups(words, order, torch.stack([stage.counts for stage in stages]))
    # (rows, hidden), short inputs first
    flat = words.hidden.flatten(0, 1) if words.real is None else words.hidden[order][words.real[order]]
    flat = _filled([flat])
    encoders = family.encoders(base)
    for j, encoder in enumerate(encoders, 1):
        if j == len(encoders):
            flat = _answer(elimination, encoder, flat, groups)
        else:
            flat, groups = _encode(elimination, j, encoder, flat, groups)
    return flat[: len(order)][order.argsort()][:, None]


def _groups(words: Words, order: Tensor, counts: Tensor) -> list[Group]:
    """Groups from short to long; counts: (encoders, batch)."""
    inputs = zip(words.lengths[order].tolist(), counts[:, order].T.tolist(), strict=True)
    groups = []
    for length, members in groupby(inputs, key=itemgetter(0)):
        retained = [each for _, each in members]
        groups.append(Group(len(retained), words.positions[: len(retained), :length], retained[0]))
    return groups


def _encode(
    elimination: Elimination, j: int, encoder: Any, flat: Tensor, groups: list[Group]
) -> tuple[Tensor, list[Group]]:
    """Encoder j: attend, score, select and extract group by group; the rest for all rows at once."""
    family = elimination.family
    heads = family.project(encoder, flat[None], None, None, flat)
    mixed, residual, after = [], [], []
    for group, start, end in _spans(groups):
        own, rows = _part(heads, group, start, end), flat[start:end]
        if group.counts[j - 1] == group.positions.shape[1]:
            mixed.append(_attend(elimination, encoder, own))
        else:
            answer, index = _eliminate(elimination, encoder, group, own, group.counts[j - 1])
            rows = extract(rows.view(group.inputs, -1, rows.shape[1]), index).flatten(0, 1)
            group = group._replace(positions=group.positions.gather(1, index))
            mixed.append(answer)
        residual.append(rows)
        after.append(group)
    attended = family.attention_output(encoder, _filled(mixed), _filled(residual))
    return family.feed_forward(encoder, attended), after


def _eliminate(
    elimination: Elimination, encoder: Any, group: Group, heads: Projections, count: int
) -> tuple[Tensor, Tensor]:
    """Values mixed for the retained rows, (inputs * count, hidden), and the rows (inputs, count)."""
    score = STRATEGIES[elimination.strategy].score
    lengths = torch.full((group.inputs,), group.positions.shape[1])
    counts = torch.full_like(lengths, count)
    if STRATEGIES[elimination.strategy].static:
        scores = score(None, group.positions, None, elimination.scoring)
        index = select(scores, lengths, counts, count)
        asking = extract(heads.query.transpose(1, 2), index).transpose(1, 2)
        return _attend(elimination, encoder, heads._replace(query=asking)), index
    mixed, rows = [], []
    step = max(1, BLOCK // (heads.query.shape[1] * group.positions.shape[1] ** 2))
    for start in range(0, group.inputs, step):
        block = slice(start, start + step)
        own, positions = Projections(*(each[block] for each in heads)), group.positions[block]
        words = Words(own.query, positions, lengths[block], padded=False)
        probabilities = attention_probabilities(elimination.family, encoder, None, words, own)
        scores = score(probabilities, positions, None, elimination.scoring)
        rows.append(select(scores, lengths[block], counts[block], count))
        mixed.append(mix(extract_queries(probabilities, rows[-1]), own.value).flatten(0, 1))
    return torch.cat(mixed), torch.cat(rows)


def _answer(elimination: Elimination, encoder: Any, flat: Tensor, groups: list[Group]) -> Tensor:
    """The last encoder for CLS alone: (batch and more, hidden), in the order of the groups."""
    family = elimination.family
    cls = torch.cat(
        [torch.arange(start, end, group.positions.shape[1]) for group, start, end in _spans(groups)]
    )
    heads = family.project(encoder, flat[None], cls[None], None, flat)
    mixed, asked = [], 0
    for group, start, end in _spans(groups):
        own = _part(heads, group, start, end)
        query = heads.query[0, :, asked : asked + group.inputs].transpose(0, 1)[:, :, None]
        mixed.append(_attend(elimination, encoder, own._replace(query=query)))
        asked += group.inputs
    attended = family.attention_output(encoder, _filled(mixed), _filled([flat[cls]]))
    return family.feed_forward(encoder, attended)


def _attend(elimination: Elimination, encoder: Any, heads: Projections) -> Tensor:
    """The fused kernel: (inputs * queries, hidden)."""
    scale = elimination.family.scale(encoder, heads.query)
    return scaled_dot_product_attention(*heads, scale=scale).transpose(1, 2).flatten(2).flatten(0, 1)


def _filled(parts: list[Tensor]) -> Tensor:
    """One matrix of the parts (rows, hidden), filled up with zeros to one of a few sizes.

    The kernels of a linear layer are made for a number of rows and cached, 0.6 MB for each number: a stream
    of texts would make some hundred new ones for every batch, which takes time, and gigabytes in the end.
    """
    rows = sum(len(part) for part in parts)
    step = next(step for most, step in STEPS if rows <= most)
    missing = -rows % step
    if missing:
        parts = [*parts, parts[0].new_zeros(missing, parts[0].shape[1])]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _spans(groups: list[Group]) -> list[tuple[Group, int, int]]:
    """Each group with the first of its rows and the first behind it."""
    bounds = pairwise(accumulate((group.rows for group in groups), initial=0))
    return [(group, start, end) for group, (start, end) in zip(groups, bounds, strict=True)]


def _part(heads: Projections, group: Group, start: int, end: int) -> Projections:
    """The rows of a group, (inputs, heads, length, head), out of (1, heads, rows, head)."""
    length = group.positions.shape[1]

    def of(projected: Tensor) -> Tensor:
        rows = projected[0, :, start:end]  # (heads, inputs * length, head)
        return rows.view(len(rows), group.inputs, length, rows.shape[2]).transpose(0, 1)

    whole = heads.query.shape[2] == heads.key.shape[2]
    return Projections(of(heads.query) if whole else heads.query, of(heads.key), of(heads.value))

"""Word-vector selection: which word-vectors an encoder retains.

Paper: Word-vector Selection
Paper: Ablation Study

Rows are right-padded here: row 0 of an input is CLS, its real rows come first, PAD last. Ranking is in
fp32 and a tie goes to the lowest index: by a stable sort, or in a graph by a count that needs none,
because no two runtimes sort ties alike.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

RANDOM_POSITIONS = 1 << 14  # Rand-WS draws an order for so many positions; beyond them it begins again


@dataclass(frozen=True)
class Scoring:
    """Options of the strategies; the defaults are the paper's formula, blind to padding."""

    exclude_self: bool = False  # leave out A_h[w, w], as the authors' release does
    padded_queries_vote: bool = False  # let PAD queries count, as the release does; scores then depend on the padding
    seed: int = 0  # of the random order of Rand-WS


def significance(probabilities: Tensor, real: Tensor | None = None, scoring: Scoring | None = None) -> Tensor:
    """Sig(w) = sum over heads h and words w' of A_h[w', w], in fp32: how much attention w imposes on the others.

    Paper: Attention-based Scoring

    probabilities: (batch, heads, length, length), rows are the queries w' and sum to 1.
    real: (batch, length) bool, False where a row is PAD; None when every row is real. Returns (batch, length).
    """
    scoring = scoring or Scoring()
    if real is None or scoring.padded_queries_vote:
        scores = probabilities.sum(dim=(1, 2), dtype=torch.float32)
    else:
        # Heads first: the votes then weigh one (length, length) matrix instead of one per head. Not as a
        # matrix product, which autocast runs in bf16 and a GPU may round to TF32.
        votes = real.to(torch.float32)[..., None]
        scores = (probabilities.sum(dim=1, dtype=torch.float32) * votes).sum(dim=1)
    if scoring.exclude_self:
        scores = scores - probabilities.diagonal(dim1=2, dim2=3).sum(dim=1, dtype=torch.float32)
    return scores


def attn_ws(probabilities: Tensor | None, positions: Tensor, real: Tensor | None, scoring: Scoring) -> Tensor:
    """Attn-WS: the significance score, from the attention of this very input.

    Paper: Static and Dynamic Strategies
    """
    if probabilities is None:
        raise ValueError("attn-ws scores word-vectors by attention; got no probabilities")
    return significance(probabilities, real, scoring)


def head_ws(probabilities: Tensor | None, positions: Tensor, real: Tensor | None, scoring: Scoring) -> Tensor:
    """Head-WS: the first word-vectors of the input, whatever they say."""
    return -positions.to(torch.float32)


def rand_ws(probabilities: Tensor | None, positions: Tensor, real: Tensor | None, scoring: Scoring) -> Tensor:
    """Rand-WS: positions in one random order, fixed by the seed for every input and encoder."""
    return _random_order(scoring.seed).to(positions.device)[positions % RANDOM_POSITIONS]


Score = Callable[[Tensor | None, Tensor, Tensor | None, Scoring], Tensor]
"""(probabilities (batch, heads, length, length), positions and real (batch, length), scoring) -> (batch, length)."""


class Strategy(NamedTuple):
    """A way to score word-vectors; the most significant are retained."""

    name: str
    title: str  # as the paper writes it
    score: Score
    static: bool  # whether it looks at positions only and needs no attention probabilities


_SIBLINGS = (
    Strategy("attn-ws", "Attn-WS", attn_ws, static=False),
    Strategy("head-ws", "Head-WS", head_ws, static=True),
    Strategy("rand-ws", "Rand-WS", rand_ws, static=True),
)
STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in _SIBLINGS}
"""By name; the first is the paper's own and the default."""


def order(scores: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Rows from most to least significant: CLS first, then by score, PAD last.

    scores: (batch, length); lengths: (batch,), real rows, None if all are. Returns (batch, length).
    """
    return _comparable(scores, lengths).argsort(dim=1, descending=True, stable=True)


def sorted_positions(scores: Tensor, lengths: Tensor) -> Tensor:
    """Sig^pos: the rank of each row in decreasing order of score, 0 for CLS.

    Paper: Soft-extract Layer
    """
    return order(scores, lengths).argsort(dim=1)


def select(scores: Tensor, lengths: Tensor | None, counts: Tensor | None, width: int) -> Tensor:
    """Choose the rows to retain: the top `counts` of each input, in ascending order.

    scores: (batch, length); lengths: (batch,), None if every row is real; counts: (batch,), at most width,
    None if every input retains `width`. Returns row indices (batch, width). An input with fewer than `width`
    retained rows is filled up with other rows after them; the caller treats those as PAD.
    """
    best = order(scores, lengths)[:, :width]
    if counts is None:
        return best.sort(dim=1).values
    # Ranks beyond an input's own count sort after its retained rows, which come out ascending.
    surplus = torch.arange(best.shape[1], device=best.device) >= counts[:, None]
    return (best + surplus * scores.shape[1]).sort(dim=1).values % scores.shape[1]


def select_in_graph(scores: Tensor, lengths: Tensor | None, counts: Tensor, width: int) -> Tensor:
    """`select` without a stable sort, exact in every runtime, whatever its top-k does with ties.

    The least retained score is a value, the same whichever of two equal rows comes first. Rows above
    it are retained; of those level with it, as many as there is room for, from the lowest index.
    """
    scores = _comparable(scores, lengths)
    least = scores.topk(width, dim=1).values.gather(1, counts[:, None] - 1)
    above, level = scores > least, scores == least
    room = counts[:, None] - above.sum(dim=1, keepdim=True)
    retained = above | (level & (level.cumsum(dim=1) <= room))
    # Distinct keys, so no ties: retained rows ascending, then the others to fill up.
    rows = torch.arange(scores.shape[1], device=scores.device)
    keys = torch.where(retained, rows, rows + scores.shape[1])
    return keys.topk(width, dim=1, largest=False).indices


def _comparable(scores: Tensor, lengths: Tensor | None) -> Tensor:
    """Scores in fp32 without NaN, CLS above all and PAD below: (batch, length)."""
    rows = torch.arange(scores.shape[1], device=scores.device)
    finite = scores.to(torch.float32).nan_to_num(-torch.inf, torch.inf, -torch.inf)
    if lengths is not None:
        finite = finite.masked_fill(rows >= lengths[:, None], -torch.inf)
    return finite.masked_fill(rows == 0, torch.inf)


@lru_cache(maxsize=8)
def _random_order(seed: int) -> Tensor:
    return torch.randperm(RANDOM_POSITIONS, generator=torch.Generator().manual_seed(seed)).to(torch.float32)

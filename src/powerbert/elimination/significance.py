"""Significance scores: how much attention each word-vector imposes on the others.

Paper: Attention-based Scoring
"""

from __future__ import annotations

import torch
from torch import Tensor


def significance(
    probabilities: Tensor, real: Tensor | None = None, *, exclude_self: bool = False, padded_queries_vote: bool = False
) -> Tensor:
    """Sig(w) = sum over heads h and words w' of A_h[w', w], in fp32.

    probabilities: (batch, heads, length, length), rows are the queries w' and sum to 1.
    real: (batch, length) bool, False where a row is PAD; None when every row is real.
    exclude_self: leave out A_h[w, w], as the authors' release does.
    padded_queries_vote: let PAD queries count, as the authors' release does; the scores of a text
        then depend on its padding.
    Returns (batch, length).
    """
    if real is None or padded_queries_vote:
        scores = probabilities.sum(dim=(1, 2), dtype=torch.float32)
    else:
        # Heads first: the votes then weigh one (length, length) matrix instead of one per head. Not as a
        # matrix product, which autocast runs in bf16 and a GPU may round to TF32.
        votes = real.to(torch.float32)[..., None]
        scores = (probabilities.sum(dim=1, dtype=torch.float32) * votes).sum(dim=1)
    if exclude_self:
        scores = scores - probabilities.diagonal(dim1=2, dim2=3).sum(dim=1, dtype=torch.float32)
    return scores

"""Soft-extract: retain every word-vector to a learned degree; and the mass of those degrees.

Paper: Soft-extract Layer

The retention parameters r of one encoder are (N,) over sorted positions (the paper) or (bins,) over
relative ranks, so that one set serves inputs of any length. The gradient flows through the
word-vectors and r only: sorted positions are integers. CLS has sorted position 0 and degree 1.
"""

import torch
from torch import Tensor


def soft_extract(rows: Tensor, ranks: Tensor, retention: Tensor) -> Tensor:
    """E_out[i] = r[Sig^pos(w_i)] * E_in[i].

    rows: (batch, length, hidden); ranks: (batch, length), 0 is CLS; retention: (N,) with N >= length.
    """
    if rows.shape[1] > retention.shape[0]:
        raise ValueError(f"soft-extract has {len(retention)} retention parameters; got {rows.shape[1]} word-vectors")
    return rows * _degrees(ranks, ranks, retention)


def soft_extract_relative(rows: Tensor, ranks: Tensor, lengths: Tensor, retention: Tensor) -> Tensor:
    """Soft-extract over relative ranks: rank i of n real word-vectors reads bin floor(i * bins / n).

    rows: (batch, length, hidden); ranks: (batch, length); lengths: (batch,); retention: (bins,).
    """
    bins = retention.shape[0]
    index = (ranks * bins // lengths[:, None]).clamp(max=bins - 1)  # PAD falls into the last bin
    return rows * _degrees(ranks, index, retention)


def _degrees(ranks: Tensor, index: Tensor, retention: Tensor) -> Tensor:
    """Look up r with CLS held at 1: (batch, length) -> (batch, length, 1)."""
    return torch.where(ranks == 0, 1.0, retention[index]).unsqueeze(-1)


def mass(retention: Tensor) -> Tensor:
    """mass(j; r) = sum over k of r_j[k], with CLS (k = 1) held at 1: (..., N) -> (...).

    Paper: Loss Function
    """
    return 1.0 + retention[..., 1:].sum(dim=-1)


def relative_mass(retention: Tensor) -> Tensor:
    """Return the mass as a share of the real length, from bins of relative rank: (..., bins) -> (...)."""
    return retention.mean(dim=-1)


@torch.no_grad()
def project(retention: Tensor) -> None:
    """Bring retention parameters back into [0, 1] in place, after an optimiser's step."""
    retention.clamp_(0.0, 1.0)

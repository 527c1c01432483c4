"""The retention parameters r inside a model, and the optimisers that learn them.

Paper: Loss Function

The parameters live on the model, (L, N) or (L, bins), while the configuration is searched: they are
saved, resumed and averaged over processes with its weights. They belong to encoder j, never to its
module, because ALBERT shares one module among all encoders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from powerbert.elimination.soft_extract import (
    mass,
    project,
    relative_mass,
    soft_extract,
    soft_extract_relative,
)
from powerbert.modeling.apply import apply, remove, search_with
from powerbert.retention import RetentionConfiguration

NAME = "retention_parameters"
CEILING = 2.0
"""How high the decoupled optimiser may lift a parameter; as r it counts as 1. Clipped at 1, a parameter
that the task needs would forget at every step how much: the noise of the gradient alone then drives it
below 1, the more the fewer steps there are (docs/results/training.md)."""


@dataclass(frozen=True)
class SoftExtract:
    """Soft-extract with the parameters of one model; the encoder loop calls it for encoder j."""

    parameters: nn.Parameter
    max_length: int | None

    def __call__(self, j: int, rows: Tensor, ranks: Tensor, lengths: Tensor) -> Tensor:
        """Scale the rows (batch, length, hidden) of encoder j by the parameters of their ranks."""
        r = degrees(self.parameters[j - 1])
        if self.max_length is None:
            return soft_extract_relative(rows, ranks, lengths, r)
        return soft_extract(rows, ranks, r)


def attach(model: Any, encoders: int, size: int, max_length: int | None) -> nn.Parameter:
    """Insert soft-extract layers with r = 1: `size` parameters per encoder, N or bins of relative rank."""
    parameters = nn.Parameter(torch.ones(encoders, size))
    model.register_parameter(NAME, parameters)
    apply(model, RetentionConfiguration.full(encoders))
    search_with(model, SoftExtract(parameters, max_length))
    return parameters


def detach(model: Any) -> None:
    """Take the soft-extract layers and their parameters off again."""
    remove(model)
    delattr(model, NAME)


def degrees(parameters: Tensor) -> Tensor:
    """The parameters as r in [0, 1]; the gradient passes as if nothing were clipped."""
    return parameters + (parameters.clamp(0.0, 1.0) - parameters).detach()


def masses(parameters: Tensor, max_length: int | None) -> Tensor:
    """mass(j; r) of each encoder: word-vectors out of N, or the share of the real length: (L,)."""
    r = degrees(parameters)
    return relative_mass(r) if max_length is None else mass(r)


def regulariser(parameters: Tensor, max_length: int | None) -> Tensor:
    """sum_j j * mass(j; r)."""
    j = torch.arange(1, parameters.shape[0] + 1, device=parameters.device)
    return (j * masses(parameters, max_length)).sum()


class RetentionAdamW(torch.optim.AdamW):
    """AdamW for the weights and for r.

    A group with an `l1` weight is regularised *outside* Adam's normalisation, as AdamW decouples weight
    decay: r_j <- r_j - lr * (normalised task gradient + l1 * j). Adam alone divides a constant gradient
    by its own size, so that lambda and j would do nothing (docs/deviations.md). A group with `l1` of
    None is the authors' release: lambda is in the loss, and r is clipped.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of AdamW, the decoupled L1 term, and the projection."""
        loss: float | None = super().step(closure)
        for group in self.param_groups:
            if "l1" not in group:
                continue
            for parameters in group["params"]:
                if group["l1"] is None:
                    project(parameters)
                    continue
                j = torch.arange(1, parameters.shape[0] + 1, device=parameters.device)
                parameters.sub_(group["lr"] * group["l1"] * j[:, None]).clamp_(0.0, CEILING)
        return loss

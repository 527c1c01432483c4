"""The retention parameters r of a model while its configuration is searched, and their optimiser.

Paper: Loss Function

They live on the model, (L, N) or (L, bins), so that they are saved, resumed and averaged over processes with its
weights. They belong to encoder j, never to its module, because ALBERT shares one module among all encoders.
"""

from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from powerbert.elimination.soft_extract import mass, project, relative_mass, soft_extract, soft_extract_relative
from powerbert.modeling.apply import apply, encoders_of, remove, search_with
from powerbert.modeling.retain import SoftExtract
from powerbert.retention import RetentionConfiguration

NAME = "retention_parameters"
CEILING = 2.0
"""How high the decoupled optimiser may lift a parameter; as r it counts as 1. Clipped at 1, a parameter
that the task needs would forget at every step how much: the noise of the gradient alone then drives it
below 1, the more the fewer steps there are (docs/results/lambda.md)."""
FALL = 0.75
"""Part of r's way on which its work falls to a budget; on the rest it stays there, and encoders exchange what they
retain."""


class RetentionParameters:
    """r of one model: soft-extract layers with r = 1 at first, until `detach`."""

    def __init__(self, model: Any, bins: int, max_length: int | None = None) -> None:
        """Attach N parameters per encoder, or without N one per bin of relative rank."""
        encoders = encoders_of(model)
        self.model, self.max_length = model, max_length
        self.parameter = nn.Parameter(torch.ones(encoders, max_length or bins, device=model.device))
        model.register_parameter(NAME, self.parameter)
        apply(model, RetentionConfiguration.full(encoders))
        search_with(model, SoftExtract(self))

    def __call__(self, j: int, rows: Tensor, ranks: Tensor, lengths: Tensor) -> Tensor:
        """Soft-extract at encoder j: scale rows (batch, length, hidden) by the r of their ranks."""
        r = self.degrees()[j - 1]
        if self.max_length is None:
            return soft_extract_relative(rows, ranks, lengths, r)
        return soft_extract(rows, ranks, r)

    def degrees(self) -> Tensor:
        """r in [0, 1]: (L, N) or (L, bins); the gradient passes as if nothing were clipped."""
        free = self.parameter
        return free + (free.clamp(0.0, 1.0) - free).detach()

    def mass(self, r: Tensor | None = None) -> Tensor:
        """mass(j; r) of each encoder: word-vectors out of N, or the share of the real length: (L,)."""
        r = self.degrees() if r is None else r
        return relative_mass(r) if self.max_length is None else mass(r)

    def regulariser(self) -> Tensor:
        """sum_j j * mass(j; r)."""
        return (_depths(self.parameter) * self.mass()).sum()

    @torch.no_grad()
    def to_configuration(self, rule: str, budget: float | None = None) -> RetentionConfiguration:
        """What each encoder retains: as many ranks as have r of a half or more, or the paper's mass.

        budget: of the mass the optimiser sees to it; for ranks another degree takes the place of the half.
        """
        r = self.degrees()
        if rule == "half":
            r = (self.parameter >= 0.5).to(self.parameter.dtype)
            if budget is not None:
                # By the parameter itself, which tells apart what as r counts as 1. Of equal ones the last ranks go
                # first: no gradient ever reaches those of an encoder that only CLS leaves.
                depths, ranks = numpy.indices(self.parameter.shape)
                own = self.parameter.ravel().numpy(force=True)
                falling = numpy.lexsort([-depths.ravel(), -ranks.ravel(), own])
                places = torch.from_numpy(falling).to(r.device).argsort().view_as(r)
                found = ((places >= gone).to(r.dtype) for gone in range(r.numel() + 1))
                most = budget + 1e-6  # a third in fp32 is more than a third
                r = next(each for each in found if work_of(each, self.max_length) <= most or not each.any())
        return RetentionConfiguration.from_mass(self.mass(r).tolist(), self.max_length)

    def optimiser_group(
        self, rate: float, l1: float | None, budget: float | None = None, steps: float = 1.0
    ) -> dict[str, Any]:
        """The group of r in `RetentionAdamW`: its own learning rate, no decay; `l1` is a decoupled lambda.

        budget: instead of lambda the share of the work to end at, of a training of so many steps.
        """
        group = {"params": [self.parameter], "weight_decay": 0.0, "lr": rate, "l1": l1}
        way = rate * steps / 2  # the rate falls linearly
        goal = {"budget": budget, "way": FALL * way, "travelled": 0.0, "max_length": self.max_length}
        return group if budget is None else group | goal

    def detach(self) -> None:
        """Take the soft-extract layers and their parameters off the model again."""
        remove(self.model)
        delattr(self.model, NAME)

    def to_json(self) -> list[list[float]]:
        """Return r of each encoder, rounded."""
        return [[round(value, 4) for value in row] for row in self.degrees().tolist()]


def released(r: RetentionParameters, weight: float, model: Any, inputs: Any, outputs: Any, step: int) -> Tensor:
    """L + lambda * sum_j j * mass(j; r), through the gradient, as the objective of the authors' release."""
    return outputs["loss"] + weight * r.regulariser()


class RetentionAdamW(torch.optim.AdamW):
    """AdamW for the weights and for r.

    A group with an `l1` weight is regularised *outside* Adam's normalisation, as AdamW decouples weight
    decay: r_j <- r_j - lr * (normalised task gradient + l1 * j). Adam alone divides a constant gradient
    by its own size, so that lambda and j would do nothing (docs/deviations.md). A group with `l1` of
    None is the authors' release: lambda is in the loss, and r is clipped. A group with a budget has in
    each step the lambda that brings the work to where it should be by then.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of AdamW, the decoupled L1 term, and the projection."""
        loss: float | None = super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"] if "l1" in group else ():
                if group.get("budget") is not None:
                    group["travelled"] += group["lr"]  # saved with the group, so that a run can resume
                    fallen = min(1.0, group["travelled"] / group["way"])
                    press(parameter, 1 - (1 - group["budget"]) * fallen, group["max_length"])
                elif group["l1"] is None:
                    project(parameter)
                else:
                    pressed = group["lr"] * group["l1"] * _depths(parameter)[:, None]
                    parameter.sub_(pressed).clamp_(0.0, CEILING)
        return loss


def work_of(parameter: Tensor, max_length: int | None) -> float:
    """The share of the work that the masses of a parameter (L, N or bins) stand for, held to never rise."""
    r = parameter.clamp(0.0, 1.0)
    masses = relative_mass(r) if max_length is None else mass(r) / max_length
    return float(masses.cummin(dim=0).values.mean())


@torch.no_grad()
def press(parameter: Tensor, most: float, max_length: int | None) -> None:
    """Subtract nu * j, with the least nu of at least 0 at which the work is no more than `most`, in place.

    nu is the multiplier of the budget, solved for instead of approached: work falls as nu rises.
    """
    depths = _depths(parameter)[:, None]

    def pressed(nu: float) -> Tensor:
        return (parameter - nu * depths).clamp(0.0, CEILING)

    low, high = 0.0, CEILING  # which takes all of encoder 1, and of all others
    if work_of(parameter, max_length) <= most:
        high = 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if work_of(pressed(middle), max_length) <= most else (middle, high)
    parameter.copy_(pressed(high))


def _depths(parameter: Tensor) -> Tensor:
    """Return j = 1 .. L: (L,)."""
    return torch.arange(1, parameter.shape[0] + 1, device=parameter.device)

"""One boundary per encoder: learn L shares f_j instead of L x N degrees, within a stated budget.

The learned r of soft-extract says how much an encoder needs, and nothing of ranks. So a word-vector is hidden from
later encoders by its rank alone: a gate sigmoid((f_j - relative rank) / temperature) on the attention that it gets
(`SoftBoundary`). As the temperature falls to 0 the searched model becomes the extracted one, exactly.
"""

import json
import logging
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid
from typing_extensions import override

from powerbert.modeling import ops
from powerbert.modeling.apply import apply, search_with
from powerbert.modeling.retain import SoftBoundary
from powerbert.retention import SCALE, RetentionConfiguration
from powerbert.training.data import Data
from powerbert.training.heads import fine_tuned
from powerbert.training.options import SearchOptions
from powerbert.training.retention_parameters import RetentionParameters
from powerbert.training.runner import Folder, StepResult, begin
from powerbert.training.steps import PARAMETERS

HOT = 0.1  # the temperature at first: at a share of a half gates go from 0.9 to 0.1 over 0.44 of the ranks
COLD = 0.02  # ranks over which a gate still closes at temperature 0: half a rank away it is e**-25

logger = logging.getLogger(__name__)


class Boundary(RetentionParameters):
    """The shares f of one model, (L, 1) on it and all 1 at first: the full model; until `detach`."""

    even = True

    def __init__(self, model: Any, steps: float) -> None:
        """Attach a share to each encoder, for a training of so many steps."""
        super().__init__(model, bins=1)
        self.steps, self.temperature = steps, HOT
        search_with(model, SoftBoundary(self.log_gates))

    def cool(self, model: Any, inputs: dict[str, Tensor], step: int) -> None:
        """Take the temperature of a training step, which alone decides it, so that a run can resume."""
        self.temperature = HOT * max(0.0, 1 - step / self.steps) ** 2

    def log_gates(self, j: int, ranks: Tensor, lengths: Tensor) -> Tensor:
        """Log of the gates of encoder j: (batch, length), by ranks (batch, length) among so many real ones (batch,).

        A boundary stands midway between the last rank that `apply` would retain and the first that it would
        eliminate; the gradient passes as if it stood at f_j. It is as sharp as f_j * (1 - f_j) is small: the full
        model stays full, and a small share is not drowned in what leaks through its gates.
        """
        own = self.shares()[j - 1]
        counts = ops.counts(self.to_configuration("mass"), lengths)[j - 1]
        edge = own + ((counts - 0.5) / lengths - own).detach()  # (batch,)
        width = 4 * self.temperature * (own * (1 - own)).detach() + COLD / lengths  # (batch,)
        gates = logsigmoid((edge[:, None] - ranks / lengths[:, None]) / width[:, None])
        return gates.masked_fill(ranks == 0, 0.0)

    def shares(self) -> Tensor:
        """f, never rising: (L,); each encoder's gradient passes to its own, as if no other held it down."""
        free = self.parameter[:, 0]
        held = free.detach().clamp(1 / SCALE, 1.0).cummin(dim=0).values
        return free + (held - free).detach()

    @override
    @torch.no_grad()
    def to_configuration(self, rule: str = "mass", budget: float | None = None) -> RetentionConfiguration:
        """The shares themselves, to four digits, beyond which fp32 ends: the optimiser keeps the budget."""
        return RetentionConfiguration.from_mass([round(share, 4) for share in self.shares().tolist()])


def search_boundary(
    model: Folder,
    data: Data,
    output: Folder,
    options: SearchOptions | None = None,
    *,
    budget: float,
    progress: bool = False,
) -> StepResult:
    """Step 2 with one share per encoder: learn what each retains, all weights with it, and end at the budget.

    budget: a share of the work. The learned shares go to `retention_parameters.json`.
    """
    network, tokenizer = fine_tuned(model, data.task)
    options = replace(options or SearchOptions(), budget=budget)
    with begin("search-boundary", model, data, output, options, network.config.hidden_size, progress=progress) as run:
        if run.finished:
            return run.result()
        run.encode(network, tokenizer)
        boundary = Boundary(network, run.steps)
        rate = run.options.retention_rate(run.steps)
        group = boundary.optimiser_group(rate, 0.0, budget, run.steps)
        # Not the weights that did best on dev: those are from before anything was learned to be eliminated.
        run.train(best=False, before=boundary.cool, r=boundary, group=group)
        retention = boundary.to_configuration()
        logger.info("learned retention configuration: %s", retention)
        boundary.detach()
        apply(network, retention)
        return run.finish({PARAMETERS: json.dumps(boundary.to_json()).encode()})

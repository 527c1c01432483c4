"""Everything that was tried, and which of it is taken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.optimize import bisect, isotonic_regression

from powerbert.acceleration.goal import Goal
from powerbert.acceleration.judge import Comparison
from powerbert.retention import RetentionConfiguration
from powerbert.training.shapes import LEAST, shallow, shaped, work

RUNGS = (0.7, 0.6, 0.52, 0.45, 0.39, 0.34, 0.29, 0.25)  # shares of the work: the rungs of the ladder
LEAST_BUDGET = 0.15  # no smaller one is tried


@dataclass(frozen=True)
class Tried:
    """A configuration, what it keeps on the rows that choose, and the time of one input."""

    name: str
    stage: str
    retention: RetentionConfiguration
    comparison: Comparison
    seconds: float

    def to_json(self, chosen: bool) -> dict[str, Any]:
        """Plain figures for JSON."""
        own = {"name": self.name, "stage": self.stage, "retention": str(self.retention), "ms": 1e3 * self.seconds}
        found = {"work": work(self.retention.fractions), "value": self.comparison.after, "loss": self.comparison.loss}
        return own | found | {"agreement": self.comparison.agreement, "chosen": chosen}


def rung(encoders: int, budget: float, *, leave_out: bool = False) -> RetentionConfiguration:
    """The configuration of a budget: a linear fall.

    leave_out: encoders that would read next to nothing. They cost next to nothing in a batch, but a text that is
    answered alone waits for their weights. Without them the head reads an encoder that was never the last: that has to
    be learned, and a ladder, which spends few batches on a rung, does not learn it (docs/results/accelerate.md).
    """
    falling = shaped("linear", encoders, budget)
    return shallow(falling) if leave_out else falling


def least_budget(encoders: int) -> float:
    """The smallest budget of a rung: encoder 1 retains all of its words."""
    return max(LEAST_BUDGET, work([1.0, *[LEAST] * (encoders - 1)]) + 1e-3)


def cheapest(tried: Sequence[Tried], goal: Goal, *, hopeful: bool = False) -> Tried | None:
    """The fastest configuration within the goal; None if there is none.

    A milder configuration of the same ladder loses no more: what is lost is made to rise with the speed (isotonic
    regression), which takes out much of the noise of a few hundred rows. hopeful: it may miss the goal by a standard
    error, where it is re-trained and asked again before anything is decided.
    """
    slowest_first = sorted(tried, key=lambda one: -one.seconds)
    smooth = isotonic_regression([one.comparison.spent(goal) for one in slowest_first]).x
    within = [
        one
        for one, lost in zip(slowest_first, smooth, strict=True)
        if lost <= goal.value + (one.comparison.doubt(goal) if hopeful else 0.0)
    ]
    return within[-1] if within else None


def budget_for(seconds: Callable[[float], float], limit: float, least: float) -> float | None:
    """The largest budget, from the least on, whose time is within the limit; None if even the least is slower."""
    if seconds(least) > limit:
        return None
    if seconds(1.0) <= limit:
        return 1.0
    return float(bisect(lambda budget: seconds(budget) - limit, least, 1.0, xtol=1e-3))

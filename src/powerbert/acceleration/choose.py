"""Everything that was tried, and which of it is taken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.optimize import bisect, isotonic_regression

from powerbert.acceleration.goal import Goal
from powerbert.acceleration.judge import Comparison
from powerbert.retention import RetentionConfiguration
from powerbert.training.shapes import LEAST, shaped, work

RUNGS = (0.7, 0.6, 0.52, 0.45, 0.39, 0.34, 0.29, 0.25)  # shares of the work: the rungs of the ladder
LEAST_BUDGET = 0.15  # no smaller one is tried


@dataclass(frozen=True)
class Tried:
    """A configuration, what it keeps on the rows that choose, and the time of one input."""

    name: str
    retention: RetentionConfiguration
    comparison: Comparison
    seconds: float

    def to_json(self, chosen: bool, slower: float = 1.0) -> dict[str, Any]:
        """Plain figures for JSON; slower: how many times as long the chosen one took as was estimated for it."""
        own = {"name": self.name, "retention": str(self.retention), "ms": 1e3 * slower * self.seconds}
        found = {"work": work(self.retention.fractions), "value": self.comparison.after, "loss": self.comparison.loss}
        return own | found | {"agreement": self.comparison.agreement, "chosen": chosen}


def depth_of(encoders: int) -> int:
    """How many encoders the rungs run: three of four."""
    return -(-3 * encoders // 4)


def rung(encoders: int, budget: float) -> RetentionConfiguration:
    """The configuration of a budget: a linear fall through the first three quarters of the encoders, and no other.

    The last ones would read next to nothing, and a text that is answered alone waits for their weights all the same.
    All rungs run equally many: the head learns to read one encoder that was never the last, not several
    (docs/results/accelerate.md). A budget above what they can spend is all word-vectors in all of them.
    """
    depth = depth_of(encoders)
    falling = shaped("linear", depth, min(1.0, budget * encoders / depth))
    return RetentionConfiguration.relative([*falling.fractions, *[0.0] * (encoders - depth)])


def least_budget(encoders: int) -> float:
    """The smallest budget of a rung: encoder 1 retains all of its words."""
    depth = depth_of(encoders)
    return max(LEAST_BUDGET, (1.0 + LEAST * (depth - 1)) / encoders + 1e-3)


def cheapest(tried: Sequence[Tried], goal: Goal) -> Tried | None:
    """The fastest configuration within the goal; None if there is none.

    A milder configuration of the same ladder loses no more: what is lost is made to rise with the speed (isotonic
    regression), which takes out much of the noise of a few hundred rows.
    """
    slowest_first = sorted(tried, key=lambda one: -one.seconds)
    smooth = isotonic_regression([one.comparison.spent(goal) for one in slowest_first]).x
    within = [one for one, lost in zip(slowest_first, smooth, strict=True) if lost <= goal.value]
    return within[-1] if within else None


def budget_for(seconds: Callable[[float], float], limit: float, least: float) -> float | None:
    """The largest budget, from the least on, whose time is within the limit; None if even the least is slower."""
    if seconds(least) > limit:
        return None
    if seconds(1.0) <= limit:
        return 1.0
    return float(bisect(lambda budget: seconds(budget) - limit, least, 1.0, xtol=1e-3))

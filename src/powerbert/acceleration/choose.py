"""Everything that was tried, and which of it is taken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.optimize import bisect, isotonic_regression

from powerbert.acceleration.goal import Goal
from powerbert.acceleration.judge import Comparison
from powerbert.retention import RetentionConfiguration
from powerbert.training.shapes import work


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

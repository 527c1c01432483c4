"""Everything that was tried, and which of it is taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression, lsq_linear

from powerbert.acceleration.goal import LOSS, Goal
from powerbert.acceleration.judge import Comparison
from powerbert.retention import RetentionConfiguration
from powerbert.training.shapes import work

TYPICAL = 1.0  # points by which a re-trained model commonly differs from its original, and a rung from the curve
STEEPNESS = 4  # what is lost rises with this power of the saving
MISFIT = 0.5  # of what a rung loses may be beside the curve: the steep end must not decide on the flat one
LEAST_DOUBT = 0.05  # points, however alike the answers are


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
    """The fastest configuration that is expected to keep the goal; None if there is none."""
    within = [one for one, lost in expectations(tried, goal) if lost <= goal.value]
    return within[-1] if within else None


def expectations(tried: Sequence[Tried], goal: Goal) -> list[tuple[Tried, float]]:
    """Everything that was tried with what it is expected to lose, the slowest first."""
    slowest_first = sorted(tried, key=lambda one: -one.seconds)
    return list(zip(slowest_first, expected(slowest_first, goal).tolist(), strict=True))


def expected(slowest_first: Sequence[Tried], goal: Goal) -> NDArray[Any]:
    """What each configuration will lose on rows that nobody has seen: (configurations,).

    A milder configuration of the same ladder loses no more, so what is lost is made to rise with the speed (isotonic
    regression). A few hundred rows leave a doubt of some points all the same, and the fastest configuration within a
    goal would be the luckiest. So each is drawn towards a curve of them all, a + b / work^4, as far as its doubt goes
    beyond TYPICAL; and what they share, a, towards 0 (docs/results/accelerate.md).
    """
    comparisons = [one.comparison for one in slowest_first]
    smooth = isotonic_regression([each.spent(goal) for each in comparisons]).x
    if goal.kind != LOSS:  # how many answers differ is known well: no label is in doubt
        return smooth
    lost = numpy.array([each.loss for each in comparisons])
    doubt = numpy.array([max(each.doubt, LEAST_DOUBT) for each in comparisons])
    curve = numpy.array([work(one.retention.fractions) for one in slowest_first]) ** -STEEPNESS
    weight = 1 / numpy.hypot(doubt, MISFIT * smooth.clip(min=0))
    columns = numpy.stack([numpy.ones_like(curve), curve / curve.max()], axis=1)
    shared, steep = lsq_linear(columns * weight[:, None], lost * weight, bounds=((-numpy.inf, 0), numpy.inf)).x
    fitted = columns @ (shared / (1 + (doubt.min() / TYPICAL) ** 2), steep)
    return fitted + (smooth - fitted) / (1 + (doubt / TYPICAL) ** 2)

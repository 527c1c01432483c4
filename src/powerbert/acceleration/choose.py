"""Which rung is taken: the fastest that is expected to keep a goal, or the mildest that is as fast as stated.

A stated speed is found before any training, because weights do not change speed. Time can be saved by fewer
word-vectors and by fewer encoders: the table of costs says how much of each, real rungs tell what it does not know.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray
from scipy.optimize import bisect, isotonic_regression, lsq_linear

from powerbert.acceleration.goal import LOSS, Goal
from powerbert.acceleration.judge import Comparison
from powerbert.retention import RetentionConfiguration
from powerbert.training.ladder import RUNGS, depth_of, least_budget, rung
from powerbert.training.shapes import work

TYPICAL = 1.0  # points by which a re-trained model commonly differs from its original, and a rung from the curve
CHANGED = 0.1  # of the answers that changed is what they commonly lose or gain, where that is more
STEEPNESS = 4  # what is lost rises with this power of the saving
MISFIT = 0.5  # of what a rung loses may be beside the curve: the steep end must not decide on the flat one
LEAST_DOUBT = 0.05  # points, however alike the answers are
NEAR = (1.3, 1.15, 1.0, 0.87, 0.75)  # rungs around the one that is as fast as stated
TIMES = 3  # that rungs are measured, each time nearer to the goal
MARGIN = 0.95  # of a stated time is what a rung is made for: the clock is not exact
MILD = 0.7  # of the words are what an encoder should read on the average: fewer encoders are faster at the same work

Seconds = Callable[[RetentionConfiguration], float]
logger = logging.getLogger("powerbert.training")


@dataclass(frozen=True)
class Tried:
    """A configuration, what it keeps on the rows that choose, and the time of one input."""

    name: str
    retention: RetentionConfiguration
    comparison: Comparison
    seconds: float

    @property
    def work(self) -> float:
        """Its share of the word-vectors of the full model."""
        return work(self.retention.fractions)

    def to_json(self, chosen: bool, slower: float = 1.0) -> dict[str, Any]:
        """Plain figures for JSON; slower: how many times as long the chosen one took as was estimated for it."""
        own = {"name": self.name, "retention": str(self.retention), "ms": 1e3 * slower * self.seconds}
        found = {"work": self.work, "value": self.comparison.after, "loss": self.comparison.loss}
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
    beyond TYPICAL; and what they share, a, towards 0 (docs/results/accelerate.md). A ladder that changes a fifth of the
    answers may well lose some points in all of its rungs: doubt alone must not excuse it.
    """
    comparisons = [one.comparison for one in slowest_first]
    smooth = isotonic_regression([each.spent(goal) for each in comparisons]).x
    if goal.kind != LOSS:  # how many answers differ is known well: no label is in doubt
        return smooth
    lost = numpy.array([each.loss for each in comparisons])
    doubt = numpy.array([max(each.doubt, LEAST_DOUBT) for each in comparisons])
    curve = numpy.array([one.work for one in slowest_first]) ** -STEEPNESS
    weight = 1 / numpy.hypot(doubt, MISFIT * smooth.clip(min=0))
    typical = numpy.array([max(TYPICAL, CHANGED * each.differing) for each in comparisons])
    columns = numpy.stack([numpy.ones_like(curve), curve / curve.max()], axis=1)
    shared, steep = lsq_linear(columns * weight[:, None], lost * weight, bounds=((-numpy.inf, 0), numpy.inf)).x
    draw = 1 + (doubt / typical) ** 2
    fitted = columns @ (shared / draw[doubt.argmin()], steep)
    return fitted + (smooth - fitted) / draw


class Shape(NamedTuple):
    """What a rung is made of."""

    depth: int  # encoders that run
    budget: float  # share of the work

    def rungs(self, encoders: int) -> list[RetentionConfiguration]:
        """The rungs around this one, which is among them; the mildest first."""
        least, most = least_budget(encoders, self.depth), min(RUNGS[0], self.depth / encoders)
        budgets = {min(most, max(least, factor * self.budget)) for factor in NEAR}
        return [rung(encoders, budget, self.depth) for budget in sorted(budgets, reverse=True)]


def shape_for(seconds: Seconds, encoders: int, limit: float) -> Shape:
    """The shape within a limit of time: the most encoders, from three quarters to a third, that read most of the words.

    An encoder costs something however few words it reads. The largest share where none reads as much; the fastest of
    all where none is within the limit.
    """

    def at(depth: int, budget: float) -> float:
        return seconds(rung(encoders, budget, depth))

    found = None
    for depth in range(depth_of(encoders), max(1, encoders // 3) - 1, -1):
        least = least_budget(encoders, depth)
        budget = budget_for(partial(at, depth), limit, least)
        found = None if budget is None else Shape(depth, min(budget, depth / encoders))
        if found is not None and found.budget * encoders >= MILD * depth:
            return found
    return found or Shape(depth, least)


def budget_for(seconds: Callable[[float], float], limit: float, least: float) -> float | None:
    """The largest budget, from the least on, whose time is within the limit; None if even the least is slower."""
    if seconds(least) > limit:
        return None
    if seconds(1.0) <= limit:
        return 1.0
    return float(bisect(lambda budget: seconds(budget) - limit, least, 1.0, xtol=1e-3))


def shape_in_time(
    seconds: Seconds, limit: float, encoders: int, measured: Callable[[int, list[RetentionConfiguration]], list[float]]
) -> Shape:
    """The shape that is as fast as stated: measured in at most three turns, the table of costs corrected after each.

    seconds, limit: by the table of costs. measured: (turn, rungs) -> by what factor each takes longer than stated.
    """
    slower, before = 1.0, None
    for turn in range(1, TIMES + 1):
        shape = shape_for(seconds, encoders, MARGIN * limit / slower)
        if shape == before:  # nothing is faster
            break
        rungs, before = shape.rungs(encoders), shape
        over = isotonic_regression(measured(turn, rungs)[::-1]).x  # the fastest first
        budgets = [work(each.fractions) for each in reversed(rungs)]
        shape = shape._replace(budget=float(numpy.interp(MARGIN, over, budgets)))
        if over[0] <= MARGIN <= over[-1] or (over[-1] <= MARGIN and budgets[-1] >= RUNGS[0] - 1e-3):
            break  # between two that were measured; or faster than stated with all that a rung can spend
        slower *= float(numpy.median(over)) / MARGIN
    if over[0] > 1.0:
        logger.warning("the stated speed cannot be reached: the nearest model is made")
    return shape

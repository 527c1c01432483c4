"""The rung of a stated speed, by the clock and before any training: weights do not change speed.

Time can be saved by fewer word-vectors and by fewer encoders. The table of costs says how much of each; real rungs
then tell what it does not know.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy
from scipy.optimize import bisect, isotonic_regression

from powerbert.acceleration.cost import CostTable
from powerbert.acceleration.engine import MEASURED, inputs_at_once
from powerbert.acceleration.goal import SPEEDUP, Goal
from powerbert.bench.arms import Arm, Workbench, own_feed
from powerbert.engines.engine import Engine
from powerbert.machine.measure import interleave, ratio
from powerbert.modeling.limits import Batch
from powerbert.retention import RetentionConfiguration
from powerbert.text.tokenise import Text
from powerbert.training.ladder import RUNGS, depth_of, least_budget, rung
from powerbert.training.shapes import work

NEAR = (1.3, 1.15, 1.0, 0.87, 0.75)  # rungs around the one that is as fast as stated
TIMES = 3  # that rungs are measured, each time nearer to the goal
TIMED_ROUNDS = 5
MARGIN = 0.95  # of a stated time is what a rung is made for: the clock is not exact
HALF = 0.5  # of its words are what an encoder should read on the average: with fewer a rung loses more and more

Seconds = Callable[[RetentionConfiguration], float]
logger = logging.getLogger("powerbert.training")


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
    """The shape within a limit of time: the most encoders, from three quarters to a third, that read half of the words.

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
        if found is not None and found.budget * encoders >= HALF * depth:
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


def times_over(
    folder: Path, home: Path, texts: Sequence[Text], longest: int, goal: Goal, costs: CostTable
) -> list[float]:
    """By what factor each rung on a folder's dial takes longer than a goal allows, in the engine of the costs."""
    bench = Workbench(folder, home, texts[:MEASURED], longest)
    batch = inputs_at_once(bench.lengths) if goal.kind == SPEEDUP else 1
    own = Arm("eliminated", own_feed(costs.engine), costs.engine, costs.precision, batch)
    engines = [bench.engine(own).retaining(each) for each in bench.dial.values()]
    engines += [bench.engine(replace(own, model="full"))] if goal.kind == SPEEDUP else []
    batches = [*bench.batches(own)]
    timings = interleave({i: partial(_answer, each, batches) for i, each in enumerate(engines)}, TIMED_ROUNDS)
    rungs = [timings[i] for i in range(len(bench.dial))]
    if goal.kind == SPEEDUP:
        return [goal.value / ratio(timings[len(rungs)], each) for each in rungs]
    return [1e3 * each.median / len(bench.texts) / goal.value for each in rungs]


def _answer(engine: Engine, batches: Sequence[Batch]) -> None:
    deque(map(engine.run, batches), maxlen=0)

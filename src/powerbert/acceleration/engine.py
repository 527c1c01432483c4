"""The engine and precision in which a model is the fastest here and still keeps the goal; and how much faster it is."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

from powerbert.acceleration.cost import CostTable
from powerbert.acceleration.goal import LATENCY, LOSS, SPEEDUP, Goal
from powerbert.acceleration.judge import Comparison
from powerbert.bench.arms import STOCK, Arm, Workbench, own_feed
from powerbert.bench.run import choose_arms, installed, measure_arms, usable
from powerbert.engines.engine import Engine
from powerbert.export.write import PRECISIONS, RUNTIMES
from powerbert.machine.measure import interleave, ratio
from powerbert.machine.verdicts import BY_BATCH, probe
from powerbert.modeling.limits import Batch
from powerbert.text.batches import BUDGET
from powerbert.text.tokenise import Text

MEASURED = 128  # texts that are timed
BATCH = 32  # inputs at once, unless they are long or the goal is the time of one text
ENGINE_ROUNDS = 3
TIMED_ROUNDS = 5  # of rungs in one engine
ASKED_FOR = "not taken: its answers depend on the batch; --precision {} asks the folder for it"
BEYOND = 1.0  # points that a lower precision may lose beyond fp32, where the goal is a speed

logger = logging.getLogger(__name__)


class Fastest(NamedTuple):
    """The arm that is taken, and what was measured beside it."""

    arm: Arm
    graph: Path | None  # its exported folder; None for torch
    comparison: Comparison  # with the original model, on the rows that choose
    figures: dict[str, Any]  # what `measure_arms` gives
    notes: list[dict[str, Any]]  # each arm with elimination: its time, what it keeps, and whether it is left out

    @property
    def full(self) -> dict[str, Any]:
        """The fastest arm of the original model."""
        rows: list[dict[str, Any]] = [row for row in self.figures["arms"] if row["model"] == "full"]
        return min(rows, key=_seconds)

    @property
    def times(self) -> float:
        """How many times as fast as the fastest arm of the original model: within each round, if both were the best."""
        for row in self.figures["headline"]:
            if (row["arm"], row["baseline"]) == (self.arm.name, self.full["arm"]):
                return float(row["ratio"])
        return self.seconds("full") / self.seconds()

    def seconds(self, model: str = "eliminated") -> float:
        """Seconds of one text: the chosen arm's, or for "full" those of the fastest arm of the original model."""
        own = next(row for row in self.figures["arms"] if row["arm"] == self.arm.name)
        return _seconds(self.full if model == "full" else own) / float(self.figures["texts"])


def fastest_engine(
    folder: Path,
    home: Path,
    texts: Sequence[Text],
    scaling: Sequence[Text],
    longest: int,
    goal: Goal,
    most: float,
    judged: Callable[[Engine], Comparison],
    progress: Callable[..., Any] = list,
) -> Fastest:
    """Measure the model in every engine and precision, with elimination and without, in turn in one run.

    Both models also in those whose answers depend on the batch, where they are faster: the full one is the best that
    anybody could do without elimination. Ours is never taken, but the user who does not mind is told what it gives.

    texts: that are timed. scaling: from which int8 takes its scales. judged: compares an engine with the original.
    most: what the configuration lost in the engine that it was chosen in.
    """
    (pairs, left_out), (rivals, _) = usable(_pairs("fp32", "int8")), usable(_pairs(*BY_BATCH))
    for line in left_out:
        logger.info(line)
    bench = Workbench(folder, home, texts[:MEASURED], longest, scaling=scaling)
    batch = 1 if goal.kind == LATENCY else inputs_at_once(bench.lengths)
    arms = choose_arms(pairs, [batch], (), bench.retention is not None)
    pays = [each for each in rivals if not probe(*each).is_slower]
    arms += choose_arms(pays, [batch], (), bench.retention is not None)
    figures = measure_arms(bench, arms, ENGINE_ROUNDS, progress, memory=False)
    own = "full" if bench.retention is None else "eliminated"
    rows = [row for row in figures["arms"] if row["model"] == own and row["engine"] != STOCK]
    rows = sorted((row for row in rows if row["precision"] not in BY_BATCH), key=_seconds)
    by_name = {arm.name: arm for arm in arms}
    found = [(row, by_name[row["arm"]], judged(bench.engine(by_name[row["arm"]]))) for row in rows]
    limit = most_lost(goal, most, [comparison for row, _, comparison in found if row["precision"] == "fp32"])
    notes = [_note(row, each, keeps(each, goal, limit), figures["texts"]) for row, _, each in found]
    _, arm, comparison = next(one for one, note in zip(found, notes, strict=True) if note["note"] == "")
    eliminated = own == "eliminated"
    for row in figures["arms"] if eliminated else ():
        if row["model"] == own and row["precision"] in BY_BATCH:
            said = _note(row, judged(bench.engine(by_name[row["arm"]])), False, figures["texts"])
            notes.append(said | {"note": ASKED_FOR.format(row["precision"])})
    graph = bench.graph(arm.engine, arm.precision, eliminated) if arm.engine in RUNTIMES else None
    return Fastest(arm, graph, comparison, figures, notes)


def inputs_at_once(lengths: Sequence[int]) -> int:
    """How many inputs a batch that is timed has: no more word-vectors than a batch of the pipeline has.

    All engines are open at once and keep what their largest batch took: 32 inputs of 320 words took 12 GB.
    """
    return max(1, min(BATCH, 2 ** int(log2(max(1.0, BUDGET / max(lengths))))))


def most_lost(goal: Goal, most: float, plain: Sequence[Comparison]) -> float:
    """What an engine may lose on the rows that choose; fp32 itself is never left out.

    What the goal allows, or what the configuration lost in the engine that it was chosen in: it is expected to keep
    the goal on other rows. Where the goal is a speed, a point more than fp32.
    """
    spent = max(comparison.spent(goal) for comparison in plain)
    return max(goal.value, most, spent) if goal.limits_loss else spent + BEYOND


def keeps(comparison: Comparison, goal: Goal, limit: float) -> bool:
    """Whether an engine is within a limit, as far as the rows that choose know: one row must not cost its speed."""
    return comparison.spent(goal) <= limit + (comparison.doubt if goal.kind == LOSS else 0.0)


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


def _pairs(*precisions: str) -> list[tuple[str, str]]:
    return [(name, one) for name in installed() for one in precisions if one in PRECISIONS.get(name, ("fp32",))]


def _seconds(row: dict[str, Any]) -> float:
    return float(row["seconds"])


def _note(row: dict[str, Any], comparison: Comparison, within: bool, texts: int) -> dict[str, Any]:
    """A line of the report: an arm, its time and what it keeps."""
    same = {name: row[name] for name in ("engine", "precision")}
    figures = {"ms": 1e3 * row["seconds"] / texts, "agreement": comparison.agreement, "loss": comparison.loss}
    return same | figures | {"note": "" if within else "left out: it loses more than the goal allows"}


def _answer(engine: Engine, batches: Sequence[Batch]) -> None:
    deque(map(engine.run, batches), maxlen=0)

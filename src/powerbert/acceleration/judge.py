"""A model against the one that it came from, row by row on the same rows."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from powerbert.acceleration.goal import DISAGREEMENT, LATENCY, SPEEDUP, Goal
from powerbert.tasks.metrics import Interval, bootstrap_interval, metric, paired_bootstrap

NOTHING = (
    "no configuration keeps the goal on the rows that choose: nothing is eliminated; "
    "give more rows to train on, or a wider goal"
)
HARDLY = (
    "the original model is hardly better than one answer for all, so what is lost or gained says little; "
    "fine-tune it for longer, as with --epochs 8"
)

Answers = NDArray[Any]  # (rows,): class indices, or the values of a regression


@dataclass(frozen=True)
class Comparison:
    """What was lost, with the doubt that these rows leave."""

    metric: str
    guess: float  # the metric of the best single answer for all rows
    before: float
    before_interval: Interval
    after: float
    after_interval: Interval
    loss: float  # points of the metric, 100 times its raw value
    interval: Interval  # of the loss, 95 %
    p_value: float  # of the metric being the same, by a bootstrap over pairs
    agreement: float  # share of equal answers; of a regression, rank correlation of the two
    rows: int

    def spent(self, goal: Goal) -> float:
        """What the goal counts: points of the metric, or percent of other answers."""
        return self.differing if goal.kind == DISAGREEMENT else self.loss

    @property
    def is_weak(self) -> bool:
        """Whether the original model may be no better than a guess, as far as these rows know."""
        return self.before_interval.low <= self.guess

    @property
    def doubt(self) -> float:
        """The standard error of the loss, in points."""
        return (self.interval.high - self.interval.low) / 3.92

    @property
    def differing(self) -> float:
        """Percent of other answers; of a regression, what the rank correlation lacks."""
        return 100 * (1 - self.agreement)

    def to_json(self) -> dict[str, Any]:
        """Plain figures for JSON."""
        intervals = ("before_interval", "after_interval", "interval")
        return asdict(self) | {name: [*getattr(self, name)] for name in intervals}


def compare(name: str, before: Answers, after: Answers, labels: Answers) -> Comparison:
    """Score both on the labels with the task's metric."""
    score, differences = metric(name), paired_bootstrap(name, before, after, labels, seed=0)
    low, high = numpy.quantile(100 * differences, (0.025, 0.975))
    either = min(float((differences <= 0).mean()), float((differences >= 0).mean()))
    return Comparison(
        name,
        guess(name, labels),
        score(before, labels),
        bootstrap_interval(name, before, labels, seed=0),
        score(after, labels),
        bootstrap_interval(name, after, labels, seed=0),
        loss=100 * (score(before, labels) - score(after, labels)),
        interval=Interval(float(low), float(high)),
        p_value=min(1.0, 2 * either),
        agreement=metric("spearman" if name == "spearman" else "accuracy")(after, before),
        rows=len(labels),
    )


def guess(name: str, labels: Answers) -> float:
    """The best score of one answer for all rows: a model below it has learned nothing."""
    answers = labels[:1] if name == "spearman" else numpy.unique(labels)  # constant ranks are all alike
    return max(metric(name)(numpy.full(len(labels), each), labels) for each in answers)


def pronounce(
    goal: Goal, comparison: Comparison, times: float, ms: float, *, eliminated: bool = True
) -> dict[str, Any]:
    """Whether the goal is met on rows that decided nothing, and that in words.

    times: as fast as the fastest engine runs the original model. ms: of one text.
    """
    spent = comparison.spent(goal)
    met = {SPEEDUP: times >= goal.value, LATENCY: ms <= goal.value}.get(goal.kind, spent <= goal.value)
    low, high = comparison.interval
    change = f"{abs(comparison.loss):.2f} points of {comparison.metric} {'lost' if comparison.loss >= 0 else 'gained'}"
    doubt = f"95 % interval of the loss {low:+.2f} to {high:+.2f} on {comparison.rows:,} rows"
    fast = f"{times:.2f} times as fast as the fastest engine runs the original model"
    ranks = comparison.metric == "spearman"
    same = f"{100 * comparison.agreement:.1f} % {'rank correlation' if ranks else 'the same answers'}"
    text = f"{'Met' if met else 'Missed'}: {change} ({doubt}), {same}, {fast}, {ms:.2f} ms a text."
    said = [NOTHING] * (not eliminated) + [HARDLY] * comparison.is_weak
    text += "".join(f" {each[0].upper()}{each[1:]}." for each in said)
    figures = {"metric": comparison.metric, "loss": comparison.loss, "interval": [low, high]}
    figures |= {"p_value": comparison.p_value, "agreement": comparison.agreement, "rows": comparison.rows}
    return figures | {"met": met, "eliminated": eliminated, "text": text, "speedup": times}

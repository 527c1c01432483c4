"""A retention configuration without any training: measure how far the answers move, then choose.

On a few hundred inputs without labels the model is asked with encoders j..L retaining a share f, for a grid of j and
f. A dynamic programme over that table finds the never-rising configuration that moves the answers least within a
budget, and a few rounds of descent correct it by the real distance of whole configurations.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from datasets import Dataset
from numpy.typing import NDArray

from powerbert.engines.answers import answer_rows
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import PowerBertError
from powerbert.modeling.apply import with_retention
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.task import Task
from powerbert.text.batches import flattened
from powerbert.training.teacher import answer_distance

SHARES = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1, 0.04, 0.0)
"""From all to none; 0 leaves encoders out."""
ASKED_ROWS = 200  # inputs that are asked for; more move the table by less than a share moves it
TIE = 1e-9  # distances that differ by less are equal
UNITS = 1000  # of an encoder's full cost: the programme counts whole ones, and shares of three digits are exact

Cost = Callable[[float, float], float]
"""(share that comes into an encoder, share that it retains) -> its cost, in any unit: time, word-vectors."""
_Path = tuple[int, ...]  # of each encoder the number of its share

logger = logging.getLogger(__name__)


def word_vectors_retained(before: float, after: float) -> float:
    """The cost unless another was measured: the share of word-vectors, as `work` counts it."""
    return after


@dataclass(frozen=True)
class Table:
    """How far the answers move, by the first encoder that eliminates and the share from there on."""

    shares: tuple[float, ...]  # falling from 1
    moved: tuple[tuple[float, ...], ...]  # (L, shares) distances; infinite where a share is impossible
    tokens: float = 0.0  # what measuring cost: tokens through the whole model, forward only

    def increments(self) -> NDArray[Any]:
        """What each encoder adds by going from one share to another: (L, before, after), infinite if it rises.

        Going from f to g at encoder j adds moved[j][g] - moved[j][f]: the word-vectors down to f are gone from
        there on anyway. Who eliminates more, or earlier, moves the answers at least as far: where the measured
        table says otherwise (ruined answers wander, rows are few) it is lifted, or there were gains to be made
        out of noise.
        """
        lifted = numpy.maximum.accumulate(numpy.asarray(self.moved), axis=1)
        lifted = numpy.maximum.accumulate(lifted[::-1], axis=0)[::-1]
        with numpy.errstate(invalid="ignore"):  # of two infinite ones, which stay impossible
            added = numpy.nan_to_num(lifted[:, None, :] - lifted[:, :, None], nan=math.inf, posinf=math.inf)
        rising = numpy.tri(len(self.shares), k=-1, dtype=bool)
        return numpy.where(rising, math.inf, added)

    def predicted(self, retention: RetentionConfiguration) -> float:
        """The sum of the increments of a configuration."""
        path = self.path(retention)
        return float(sum(self.increments()[range(len(path)), (0, *path[:-1]), path]))

    def path(self, retention: RetentionConfiguration) -> _Path:
        """Of each encoder the number of its share."""
        retention.check_encoders(len(self.moved))
        if not set(retention.fractions) <= set(self.shares):
            rule = "one of " + ", ".join(map(str, self.shares))
            raise PowerBertError("the table does not know a share", got=str(retention), rule=rule)
        return tuple(map(self.shares.index, retention.fractions))

    def most(self, budget: float) -> int:
        """A budget in whole units of the programme."""
        return math.floor(budget * UNITS * len(self.moved) + 1e-6)

    def along(self, path: Sequence[int]) -> RetentionConfiguration:
        """The configuration of a path."""
        return RetentionConfiguration.relative([self.shares[number] for number in path])


class Asked:
    """A model that answers a few rows; take it from `asking`."""

    def __init__(self, engine: TorchEngine, rows: Dataset, task: Task) -> None:
        self.engine, self.task, self.inputs, self.tokens = engine, task, len(rows), 0.0
        self.rows = list(flattened(list(rows)))  # every choice of a question is a row
        self.full = self._answers(RetentionConfiguration.full(engine.encoders))

    def __call__(self, retention: RetentionConfiguration) -> float:
        """How far the answers move from the full model's: mean KL, or squared error of a regression."""
        return max(0.0, float(answer_distance(self._answers(retention), self.full, self.task, temperature=1.0)))

    def _answers(self, retention: RetentionConfiguration) -> torch.Tensor:
        """Logits (inputs, labels); the choices of a question side by side."""
        with_retention(self.engine.model, retention)
        self.tokens += sum(retention.total(len(row["input_ids"])) for row in self.rows) / self.engine.encoders
        logits = numpy.stack(answer_rows(self.engine, self.rows))
        return torch.from_numpy(logits).reshape(self.inputs, -1)


@contextmanager
def asking(
    model: Any, rows: Dataset, task: Task, tokenizer: Any, most: int = ASKED_ROWS, seed: int = 0
) -> Iterator[Asked]:
    """Ask a model with any configurations, on at most so many rows, and give it back as it was."""
    chosen = numpy.random.default_rng(seed).permutation(len(rows))[:most]
    with TorchEngine(model, tokenizer) as engine:
        yield Asked(engine, rows.select(chosen.tolist()), task)


def sensitivity(
    model: Any,
    rows: Dataset,
    task: Task,
    tokenizer: Any,
    *,
    shares: Sequence[float] = SHARES,
    most: int = ASKED_ROWS,
    seed: int = 0,
) -> Table:
    """Measure how far the answers move when encoders j..L retain a share, for every j and share.

    rows: tokenised as by `encode_data`; labels are not looked at. most: of them are drawn, by the seed.
    """
    with asking(model, rows, task, tokenizer, most, seed) as distance:
        encoders, moved = distance.engine.encoders, []
        for whole in range(encoders):  # encoders before encoder j
            row = [_moved(distance, whole, share, encoders) for share in shares]
            logger.info("encoders %d to %d retain %s: the answers move %s", whole + 1, encoders, shares, row)
            moved.append(tuple(row))
        return Table(tuple(shares), tuple(moved), distance.tokens)


def _moved(distance: Asked, whole: int, share: float, encoders: int) -> float:
    """How far the answers move if so many encoders retain all, and the others a share."""
    if share == 1.0:
        return 0.0
    if not whole and not share:  # no encoder at all
        return math.inf
    return distance(RetentionConfiguration.relative([1.0] * whole + [share] * (encoders - whole)))


def least_moved(table: Table, budget: float, cost: Cost | None = None) -> RetentionConfiguration:
    """The never-rising configuration with the least sum of increments within a budget; of equals the cheapest.

    budget: a share of what the full model costs. Exact but for the cost of an encoder, which is rounded up to a
    thousandth of a full encoder's: the budget is never overspent.
    """
    added, units, most = table.increments(), _units(table.shares, cost), table.most(budget)
    encoders, numbers = len(table.moved), range(len(table.shares))
    best = numpy.full((len(numbers), most + 1), math.inf)  # by share and units spent: the least sum so far
    best[0, 0] = 0.0
    came = numpy.zeros((encoders, *best.shape), dtype=numpy.int8)  # the share before, on the way to that sum
    for j in range(encoders):
        last, best = best, numpy.full_like(best, math.inf)
        for after in numbers:
            for before in numbers[: after + 1]:
                spent = units[before][after]
                if spent <= most:
                    found, held = last[before, : most + 1 - spent] + added[j, before, after], best[after, spent:]
                    came[j, after, spent:][found < held] = before
                    numpy.minimum(found, held, out=held)
    if not numpy.isfinite(best).any():
        raise PowerBertError("no configuration is so cheap", got=budget, remedy="give a larger budget")
    spent = int((best.min(axis=0) <= best.min() + TIE).argmax())
    after = int(best[:, spent].argmin())
    path: list[int] = []
    for j in reversed(range(encoders)):
        path.insert(0, after)
        before = int(came[j, after, spent])
        spent, after = spent - units[before][after], before
    return table.along(path)


def _units(shares: Sequence[float], cost: Cost | None) -> list[list[int]]:
    """The cost of an encoder by the shares before and after it, in whole units; one that is left out has none."""
    cost = cost or word_vectors_retained
    unit = cost(1.0, 1.0) / UNITS
    return [[math.ceil(cost(f, g) / unit - 1e-6) if g and g <= f else 0 for g in shares] for f in shares]


def configurations(table: Table, budgets: Sequence[float], cost: Cost | None = None) -> list[RetentionConfiguration]:
    """The best configuration of the table for each budget, a share of what the full model costs."""
    return [least_moved(table, budget, cost) for budget in budgets]


def descend(
    table: Table,
    start: RetentionConfiguration,
    distance: Callable[[RetentionConfiguration], float],
    budget: float,
    cost: Cost | None = None,
    *,
    rounds: int = 4,
    tries: int = 12,
) -> RetentionConfiguration:
    """Move shares between encoders within the budget while the real distance falls, at most so many times.

    distance: of a whole configuration, as `asking` gives it. Of all neighbours the `tries` of which the table
    promises most are asked for: the table knows nearly which, and asking is what costs.
    """
    best, least, tried = start, distance(start), {start}
    for _ in range(rounds):
        near = [other for other in _neighbours(table, best, budget, cost) if other not in tried]
        for other in sorted(near, key=table.predicted)[:tries]:
            tried.add(other)
            if (moved := distance(other)) < least:
                logger.info("%s moves the answers %.4f, not %.4f", other, moved, least)
                best, least = other, moved
                break
        else:
            break
    return best


def _neighbours(
    table: Table, start: RetentionConfiguration, budget: float, cost: Cost | None
) -> list[RetentionConfiguration]:
    """One encoder retains the next larger share, and another as much less as the budget asks for.

    Whoever retains more needs it of the encoders before too, whoever retains less takes it from those after.
    """
    path, units, found = table.path(start), _units(table.shares, cost), dict[_Path, None]()
    encoders, most = range(len(path)), table.most(budget)
    for up in encoders:
        raised = tuple(min(number, path[up] - 1) if j <= up else number for j, number in enumerate(path))
        for down in encoders if path[up] else ():
            for less in range(raised[down], len(table.shares)):
                moved = tuple(max(number, less) if j >= down else number for j, number in enumerate(raised))
                if sum(units[f][g] for f, g in zip((0, *moved), moved, strict=False)) <= most:
                    if moved != path and table.shares[moved[0]]:
                        found[moved] = None
                    break
    return [table.along(moved) for moved in found]

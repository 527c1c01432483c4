"""What an encoder costs in an engine, by the word-vectors that it reads and retains: measured, not counted.

An encoder reads n word-vectors (projections, attention) and feeds l of them forward. Three graphs of one or two
encoders give the time of every configuration: no graph of twelve has to be traced to know what one is worth.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy
from numpy.typing import NDArray

from powerbert.engines.auto import random_batch, without_elimination
from powerbert.engines.engine import Engine
from powerbert.engines.open import open_engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.export.write import PRECISIONS, export
from powerbert.machine.measure import interleave
from powerbert.machine.verdicts import PAIRS, fastest, probe
from powerbert.modeling.apply import apply, encoders_of
from powerbert.modeling.limits import limits_of
from powerbert.retention import SCALE, RetentionConfiguration
from powerbert.text.tokenise import Text

COSTED = (1, 8, 16, 32, 64, 128, 256, 512)
COST_ROUNDS = 5
COST_TEXTS = 4  # texts
COMPARED = 64  # word-vectors of the inputs on which runtimes are compared
KINDS = {"one": (1.0,), "two": (1.0, 1.0), "alone": (1 / SCALE, 1 / SCALE)}  # graphs: what their encoders retain


class CostTable(NamedTuple):
    """Seconds of one encoder for one input, at each length."""

    lengths: tuple[int, ...]
    whole: tuple[float, ...]  # reads so many word-vectors and retains all of them
    alone: tuple[float, ...]  # reads so many, scores them and retains CLS alone
    last: tuple[float, ...]  # reads so many and asks with CLS alone
    rest: float  # embeddings and head
    engine: str = ""  # that was measured
    precision: str = ""

    @classmethod
    def from_json(cls, fields: Iterable[Any]) -> Self:
        """Read what JSON makes of a table."""
        found: Any = (tuple(each) if isinstance(each, list) else each for each in fields)
        return cls(*found)

    def per_encoder(self, retention: RetentionConfiguration, length: int) -> list[float]:
        """Seconds of each encoder that runs, for an input of `length` word-vectors."""
        found, before = [], length
        *counts, _ = retention.running.counts(length)
        for after in counts:
            fed = max(0.0, self._at(self.whole, after) - self._at(self.alone, after))
            found.append(self._at(self.whole, before) if after == before else self._at(self.alone, before) + fed)
            before = after
        return [*found, self._at(self.last, before)]

    def seconds(self, retention: RetentionConfiguration, lengths: Sequence[int]) -> float:
        """Mean seconds of an input, over inputs of these lengths."""
        kinds, counts = numpy.unique(numpy.asarray(lengths), return_counts=True)
        each = [self.rest + sum(self.per_encoder(retention, int(n))) for n in kinds]
        return float(numpy.average(each, weights=counts))

    def _at(self, seconds: tuple[float, ...], length: int) -> float:
        return float(numpy.interp(length, self.lengths, seconds))


def measure_costs(model: Any, tokenizer: Any, longest: int, rows: int, texts: Sequence[Text]) -> CostTable:
    """Measure a classifier's encoders in the engine that is the fastest here, in batches of so many rows.

    texts: give int8 its scales; speed does not depend on them.
    """
    lengths = tuple(length for length in COSTED if length <= longest)
    with TemporaryDirectory(prefix="powerbert-", ignore_cleanup_errors=True) as home:
        made = partial(_two_at_most, model, tokenizer, Path(home), texts[:COST_TEXTS])
        able = {pair: made("two", pair) for pair in _candidates()}
        batch = random_batch(limits_of(model, tokenizer), rows, min(longest, COMPARED))
        timings = interleave({pair: partial(each.run, batch) for pair, each in able.items()}, COST_ROUNDS)
        best = min(timings, key=lambda pair: min(timings[pair].wall))
        opened = {name: able[best] if name == "two" else made(name, best) for name in KINDS}
        table: dict[str, list[float]] = {name: [] for name in KINDS}
        for length in lengths:
            batch = random_batch(limits_of(model, tokenizer), rows, length)
            found = interleave({name: partial(each.run, batch) for name, each in opened.items()}, COST_ROUNDS)
            for name, timing in found.items():
                table[name].append(min(timing.wall) / rows)  # a disturbance only ever adds
    costs = _table(lengths, *(numpy.asarray(table[name]) for name in KINDS))
    return costs._replace(engine=best[0], precision=best[1])


def _candidates() -> list[tuple[str, str]]:
    """Each runtime in the precision in which it is the fastest by its probe; torch where there is none.

    A probe knows one linear layer. Between runtimes attention and the small operations decide.
    """
    found = [fastest([probe(*pair) for pair in PAIRS if pair[0] == engine]) for engine in PRECISIONS]
    return [(each.engine, each.precision) for each in found if each is not None] or [(TorchEngine.name, "fp32")]


def _two_at_most(
    model: Any, tokenizer: Any, home: Path, texts: Sequence[Text], name: str, pair: tuple[str, str]
) -> Engine:
    """One or two encoders of a model, in an engine and precision."""
    shares, (engine, precision) = KINDS[name], pair
    left_out = [0.0] * (encoders_of(model) - len(shares))
    short = apply(without_elimination(model), RetentionConfiguration.relative([*shares, *left_out]))
    if engine == TorchEngine.name:
        return TorchEngine(short, tokenizer)
    folder = home / f"{name}-{engine}"
    export(short, tokenizer, folder, engine, precision, calibration=texts)
    return open_engine(folder, engine, precision)


def _table(lengths: tuple[int, ...], one: NDArray[Any], two: NDArray[Any], alone: NDArray[Any]) -> CostTable:
    """From the seconds of the three graphs at each length to those of an encoder: the last one asks with CLS alone."""
    last = max(0.0, float(alone[0] - one[0]))  # what a further encoder costs that has nothing but CLS to read
    rest = max(0.0, float(one[0]) - last)
    parts = (two - one, alone - rest - last, one - rest)
    whole, cls, asking = (tuple(numpy.maximum(part, 0.0).tolist()) for part in parts)
    return CostTable(lengths, whole, cls, asking, rest)

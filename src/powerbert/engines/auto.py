"""The fastest engine of this machine, and elimination only where it pays.

A saved model is opened in every engine that is installed, with and without elimination, all in fp32. Short
calibration runs then tell which engine is the fastest, and from which length on elimination is faster than
the unpruned model: scoring and selecting cost a little for every encoder, which a few words do not earn back.
"""

from __future__ import annotations

import copy
import logging
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from powerbert.engines.engine import Answer, Engine, Retained, require
from powerbert.engines.onnx_engine import OnnxEngine
from powerbert.engines.open import open_engine
from powerbert.engines.openvino_engine import OpenVinoEngine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import MissingExtraError, PowerBertError
from powerbert.export.exported import read_exported
from powerbert.export.graph import trace
from powerbert.export.write import export
from powerbert.modeling.apply import remove
from powerbert.modeling.limits import Limits, check_classifier, eliminates, limits_of
from powerbert.modeling.storage import load
from powerbert.text.batches import Integers

UNPRUNED, ELIMINATED = "unpruned", "eliminated"
LENGTHS = (8, 16, 32, 64, 128, 512)
"""Word-vectors of a calibration input, as far as the model reads."""
ROWS, BUDGET = 4, 256
"""A small batch: so many rows, and so many word-vectors at most."""
ROUNDS, PATIENCE = (3, 8), 0.2
"""Fewest and most rounds of a batch, and the seconds after which no further one begins."""
QUICK = 0.05
"""Seconds; a call that is over sooner depends on whose threads and caches it finds, and is timed twice."""
PAYS = 0.95
"""Elimination must stay under this share of the unpruned time; what is nearer is noise."""

logger = logging.getLogger(__name__)


class Arms(NamedTuple):
    """One engine with both models."""

    unpruned: Engine
    eliminated: Engine | None  # None if the model eliminates nothing


class Timing(NamedTuple):
    """How long one arm took for a batch, in the fastest of its rounds: a disturbance only ever adds."""

    engine: str
    eliminated: bool
    rows: int
    length: int
    seconds: float


@dataclass(frozen=True)
class Choice:
    """The arms that answer, and the timings that say why."""

    engine: str
    crossover: int | None
    """Inputs of so many word-vectors and more are answered with elimination; None: it never pays."""
    timings: tuple[Timing, ...] = field(repr=False)


class AutoEngine(Engine):
    """Both models in the engine that was the fastest; an input's own length decides which one answers it."""

    name = "auto"
    precisions = ("fp32",)
    precision = "fp32"

    def __init__(self, arms: Arms, choice: Choice) -> None:
        self.choice, self.unpruned = choice, arms.unpruned
        self.eliminated = None if choice.crossover is None else arms.eliminated
        reader = arms.eliminated or arms.unpruned  # with counts it reads N words, whoever answers
        self.tokenizer, self.labels, self.limits = reader.tokenizer, reader.labels, reader.limits
        self.problem_type, self.retention, self.encoders = (
            reader.problem_type,
            reader.retention,
            reader.encoders,
        )

    @classmethod
    def load(cls, folder: Path, precision: str | None, threads: int | None) -> Self:
        """Load a saved folder in every engine that is installed, measure them, and choose."""
        model, tokenizer = load(folder)
        if threads is not None:
            torch.set_num_threads(threads)
        arms = open_arms(model, tokenizer, threads)
        choice = choose(calibrate(arms))
        pays = "never pays" if choice.crossover is None else f"pays from {choice.crossover} word-vectors on"
        logger.info("%s: %s is the fastest engine, elimination %s", folder, choice.engine, pays)
        return cls(arms[choice.engine], choice)

    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        """Let each input be answered by the model that its length calls for."""
        if self.eliminated is None:
            return self.unpruned.answer(inputs, retained)
        long = inputs["attention_mask"].sum(axis=1) >= (self.choice.crossover or 0)
        if long.all() or not long.any():
            return (self.eliminated if long.all() else self.unpruned).answer(inputs, retained)
        logits = np.empty((len(long), len(self.labels)), np.float32)
        words: Retained = [()] * len(long)
        for arm, mine in ((self.eliminated, long), (self.unpruned, ~long)):
            found = arm.run({name: rows[mine] for name, rows in inputs.items()}, retained=retained)
            logits[mine] = found.logits
            for i, row in zip(np.flatnonzero(mine), found.retained or (), strict=False):
                words[i] = row
        return Answer(logits, words if retained else None)


def open_auto(folder: Path, precision: str | None = None) -> Engine:
    """Open a saved folder in the fastest engine, and an exported one in its own: a graph holds one arm."""
    exported = read_exported(folder)
    if exported is not None:
        return open_engine(folder, exported.engine, precision)
    if precision not in (None, *AutoEngine.precisions):
        raise PowerBertError(
            "engine auto compares engines in fp32",
            got=precision,
            remedy="export the model in this precision, and open what was exported",
        )
    return AutoEngine.load(folder, precision, None)


# ---- the arms ----------------------------------------------------------------------------


def open_arms(model: Any, tokenizer: PreTrainedTokenizerBase, threads: int | None = None) -> dict[str, Arms]:
    """Both models in each engine; one that is not installed, or fails, is left out, and torch remains."""
    check_classifier(model)
    models = {UNPRUNED: without_elimination(model)} | ({ELIMINATED: model} if eliminates(model) else {})
    others = _export_arms(models, tokenizer, threads)
    # Last, because the torch engine changes how its models run.
    opened = {name: TorchEngine(each, tokenizer) for name, each in models.items()}
    return {TorchEngine.name: Arms(opened[UNPRUNED], opened.get(ELIMINATED))} | others


def without_elimination(model: Any) -> Any:
    """The unpruned model beside the eliminated one, on the same layers: no weight is held twice."""
    leaves = (module for module in model.modules() if next(module.children(), None) is None)
    shared = {id(part): part for part in (*leaves, *model.parameters(), *model.buffers())}
    return remove(copy.deepcopy(model, shared))


def _export_arms(
    models: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, threads: int | None
) -> dict[str, Arms]:
    arms: dict[str, Arms] = {}
    # An engine has all that it needs in memory, or mapped: the folder can go as soon as it is open.
    with (
        _left_out("every engine but torch"),
        TemporaryDirectory(prefix="powerbert-", ignore_cleanup_errors=True) as home,
    ):
        require("onnx", OnnxEngine.name)
        logger.info("tracing %s to measure it in other engines", " and ".join(models))
        programs = {name: trace(each, limits_of(each, tokenizer)) for name, each in models.items()}
        for engine in (OnnxEngine.name, OpenVinoEngine.name):
            with _left_out(f"engine {engine}"):
                opened = {}
                for name, model in models.items():
                    folder = Path(home, engine, name)
                    export(model, tokenizer, folder, engine, program=programs[name])
                    opened[name] = open_engine(folder, engine, threads=threads)
                    opened[name].run(_batch(opened[name].limits, 1, 2))
                arms[engine] = Arms(opened[UNPRUNED], opened.get(ELIMINATED))
    return arms


@contextmanager
def _left_out(what: str) -> Iterator[None]:
    """Tell in one line that something failed, and carry on without it."""
    try:
        yield
    except MissingExtraError as error:
        logger.info("%s is left out: %s", what, error)
    except Exception as error:
        logger.warning("%s is left out: %s", what, " ".join(f"{type(error).__name__}: {error}".split()))


# ---- calibration and choice --------------------------------------------------------------


def calibrate(
    arms: Mapping[str, Arms], *, clock: Callable[[], float] = time.perf_counter
) -> tuple[Timing, ...]:
    """Time every arm with the same batches, in turn, so that a busy machine slows all of them alike."""
    engines = {
        (name, eliminated): arm
        for name, both in arms.items()
        for eliminated, arm in ((False, both.unpruned), (True, both.eliminated))
        if arm is not None
    }
    limits = min((arm.limits for arm in engines.values()), key=lambda limits: limits.longest)
    draw, timings = random.Random(0), []
    for rows, length in shapes(limits.longest):
        batch, start = _batch(limits, rows, length), clock()
        seconds = dict.fromkeys(engines, math.inf)
        for turn in range(ROUNDS[1]):
            if turn >= ROUNDS[0] and clock() - start > PATIENCE:
                break
            for key in draw.sample(list(engines), len(engines)):
                seconds[key] = min(seconds[key], _seconds(engines[key], batch, clock))
        timings += [Timing(*key, rows, length, found) for key, found in seconds.items()]
    return tuple(timings)


def shapes(longest: int) -> list[tuple[int, int]]:
    """Rows and length of the calibration batches: one input, and a small batch, of each length."""
    lengths = [length for length in LENGTHS if length < longest] + [min(longest, LENGTHS[-1])]
    return [
        (rows, length)
        for length in dict.fromkeys(lengths)
        for rows in sorted({1, max(1, min(ROWS, BUDGET // length))})
    ]


def choose(timings: Sequence[Timing]) -> Choice:
    """The engine with the least time, relative to the best at each batch and summed up; and its crossover."""
    table = {timing[:4]: timing.seconds for timing in timings}
    batches = list(dict.fromkeys((timing.rows, timing.length) for timing in timings))
    crossovers = {
        engine: _crossover(engine, table, batches)
        for engine in dict.fromkeys(timing.engine for timing in timings)
    }
    spent = {
        engine: [
            table[engine, crossover is not None and length >= crossover, rows, length]
            for rows, length in batches
        ]
        for engine, crossover in crossovers.items()
    }
    best = [min(column) for column in zip(*spent.values(), strict=True)]
    engine = min(spent, key=lambda name: sum(a / b for a, b in zip(spent[name], best, strict=True)))
    return Choice(engine, crossovers[engine], tuple(timings))


def _crossover(
    engine: str, table: Mapping[tuple[str, bool, int, int], float], batches: Sequence[tuple[int, int]]
) -> int | None:
    """The shortest length from which on elimination pays at every batch that was timed."""
    found = None
    for length in sorted({length for _, length in batches}, reverse=True):
        for rows in (rows for rows, other in batches if other == length):
            eliminated = table.get((engine, True, rows, length), math.inf)
            if eliminated >= PAYS * table[engine, False, rows, length]:
                return found
        found = length
    return found


def _seconds(engine: Engine, batch: dict[str, Integers], clock: Callable[[], float]) -> float:
    """Of one call; of the faster of two if it is quick."""
    found = math.inf
    for _ in range(2):
        start = clock()
        engine.run(batch)
        found = min(found, clock() - start)
        if found > QUICK:
            break
    return found


def _batch(limits: Limits, rows: int, length: int) -> dict[str, Integers]:
    """Words drawn at random: what a batch costs depends on its shape alone."""
    words = np.random.default_rng(0).integers(limits.vocabulary, size=(rows, length))
    return {"input_ids": words, "attention_mask": np.ones_like(words)}

"""The fastest engine of this machine, and elimination only where it pays.

A saved model is opened in every engine that is installed, with and without elimination, all in fp32. Short
calibration runs then tell which engine is the fastest, and from which length on elimination is faster than
the full model: scoring and selecting cost a little for every encoder, which a few words do not earn back.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase
from typing_extensions import override

from powerbert.engines.answers import answer
from powerbert.engines.engine import Answer, Engine
from powerbert.engines.graph_engines import OnnxEngine, OpenVinoEngine
from powerbert.engines.open import open_engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import MissingExtraError, PowerBertError, require
from powerbert.export.graph import trace_graph
from powerbert.export.write import PRECISIONS, export, needs_scales
from powerbert.folders.manifest import Manifest, read_manifest
from powerbert.machine.measure import interleave
from powerbert.machine.verdicts import BY_BATCH
from powerbert.modeling.apply import remove, replica
from powerbert.modeling.limits import Limits, check_classifier, eliminates, limits_of
from powerbert.modeling.storage import load
from powerbert.modeling.trace import Retained
from powerbert.retention import RetentionConfiguration
from powerbert.text.batches import Integers
from powerbert.text.tokenise import Text

CALIBRATED = (8, 16, 32, 64, 128, 512)  # word-vectors of a calibration input, as far as the model reads
SMALL_BATCH, MOST_WORDS = 4, 256  # a small batch: so many rows, and so many word-vectors at most
CALIBRATION_ROUNDS = 2
AGREEMENT = 0.99  # share of the texts that should keep their label in a lower precision
PAYS = 0.95  # elimination must stay under this share of the full model's time; what is nearer is noise

Timings = dict[tuple[str, bool, int, int], float]
"""Engine, whether it eliminates, rows and length of a batch -> seconds of the fastest round: a disturbance adds."""

logger = logging.getLogger(__name__)
_home = partial(TemporaryDirectory, prefix="powerbert-", ignore_cleanup_errors=True)


class Arms(NamedTuple):
    """One engine with both models."""

    full: Engine
    eliminated: Engine | None = None  # None if the model eliminates nothing


@dataclass(frozen=True)
class Choice:
    """The arms that answer, and the timings that say why."""

    engine: str
    crossover: int | None  # inputs of so many word-vectors and more are answered with elimination; None: it never pays
    timings: Timings = field(repr=False, hash=False)


class AutoEngine(Engine):
    """Both models in the engine that was the fastest; an input's own length decides which one answers it."""

    name = "auto"
    precisions = ("fp32",)
    precision = "fp32"

    def __init__(self, arms: Arms, choice: Choice) -> None:
        self.choice, self.full = choice, arms.full
        self.eliminated = None if choice.crossover is None else arms.eliminated
        reader = arms.eliminated or arms.full  # with counts it reads N words, whoever answers
        self.tokenizer, self.labels, self.limits, self.dial = reader.tokenizer, reader.labels, reader.limits, {}
        self.problem_type, self.activation = reader.problem_type, reader.activation
        self.retention, self.encoders = reader.retention, reader.encoders

    @classmethod
    @override
    def load(cls, folder: Path, precision: str | None, threads: int | None, manifest: Manifest | None = None) -> Self:
        model, tokenizer = load(folder, manifest=manifest)
        if threads is not None:
            torch.set_num_threads(threads)
        arms = open_arms(model, tokenizer, threads)
        choice = choose(calibrate(arms))
        pays = "never pays" if choice.crossover is None else f"pays from {choice.crossover} word-vectors on"
        logger.info("%s: %s is the fastest engine, elimination %s", folder, choice.engine, pays)
        return cls(arms[choice.engine], choice)

    @override
    def retaining(self, retention: RetentionConfiguration) -> Self:
        raise PowerBertError("engine auto measures one configuration", remedy="name another engine, or none")

    @override
    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        if self.eliminated is None:
            return self.full.answer(inputs, retained)
        long = inputs["attention_mask"].sum(axis=1) >= (self.choice.crossover or 0)
        if long.all() or not long.any():
            return (self.eliminated if long.all() else self.full).answer(inputs, retained)
        logits = np.empty((len(long), len(self.labels)), np.float32)
        words: Retained = [()] * len(long)
        for arm, mine in ((self.eliminated, long), (self.full, ~long)):
            found = arm.run({name: rows[mine] for name, rows in inputs.items()}, retained=retained)
            logits[mine] = found.logits
            for i, row in zip(np.flatnonzero(mine), found.retained or (), strict=False):
                words[i] = row
        return Answer(logits, words if retained else None)


def open_auto(folder: Path, precision: str | None = None) -> Engine:
    """Open a saved folder in the fastest engine, and an exported one in its own: a graph holds one arm."""
    manifest = read_manifest(folder)
    if manifest.export is not None:
        return open_engine(folder, None, precision, manifest=manifest)
    if precision in (None, *AutoEngine.precisions):
        return AutoEngine.load(folder, precision, None, manifest)
    remedy = "export the model in this precision, and open what was exported"
    raise PowerBertError("engine auto compares engines in fp32", got=precision, remedy=remedy)


def open_arms(model: Any, tokenizer: PreTrainedTokenizerBase, threads: int | None = None) -> dict[str, Arms]:
    """Both models in each engine; one that is not installed, or fails, is left out, and torch remains."""
    check_classifier(model)
    models = [without_elimination(model), model] if eliminates(model) else [without_elimination(model)]
    arms: dict[str, Arms] = {}
    # An engine has all that it needs in memory, or mapped: the folder can go as soon as it is open.
    with _left_out("every engine but torch"), _home() as home:
        require("onnx", OnnxEngine.name)
        logger.info("tracing the model to measure it in other engines")
        programs = [trace_graph(each, limits_of(each, tokenizer)) for each in models]
        for name in (OnnxEngine.name, OpenVinoEngine.name):
            with _left_out(f"engine {name}"):
                opened = []
                for i, program in enumerate(programs):
                    folder = Path(home, f"{name}-{i}")
                    export(models[i], tokenizer, folder, name, program=program)
                    opened.append(open_engine(folder, name, threads=threads))
                    opened[i].run(random_batch(opened[i].limits, 1, 2))
                arms[name] = Arms(*opened)
    # Last, because the torch engine changes how its models run.
    return {TorchEngine.name: Arms(*(TorchEngine(each, tokenizer) for each in models))} | arms


def without_elimination(model: Any) -> Any:
    """The full model beside the eliminated one, on the same layers."""
    return remove(replica(model))


@contextmanager
def _left_out(what: str) -> Iterator[None]:
    """Say in one line that something failed, and carry on without it."""
    try:
        yield
    except MissingExtraError as error:
        logger.info("%s is left out: %s", what, error)
    except Exception as error:
        logger.warning("%s is left out: %s", what, " ".join(f"{type(error).__name__}: {error}".split()))


def choose_target(
    model: Any, tokenizer: PreTrainedTokenizerBase, precision: str | None, known: Sequence[Text], unseen: Sequence[Text]
) -> tuple[str, str, str]:
    """The engine and precision in which this model is the fastest here, and why in one line: each is tried.

    precision: the only one, if it is given. Else int8 joins fp32 if it gives `AGREEMENT` of the
        `unseen` texts the label of torch; `known` are those from which int8 in OpenVINO takes its scales.
    """
    allowed = ("fp32", "int8") if precision is None else (precision,)
    asked = [(to, each) for to, all_of in PRECISIONS.items() for each in all_of if each in allowed]
    if not asked:
        raise PowerBertError("unknown precision", got=precision, rule=f"fp32, int8, {' or '.join(BY_BATCH)}")
    arms, program = {}, trace_graph(model, limits_of(model, tokenizer))
    unseen = unseen if model.config.num_labels > 1 else ()  # a number has no label to keep
    with TorchEngine(model, tokenizer) as torch_engine:
        labels = [row.argmax() for row in answer(torch_engine, unseen)]
    with _home() as home:
        for to, each in asked:
            if (precision is None and each != "fp32" and not labels) or (needs_scales(to, each) and not known):
                continue  # nothing to judge it by, or to make it from
            with _left_out(f"{to} in {each}"):
                export(model, tokenizer, Path(home, f"{to}-{each}"), to, each, calibration=known, program=program)
                opened = open_engine(Path(home, f"{to}-{each}"), to, each)
                same = [row.argmax() == label for row, label in zip(answer(opened, unseen), labels, strict=True)]
                changed = precision is None and each != "fp32" and sum(same) < AGREEMENT * len(same)
                if changed or opened.precision != each:
                    logger.info("%s in %s is left out: slower than fp32, or other labels", to, each)
                    continue
                arms[f"{to} {each}"] = Arms(opened)
        if not arms:
            remedy = 'pip install "powerbert[onnx,openvino]", or see powerbert doctor'
            raise PowerBertError("no engine runs this model here", got=precision, remedy=remedy)
        timings = calibrate(arms)
    chosen = choose(timings).engine
    spent = sorted((1e3 * sum(timings[key] for key in timings if key[0] == name), name) for name in arms)
    why = ", ".join(f"{name} {milliseconds:,.0f} ms" for milliseconds, name in spent)
    to, _, each = chosen.partition(" ")
    return to, each, f"{chosen} is the fastest here, for the same batches: {why}"


def calibrate(arms: Mapping[str, Arms], *, clock: Callable[[], float] = time.perf_counter) -> Timings:
    """Time every arm with the same batches, in turn, so that a busy machine slows all of them alike."""
    engines = {(name, arm is both.eliminated): arm for name, both in arms.items() for arm in both if arm is not None}
    limits = min((arm.limits for arm in engines.values()), key=lambda limits: limits.longest)
    timings: Timings = {}
    for rows, length in shapes(limits.longest):
        batch = random_batch(limits, rows, length)
        runs = {(*key, rows, length): partial(engine.run, batch) for key, engine in engines.items()}
        found = interleave(runs, CALIBRATION_ROUNDS, clock=clock)
        timings |= {key: min(timing.wall) for key, timing in found.items()}
    return timings


def shapes(longest: int) -> list[tuple[int, int]]:
    """Rows and length of the calibration batches: one input, and a small batch, of each length."""
    lengths = [length for length in CALIBRATED if length < longest] + [min(longest, CALIBRATED[-1])]
    small = {length: max(1, min(SMALL_BATCH, MOST_WORDS // length)) for length in lengths}
    return [(rows, length) for length in small for rows in sorted({1, small[length]})]


def choose(timings: Timings) -> Choice:
    """The engine with the least time, relative to the best at each batch and summed up; and its crossover."""
    batches = list(dict.fromkeys((rows, length) for _, _, rows, length in timings))
    crossovers, spent = {}, {}
    for engine in dict.fromkeys(name for name, *_ in timings):
        full = {batch: timings[engine, False, *batch] for batch in batches}
        less = {batch: timings.get((engine, True, *batch), math.inf) for batch in batches}
        loses = [length for rows, length in batches if less[rows, length] >= PAYS * full[rows, length]]
        crossover = min((length for _, length in batches if length > max(loses, default=0)), default=None)
        crossovers[engine] = crossover
        spent[engine] = [(less if batch[1] >= (crossover or math.inf) else full)[batch] for batch in batches]
    best = [min(column) for column in zip(*spent.values(), strict=True)]
    engine = min(spent, key=lambda name: sum(a / b for a, b in zip(spent[name], best, strict=True)))
    return Choice(engine, crossovers[engine], timings)


def random_batch(limits: Limits, rows: int, length: int) -> dict[str, Integers]:
    """Words drawn at random: what a batch costs depends on its shape alone."""
    words = np.random.default_rng(0).integers(limits.vocabulary, size=(rows, length))
    return {"input_ids": words, "attention_mask": np.ones_like(words)}

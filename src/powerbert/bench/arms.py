"""The arms of the benchmark: a model, in an engine and precision, fed in a certain way."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from powerbert.engines.answers import tokenise_for
from powerbert.engines.engine import Engine
from powerbert.engines.open import ENGINES
from powerbert.engines.torch_engine import TorchEngine
from powerbert.export.graph import trace_graph
from powerbert.export.write import RUNTIMES, export, file_precision
from powerbert.folders.manifest import read_manifest
from powerbert.modeling.apply import remove, retention_of, unpad
from powerbert.modeling.dial import by_depth, dial_in
from powerbert.modeling.limits import Batch, limits_of
from powerbert.modeling.packing import unpack
from powerbert.modeling.storage import load
from powerbert.text.batches import collate, length_order
from powerbert.text.tokenise import Row, Text, check_texts

STOCK = "stock"  # the engine everybody starts from: the model as transformers runs it, weights as they are
MODELS = ("full", "eliminated", "truncated")
FEEDS = ("fixed", "dynamic", "sorted", "packed")
SCALING_TEXTS = 4  # from which int8 takes its scales; speed does not depend on them
TRACING, SCALING, OPENING = {False: 0.7, True: 3.0}, 0.7, 2.0
"""Seconds for an estimate: to trace an encoder (with elimination: True), to scale one, to open a graph."""
OF_STOCK = 0.5  # an arm's share of the time that stock transformers takes for texts one by one; for an estimate


def own_feed(engine: str) -> str:
    """The feed with which an engine is at its best; stock transformers is run as everybody runs it."""
    return {STOCK: "dynamic", TorchEngine.name: "packed"}.get(engine, "sorted")


@dataclass(frozen=True)
class Arm:
    """One way to answer all texts."""

    model: str  # full; eliminated; or truncated: full on texts cut to the eliminated model's mean length
    feed: str
    """fixed: padded to N, PAD computed like words, as the paper measures; dynamic: padded to the longest of
    a batch, in the order given; sorted: batches of like length; packed: the same without computing PAD."""
    engine: str
    precision: str
    batch: int

    @property
    def name(self) -> str:
        """A line of the table."""
        return f"{self.engine} {self.precision} {self.feed} {self.batch} {self.model}"


PLAIN = Arm("full", "dynamic", STOCK, "fp32", 1)


class Stock(TorchEngine):
    """transformers' own forward pass with its fused attention, nothing of this project in it."""

    name = STOCK

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__(remove(model), tokenizer, unpadded=False, packed=False)


class Workbench:
    """Engines of both models, opened once, and the batches of every feed."""

    def __init__(
        self,
        folder: Path,
        work: Path,
        texts: Sequence[Text],
        max_length: int,
        threads: int | None = None,
        scaling: Sequence[Text] = (),
    ) -> None:
        """scaling: texts from which int8 takes its scales, where its answers count and not its speed alone."""
        self.work, self.texts, self.threads = work, list(texts), threads
        self.scaling = list(scaling) or self.texts[:SCALING_TEXTS]
        self.engines: dict[tuple[str, str, bool, bool], Engine] = {}
        self.programs: dict[bool, Any] = {}
        manifest = read_manifest(folder)
        model, self.tokenizer = load(folder, manifest=manifest)
        self.retention = retention_of(model)
        self.dial = dial_in(folder, manifest, self.retention)
        # To count on and to copy: what is timed has a copy of its own, on packed weights.
        self.models = {True: model, False: remove(copy.deepcopy(model))}
        self.counted: dict[tuple[bool, bool, int], int] = {}
        check_texts(self.texts)
        self.max_length = min(max_length, limits_of(self.models[False], self.tokenizer).longest)
        self.rows = tokenise_for(self.engine(PLAIN), self.texts, self.max_length).rows
        self.lengths = [len(row["input_ids"]) for row in self.rows]

    def engine(self, arm: Arm) -> Engine:
        """The engine of an arm; an exported graph is written to the work folder at first use."""
        key = arm.engine, arm.precision, arm.model == "eliminated", arm.feed == "packed"
        if key not in self.engines:
            self.engines[key] = self._open(*key)
        return self.engines[key]

    def _open(self, engine: str, precision: str, eliminated: bool, packed: bool) -> Engine:
        model = copy.deepcopy(self.models[eliminated])
        if engine == STOCK:
            return Stock(model, self.tokenizer)
        if engine == TorchEngine.name:
            return TorchEngine(model, self.tokenizer, unpadded=packed)
        target = self.graph(engine, precision, eliminated)
        dial = self.dial if eliminated else {}
        if eliminated not in self.programs:  # tracing is what takes long
            limits, groups = limits_of(model, self.tokenizer), by_depth(retention_of(model), dial)
            traced = {depth: trace_graph(model, limits, served) for depth, served in groups.items()}
            self.programs[eliminated] = traced or trace_graph(model, limits)
        if not target.is_dir():
            more = {"calibration": self.scaling, "program": self.programs[eliminated], "dial": dial}
            export(model, self.tokenizer, target, engine, file_precision(precision), **more)
        return ENGINES[engine].load(target, precision, self.threads)  # as asked, even where it is slower

    def graph(self, engine: str, precision: str, eliminated: bool) -> Path:
        """Where the exported folder of an engine is written."""
        return self.work / f"{engine}-{file_precision(precision)}-{'eliminated' if eliminated else 'full'}"

    def estimate(self, arms: Sequence[Arm], rounds: int) -> float:
        """About how many seconds it takes to export and measure all arms; stock is timed on a few texts."""
        graphs = {(arm.engine, arm.precision, arm.model == "eliminated") for arm in arms if arm.engine in RUNTIMES}
        per_encoder = sum(TRACING[eliminated] for eliminated in {graph[2] for graph in graphs})
        per_encoder += SCALING * sum(graph[:2] == ("openvino", "int8") for graph in graphs)
        run = self.of_length(round(sum(self.lengths) / len(self.lengths)), 4).run(PLAIN)
        run()
        each = OF_STOCK * sum(run()) / 4 * len(self.texts)
        return self.engine(PLAIN).encoders * per_encoder + OPENING * len(graphs) + (rounds + 1) * each * len(arms)

    def run(self, arm: Arm) -> Callable[[], list[float]]:
        """A function that answers all texts once and returns the seconds of each batch."""
        engine, batches = self.engine(arm), list(self.batches(arm))

        def once() -> list[float]:
            seconds = []
            for batch in batches:
                start = time.perf_counter()
                engine.run(batch)
                seconds.append(time.perf_counter() - start)
            return seconds

        return once

    def of_length(self, length: int, inputs: int) -> Workbench:
        """The same engines with inputs of exactly this length, made of the words of the texts."""
        words = [i for row in self.rows for i in row["input_ids"][1:-1]]
        cls, sep = self.rows[0]["input_ids"][0], self.rows[0]["input_ids"][-1]
        rows: list[Row] = []
        for n in range(inputs):
            at = n * length % len(words)
            body = (words[at:] + words * (length // len(words) + 1))[: length - 2]
            row = {name: [0] * length for name in self.rows[0]}  # one segment
            rows.append(row | {"input_ids": [cls, *body, sep][:length], "attention_mask": [1] * length})
        other = copy.copy(self)  # engines and what was counted are shared
        other.rows, other.lengths, other.max_length = rows, [length] * inputs, length
        return other

    def batches(self, arm: Arm) -> Iterator[Batch]:
        """The batches that an arm is fed."""
        rows = self.rows
        if arm.model == "truncated":
            both = (self.engine(replace(arm, model=model)) for model in ("eliminated", "full"))
            less, all_of = (engine.word_vectors(self.lengths) for engine in both)
            cap = same_mean(self.lengths, less / all_of)
            rows = [{name: ids[:cap] for name, ids in row.items()} for row in rows]
        if arm.feed in ("sorted", "packed"):
            rows = [rows[i] for i in length_order([len(row["input_ids"]) for row in rows])]
        pad = int(self.tokenizer.pad_token_id or 0)
        for at in range(0, len(rows), arm.batch):
            batch = collate(rows[at : at + arm.batch], pad)
            yield _filled(batch, self.max_length, pad) if arm.feed == "fixed" else batch

    def word_vectors(self, arm: Arm) -> int:
        """Word-vectors over all encoders; PAD counts only where it is computed like words."""
        lengths = [int(n) for batch in self.batches(arm) for n in batch["attention_mask"].sum(axis=1)]
        return self.engine(arm).word_vectors(lengths)

    def flops(self, arm: Arm) -> int:
        """Of the matrix products of all batches, with PAD where it is computed; counted once per length."""
        eliminated, packed = arm.model == "eliminated", arm.feed == "packed"
        lengths: list[int] = []
        for batch in self.batches(arm):
            rows, width = batch["input_ids"].shape
            lengths += batch["attention_mask"].sum(axis=1).tolist() if packed else [width] * rows
        return sum(self._flops(eliminated, packed, length) for length in lengths)

    def _flops(self, eliminated: bool, packed: bool, length: int) -> int:
        """Of one input; packed, even the full model computes CLS alone at the end."""
        key = eliminated, packed, length
        if key not in self.counted:
            model = self.models[eliminated]
            self.counted[key] = flops(unpad(model) if packed else model, 1, length)
            if not eliminated:
                remove(model)
        return self.counted[key]


def same_mean(lengths: Sequence[int], share: float) -> int:
    """The cap at which texts cut to it have this share of their words, or just above."""
    goal = share * sum(lengths)
    return next(cap for cap in range(1, max(lengths) + 1) if sum(min(length, cap) for length in lengths) >= goal)


def _filled(batch: Batch, length: int, pad: int) -> dict[str, Any]:
    """Pad to N and call every position a word, so that PAD costs what it costs in the paper's protocol."""
    room, values = ((0, 0), (0, length - batch["input_ids"].shape[1])), {"input_ids": pad}
    filled = {name: numpy.pad(rows, room, constant_values=values.get(name, 0)) for name, rows in batch.items()}
    return filled | {"attention_mask": numpy.ones_like(filled["attention_mask"])}


@torch.inference_mode()
def flops(model: Any, rows: int, length: int) -> int:
    """Floating-point operations of the matrix products on a full batch (rows, length), as torch runs it.

    Measured, not derived: the model runs once on its plain layers, with attention in parts that can be
    counted (the fused kernel and packed layers do the same products).
    """
    words = torch.ones(rows, length, dtype=torch.long)
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH):
        unpack(model)(input_ids=words, attention_mask=torch.ones_like(words))
    return int(counter.get_total_flops())

"""The engines that run an exported graph: ONNX Runtime and OpenVINO."""

import copy
import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
from typing_extensions import override

from powerbert.engines.engine import Answer, Engine
from powerbert.errors import ModelFolderError, one_line, require
from powerbert.export.graph import LOGITS, RETENTION
from powerbert.export.write import (
    EXPORT_AGAIN,
    GRAPHS,
    PRECISIONS,
    RUNTIMES,
    Exported,
    file_precision,
    graph_file,
    read_exported,
)
from powerbert.folders.manifest import MANIFEST, Manifest
from powerbert.folders.safe import read_tokenizer
from powerbert.modeling.ops import rounded
from powerbert.modeling.trace import by_input
from powerbert.retention import RetentionConfiguration
from powerbert.text.batches import Integers

_HINTS = {"fp32": "f32", "int8": "f32", "bf16": "bf16", "int8+bf16": "bf16"}
"""What is not quantised runs in this; OpenVINO's own choice would be bf16 wherever the CPU claims it, and an
answer would depend on the batch (docs/results/equality.md)."""
KERNELS, ONEDNN_KERNELS = 2000, 0
"""Kernels that OpenVINO keeps, of each kind, and that oneDNN keeps beneath it. Every new shape of a batch
needs new ones, of up to half a megabyte: with their own 5000 and 1024 a stream of texts takes gigabytes, with a few
hundred single texts wait for them (docs/results/memory.md)."""
_ONEDNN = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


class GraphEngine(Engine):
    """A graph from a folder that was exported to this engine."""

    def __init__(self, exported: Exported, tokenizer: Any, graph: Path, threads: int | None) -> None:
        self.precision, self.limits, self.labels = exported.precision, exported.limits, exported.labels
        self.problem_type, self.activation = exported.problem_type, exported.activation
        self.retention, self.encoders = exported.retention, exported.encoders
        self.tokenizer, self.dial, self._home, self._threads = tokenizer, exported.dial, graph.parent, threads
        self._own, self._turning = exported.retention, Lock()
        self._depths: dict[int, Any] = {} if self._own is None else {self._own.depth: self}
        self._open(graph)

    def _open(self, graph: Path) -> None:
        if not graph.is_file():
            raise ModelFolderError(f"{graph} is missing", remedy=EXPORT_AGAIN)
        with one_line(f"{graph} cannot be loaded", EXPORT_AGAIN):
            inputs = self.open(graph, self._threads)
        self._takes_retention = bool(self.dial) and RETENTION in inputs
        expected = {*self.limits.inputs, *([RETENTION] if self._takes_retention else [])}
        if inputs != expected:
            what = f"{graph} reads other inputs than {MANIFEST} says"
            raise ModelFolderError(what, got=sorted(inputs), rule=str(sorted(expected)), remedy=EXPORT_AGAIN)

    @abstractmethod
    def open(self, graph: Path, threads: int | None) -> set[str]:
        """Open the file and name the inputs of the graph."""

    @abstractmethod
    def outputs(self, inputs: dict[str, Integers], retained: bool) -> dict[str, Any]:
        """Run the graph: logits and, if asked for, the positions that each encoder retained."""

    @classmethod
    def load(cls, folder: Path, precision: str | None, threads: int | None, manifest: Manifest | None = None) -> Self:
        """Load a folder that was exported to this engine, in a precision that can be had from its files."""
        require(RUNTIMES[cls.name], cls.name)
        exported = read_exported(folder, manifest)
        if exported is None:
            rule = f"the engine {cls.name} runs what was exported to it"
            remedy = f"powerbert export --model {folder} --to {cls.name} --output OUT"
            raise ModelFolderError(f"{folder} is not an exported model", rule=rule, remedy=remedy)
        if exported.engine != cls.name:
            what, remedy = "was exported to another engine", f"use engine {exported.engine}, or {EXPORT_AGAIN}"
            raise ModelFolderError(f"{folder} {what}", got=exported.engine, rule=f"asked for {cls.name}", remedy=remedy)
        if exported.precision not in cls.precisions:
            what, rule = f"{folder / MANIFEST} has an unknown precision", "one of " + ", ".join(cls.precisions)
            raise ModelFolderError(what, got=exported.precision, rule=rule, remedy=EXPORT_AGAIN)
        if precision not in (None, exported.precision):
            if file_precision(precision or "") != file_precision(exported.precision):
                what, rule = f"{folder} was exported in another precision", f"asked for {precision}"
                remedy = f"{EXPORT_AGAIN} in {precision}"
                raise ModelFolderError(what, got=exported.precision, rule=rule, remedy=remedy)
            exported = exported._replace(precision=precision)
        return cls(exported, read_tokenizer(folder), folder / GRAPHS[cls.name], threads)

    @override
    def retaining(self, retention: RetentionConfiguration) -> Self:
        """The same graph with the configuration as its input; another one, opened once, for another depth."""
        with self._turning:
            if retention.depth not in self._depths:
                other = copy.copy(self)
                other._open(self._home / graph_file(self.name, retention.depth, self._own))
                self._depths[retention.depth] = other
            beside = copy.copy(self._depths[retention.depth])
        beside.retention = retention
        return beside

    @override
    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        full = self.retention is None or self.retention.is_full
        if self._takes_retention and self.retention is not None:
            inputs = inputs | {RETENTION: np.array(self.retention.values)}
        outputs = self.outputs(inputs, retained)
        logits = np.asarray(outputs.pop(LOGITS), dtype=np.float32)
        # -1 after those of an input; a graph of several configurations tells also of one that eliminates nothing
        places = [] if full else [(rows, (rows >= 0).sum(axis=1)) for rows in outputs.values()]
        return Answer(logits, by_input(places, len(logits)) if retained else None)


class OnnxEngine(GraphEngine):
    """fp32, or int8 with a scale for each word-vector as it comes."""

    name = "onnx"
    precisions = PRECISIONS[name]

    @override
    def open(self, graph: Path, threads: int | None) -> set[str]:
        onnxruntime = require(RUNTIMES[self.name], self.name)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # a graph that cannot be read is told in one line
        options.intra_op_num_threads = threads or 0
        self.session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        self.names = [output.name for output in self.session.get_outputs()]
        return {given.name for given in self.session.get_inputs()}

    @override
    def outputs(self, inputs: dict[str, Integers], retained: bool) -> dict[str, Any]:
        wanted = self.names if retained else [LOGITS]
        return dict(zip(wanted, self.session.run(wanted, inputs), strict=True))


class OpenVinoEngine(GraphEngine):
    """fp32, int8 calibrated on the user's own text, or either with bf16 for what is not in int8, from the same file."""

    name = "openvino"
    precisions = PRECISIONS[name]

    @override
    def open(self, graph: Path, threads: int | None) -> set[str]:
        hint, own = _HINTS[self.precision], {} if threads is None else {"INFERENCE_NUM_THREADS": str(threads)}
        self._options = {"INFERENCE_PRECISION_HINT": hint, "PERFORMANCE_HINT": "LATENCY", **own}
        self._options["CPU_RUNTIME_CACHE_CAPACITY"] = str(KERNELS)
        self._core, self._lock = require(RUNTIMES[self.name], self.name).Core(), Lock()
        self._free: dict[bool, list[Any]] = {False: [], True: []}
        with _few_kernels():
            self._graph = self._core.read_model(str(graph))
            self._compiled = {False: self._compile(retained=False)}
        return {given.any_name for given in self._graph.inputs}

    def _compile(self, retained: bool) -> Any:
        """Without the outputs that tell what was retained nothing is computed that only they need."""
        graph = self._graph.clone()  # weights are shared
        for result in graph.get_results():
            if not retained and LOGITS not in result.output(0).names:
                graph.remove_result(result)
        return self._core.compile_model(graph, "CPU", self._options)

    @override
    def outputs(self, inputs: dict[str, Integers], retained: bool) -> dict[str, Any]:
        width = inputs["input_ids"].shape[1]
        more = min(rounded(width), self.limits.longest) - width  # PAD, so that there are fewer shapes
        if more > 0:
            inputs = {
                name: np.pad(rows, ((0, 0), (0, more))) if rows.ndim == 2 else rows for name, rows in inputs.items()
            }
        with self._request(retained) as request:
            return {key.any_name: rows for key, rows in request.infer(inputs).items()}

    @contextmanager
    def _request(self, retained: bool) -> Iterator[Any]:
        """A request that nobody else runs: there are as many as there were calls at the same time.

        The graph that also tells what was retained is compiled when somebody asks, for it runs longer.
        """
        with self._lock:
            if retained not in self._compiled:
                self._compiled[retained] = self._compile(retained)
            free = self._free[retained]
            request = free.pop() if free else self._compiled[retained].create_infer_request()
        try:
            yield request
        finally:
            free.append(request)


@contextmanager
def _few_kernels() -> Iterator[None]:
    """Bound oneDNN's cache, whose size it reads from the environment once: when OpenVINO first compiles.

    Only meanwhile, for torch has a oneDNN of its own; a size that the user has set stays.
    """
    was_set = _ONEDNN in os.environ
    os.environ.setdefault(_ONEDNN, str(ONEDNN_KERNELS))
    try:
        yield
    finally:
        if not was_set:
            os.environ.pop(_ONEDNN, None)  # another thread may have been faster

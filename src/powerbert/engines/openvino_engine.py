"""The OpenVINO engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
from typing_extensions import override

from powerbert.engines.engine import Answer, Engine, retained_of
from powerbert.errors import one_line, require
from powerbert.export.exported import EXPORT_AGAIN, GRAPHS, PRECISIONS, Exported, check_graph, read_for
from powerbert.export.graph import LOGITS
from powerbert.text.batches import Integers

GRAPH = GRAPHS["openvino"]
_HINTS = {"fp32": "f32", "int8": "f32", "bf16": "bf16"}
"""What is not quantised runs in this; OpenVINO's own choice would be bf16 wherever the CPU claims it."""

KERNELS, ONEDNN_KERNELS = 400, 0
"""Kernels that OpenVINO keeps, of each kind, and that oneDNN keeps beneath it. Every new shape of a batch
needs new ones, of up to half a megabyte; with their own 5000 and 1024 a stream of texts takes gigabytes."""
_ONEDNN = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"

Compile = Callable[[bool], Any]
"""The compiled graph, with the outputs that tell what was retained or without."""


class OpenVinoEngine(Engine):
    """fp32, int8 calibrated on the user's own text, or bf16 from the same file as fp32."""

    name = "openvino"
    precisions = PRECISIONS["openvino"]

    def __init__(self, compile_graph: Compile, exported: Exported, tokenizer: Any) -> None:
        self._compile, self.tokenizer = compile_graph, tokenizer
        self.precision, self.limits, self.labels = exported.precision, exported.limits, exported.labels
        self.problem_type, self.retention = exported.problem_type, exported.retention
        self.encoders = exported.encoders
        self._lock, self._compiled = Lock(), {False: compile_graph(False)}
        self._free: dict[bool, list[Any]] = {False: [], True: []}

    @classmethod
    def load(cls, folder: Path, precision: str | None, threads: int | None) -> Self:
        """Load a folder that was exported to OpenVINO; fp32 and bf16 run from the same folder."""
        openvino = require("openvino", "openvino")
        exported, tokenizer = read_for(folder, cls.name, cls.precisions, GRAPH)
        exported = exported.in_precision(folder, precision, interchangeable=("fp32", "bf16"))
        options = {
            "INFERENCE_PRECISION_HINT": _HINTS[exported.precision],
            "PERFORMANCE_HINT": "LATENCY",
            "CPU_RUNTIME_CACHE_CAPACITY": str(KERNELS),
        }
        if threads is not None:
            options["INFERENCE_NUM_THREADS"] = str(threads)
        core = openvino.Core()

        def compile_graph(retained: bool) -> Any:
            return core.compile_model(graph if retained else _logits_only(graph), "CPU", options)

        with _few_kernels(), one_line(f"{folder / GRAPH} cannot be loaded", EXPORT_AGAIN):
            graph = core.read_model(str(folder / GRAPH))
            check_graph(folder, {given.any_name for given in graph.inputs}, exported.limits)
            return cls(compile_graph, exported, tokenizer)

    @override
    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        with self._request(retained) as request:
            outputs = {key.any_name: rows for key, rows in request.infer(inputs).items()}
        logits = np.asarray(outputs.pop(LOGITS), dtype=np.float32)
        return Answer(logits, retained_of(outputs, len(logits)) if retained else None)

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
    if _ONEDNN in os.environ:
        yield
        return
    os.environ[_ONEDNN] = str(ONEDNN_KERNELS)
    try:
        yield
    finally:
        del os.environ[_ONEDNN]


def _logits_only(graph: Any) -> Any:
    """A copy without the outputs that tell what was retained, and what only they need; weights are shared."""
    short = graph.clone()
    for result in short.get_results():
        if LOGITS not in result.output(0).names:
            short.remove_result(result)
    return short

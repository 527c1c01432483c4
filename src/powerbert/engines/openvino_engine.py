"""The OpenVINO engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from powerbert.engines.engine import Answer, Engine, require, retained_of
from powerbert.errors import one_line
from powerbert.export.exported import EXPORT_AGAIN, Exported, check_graph, read_for
from powerbert.export.graph import LOGITS
from powerbert.text.batches import Integers

GRAPH, WEIGHTS = "model.xml", "model.bin"
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
    precisions = ("fp32", "int8", "bf16")

    def __init__(self, compile_graph: Compile, exported: Exported, tokenizer: Any) -> None:
        self._compile, self.tokenizer = compile_graph, tokenizer
        self.precision, self.limits, self.labels = exported.precision, exported.limits, exported.labels
        self.problem_type, self.retention = exported.problem_type, exported.retention
        self.encoders = exported.encoders
        self.request = compile_graph(False).create_infer_request()

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

    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        """Run the graph."""
        if not retained:
            return Answer(np.asarray(self.request.infer(inputs)[LOGITS], dtype=np.float32), None)
        found = self._telling.infer(inputs)
        outputs = {key.any_name: rows for key, rows in found.items()}
        logits = np.asarray(outputs.pop(LOGITS), dtype=np.float32)
        return Answer(logits, retained_of(outputs, len(logits)))

    @cached_property
    def _telling(self) -> Any:
        """The graph that also tells what was retained: compiled when somebody asks, for it runs longer."""
        return self._compile(True).create_infer_request()


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

"""The OpenVINO engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np

from powerbert.engines.engine import Answer, Engine, Integers, require, retained_of
from powerbert.engines.exported import Exported, check_graph, read_for
from powerbert.engines.graph import LOGITS
from powerbert.modeling.folder import told

GRAPH, WEIGHTS = "model.xml", "model.bin"
_HINTS = {"fp32": "f32", "int8": "f32", "bf16": "bf16"}
"""What is not quantised runs in this; OpenVINO's own choice would be bf16 wherever the CPU claims it."""


class OpenVinoEngine(Engine):
    """fp32, int8 calibrated on the user's own text, or bf16 from the same file as fp32."""

    name = "openvino"
    precisions = ("fp32", "int8", "bf16")

    def __init__(self, compiled: Any, exported: Exported, tokenizer: Any) -> None:
        self.request, self.tokenizer = compiled.create_infer_request(), tokenizer
        self.precision, self.limits, self.labels = exported.precision, exported.limits, exported.labels
        self.outputs = [output.any_name for output in compiled.outputs]

    @classmethod
    def load(cls, folder: Path, precision: str | None, threads: int | None) -> Self:
        """Load a folder that was exported to OpenVINO; fp32 and bf16 run from the same folder."""
        openvino = require("openvino", "openvino")
        exported, tokenizer = read_for(folder, cls.name, cls.precisions, GRAPH)
        exported = exported.in_precision(folder, precision, interchangeable=("fp32", "bf16"))
        options = {"INFERENCE_PRECISION_HINT": _HINTS[exported.precision], "PERFORMANCE_HINT": "LATENCY"}
        if threads is not None:
            options["INFERENCE_NUM_THREADS"] = str(threads)
        with told(f"{folder / GRAPH} cannot be loaded", remedy="export the model again"):
            compiled = openvino.Core().compile_model(str(folder / GRAPH), "CPU", options)
        check_graph(folder, {given.any_name for given in compiled.inputs}, exported.limits)
        return cls(compiled, exported, tokenizer)

    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        """Run the graph."""
        found = self.request.infer(inputs)
        outputs = {name: found[name] for name in self.outputs}
        logits = np.asarray(outputs.pop(LOGITS), dtype=np.float32)
        return Answer(logits, retained_of(outputs, len(logits)) if retained else None)

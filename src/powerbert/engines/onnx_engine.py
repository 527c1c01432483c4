"""The ONNX Runtime engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from typing_extensions import override

from powerbert.engines.engine import Answer, Engine, retained_of
from powerbert.errors import one_line, require
from powerbert.export.exported import EXPORT_AGAIN, GRAPHS, PRECISIONS, Exported, check_graph, read_for
from powerbert.export.graph import LOGITS
from powerbert.text.batches import Integers

GRAPH = GRAPHS["onnx"]


class OnnxEngine(Engine):
    """fp32, or int8 with a scale for each word-vector as it comes."""

    name = "onnx"
    precisions = PRECISIONS["onnx"]

    def __init__(self, session: Any, exported: Exported, tokenizer: Any) -> None:
        self.session, self.tokenizer = session, tokenizer
        self.precision, self.limits, self.labels = exported.precision, exported.limits, exported.labels
        self.problem_type, self.retention = exported.problem_type, exported.retention
        self.encoders = exported.encoders
        self.outputs = [output.name for output in session.get_outputs()]

    @classmethod
    def load(cls, folder: Path, precision: str | None, threads: int | None) -> Self:
        """Load a folder that was exported to ONNX, in the precision that it was exported in."""
        onnxruntime = require("onnxruntime", "onnx")
        exported, tokenizer = read_for(folder, cls.name, cls.precisions, GRAPH)
        exported = exported.in_precision(folder, precision)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # a graph that cannot be read is told below, in one line
        options.intra_op_num_threads = threads or 0
        with one_line(f"{folder / GRAPH} cannot be loaded", EXPORT_AGAIN):
            session = onnxruntime.InferenceSession(str(folder / GRAPH), options, providers=["CPUExecutionProvider"])
        check_graph(folder, {given.name for given in session.get_inputs()}, exported.limits)
        return cls(session, exported, tokenizer)

    @override
    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        wanted = self.outputs if retained else [LOGITS]
        outputs = dict(zip(wanted, self.session.run(wanted, inputs), strict=True))
        logits = np.asarray(outputs.pop(LOGITS), dtype=np.float32)
        return Answer(logits, retained_of(outputs, len(logits)) if retained else None)

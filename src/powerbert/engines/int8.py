"""Post-training quantisation to int8."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from powerbert.engines.engine import Integers, require


def quantise_onnx(source: Path, target: Path) -> None:
    """Weights of linear layers to int8 per channel; activations are quantised as they come.

    Scores, softmax and selection stay in fp32.
    """
    onnx, quantization = require("onnx", "onnx"), require("onnxruntime.quantization", "onnx")
    graph = onnx.load(str(source))
    # The quantiser infers shapes anew and trips over those that the exporter noted of folded weights.
    del graph.graph.value_info[:]
    # Without this entry it advises on the root logger to optimise first, which the exporter has done.
    onnx.helper.set_model_props(graph, {"onnx.quant.pre_process": "onnxruntime.quant"})
    quantization.quantize_dynamic(
        graph,
        str(target),
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        weight_type=quantization.QuantType.QInt8,
    )


def quantise_openvino(model: Any, batches: list[dict[str, Integers]]) -> Any:
    """Weights and activations of matrix products to int8, with scales from the user's own text."""
    os.environ.setdefault("NNCF_CI", "1")  # or it reports to Intel
    nncf = require("nncf", "openvino")
    nncf.set_log_level(logging.ERROR)
    with redirect_stdout(sys.stderr):  # its progress bars; standard output belongs to the caller
        return nncf.quantize(
            model,
            nncf.Dataset(batches),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(batches),
        )

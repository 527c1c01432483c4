"""Export a classifier with its tokenizer and retention configuration to another engine."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from powerbert.errors import PowerBertError, UnsupportedModelError, require
from powerbert.export.exported import GRAPHS, PRECISIONS, Exported, check_exportable, write_exported
from powerbert.export.graph import trace_graph
from powerbert.export.int8 import quantise_onnx, quantise_openvino
from powerbert.machine.verdicts import prepare_openvino
from powerbert.modeling.apply import encoders_of, retention_of
from powerbert.modeling.limits import Limits, check_batch, check_classifier, limits_of
from powerbert.text.batches import Integers, collate
from powerbert.text.tokenise import Text, tokenise

logger = logging.getLogger(__name__)


def export(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    folder: str | Path,
    to: str,
    precision: str = "fp32",
    *,
    calibration: Sequence[Text] = (),
    program: Any = None,
) -> None:
    """Write a folder that an engine runs: graph, tokenizer and retention, all of it or nothing.

    The model is left as it is, in eval mode. Tracing takes some seconds per encoder.

    to: "onnx" or "openvino".
    precision: "fp32", "int8" or, for OpenVINO, "bf16".
    calibration: texts, or pairs of texts, such as the model will meet; int8 in OpenVINO takes its scales
        from them. Some hundreds are plenty. ONNX Runtime needs none: each word-vector has its own scale.
    program: what `trace_graph` gave for this very model, if it is exported more than once.
    """
    check_engine(to, precision)
    check_exportable(folder)
    check_classifier(model)
    _check_weights(model)
    if needs_scales(to, precision) and not calibration:
        raise PowerBertError(
            "int8 in OpenVINO needs calibration texts", remedy="give some hundreds of the texts it will meet"
        )
    for package in ("onnx", "openvino") if to == "openvino" else ("onnx", "onnxruntime"):
        require(package, to)
    limits = limits_of(model, tokenizer)
    texts = calibration if needs_scales(to, precision) else ()
    batches = list(_batches(tokenizer, limits, texts))
    labels = {i: str(model.config.id2label.get(i, i)) for i in range(model.config.num_labels)}

    about = Exported(to, precision, limits, labels, model.config.problem_type, retention_of(model), encoders_of(model))

    def write_graph(target: Path) -> None:
        traced = trace_graph(model, limits) if program is None else program
        if to == "onnx":
            _write_onnx(traced, target / GRAPHS["onnx"], precision)
        else:
            _write_openvino(traced, target / GRAPHS["openvino"], precision, batches)

    write_exported(folder, model, tokenizer, about, write_graph)
    logger.info("%s: exported to %s, %s", folder, to, precision)


def needs_scales(to: str, precision: str) -> bool:
    """Whether an export takes scales from calibration texts."""
    return (to, precision) == ("openvino", "int8")


def check_engine(to: str, precision: str) -> None:
    """Refuse an engine that nothing is exported to, and a precision that it does not have."""
    if not isinstance(to, str) or to not in PRECISIONS:
        raise PowerBertError("a model cannot be exported to this", got=to, rule="one of " + ", ".join(PRECISIONS))
    known = PRECISIONS[to]
    if precision not in known:
        raise PowerBertError(f"unknown precision of {to}", got=precision, rule="one of " + ", ".join(known))


def _write_onnx(program: Any, target: Path, precision: str) -> None:
    if precision == "fp32":
        program.save(str(target))
        return
    with TemporaryDirectory() as temporary:
        plain = Path(temporary) / target.name
        program.save(str(plain))
        quantise_onnx(plain, target)


def _write_openvino(program: Any, target: Path, precision: str, batches: list[dict[str, Integers]]) -> None:
    """By way of ONNX: OpenVINO's own reading of a torch graph cannot follow numbers computed inside it."""
    openvino = require("openvino", "openvino")
    prepare_openvino()  # quantising runs the graph
    with TemporaryDirectory() as temporary:
        _write_onnx(program, Path(temporary) / GRAPHS["onnx"], "fp32")
        graph = openvino.Core().read_model(str(Path(temporary) / GRAPHS["onnx"]))  # convert_model reports to Intel
        if precision == "int8":
            graph = quantise_openvino(graph, batches)
        openvino.save_model(graph, str(target), compress_to_fp16=False)


def _batches(
    tokenizer: PreTrainedTokenizerBase, limits: Limits, texts: Sequence[Text]
) -> Iterator[dict[str, Integers]]:
    """Calibration texts one by one: PAD would widen the scales (docs/results/notes/inference.md)."""
    tokenizer = copy.deepcopy(tokenizer)  # it remembers how it cut, and would be saved that way
    for row in tokenise(tokenizer, texts, limits.longest, limits.inputs).rows:
        yield check_batch(collate([row], None), limits)


def _check_weights(model: Any) -> None:
    for name, parameter in model.named_parameters():
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            raise UnsupportedModelError(
                f"{name} is not fp32 on the CPU",
                got=f"{parameter.dtype} on {parameter.device}",
                remedy="call model.float().cpu() first",
            )

"""Export a classifier with its tokenizer and retention configuration to another engine; and what was exported.

The folder is written whole or not at all, and `powerbert.json` holds a sha256 of every file, as in a saved one.
Its entry `export` names the engine that runs it.
"""

import copy
import itertools
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoConfig, PreTrainedTokenizerBase

from powerbert.errors import ModelFolderError, PowerBertError, UnsupportedModelError, one_line, require
from powerbert.export.graph import RETENTION, trace_graph
from powerbert.export.int8 import quantise_onnx, quantise_openvino
from powerbert.folders.atomic import write_folder
from powerbert.folders.cross_encoder import activation_of
from powerbert.folders.manifest import CONFIG, MANIFEST, Manifest, check_replaceable, read_manifest, write_manifest
from powerbert.folders.safe import read_config, silenced
from powerbert.machine.verdicts import prepare_openvino
from powerbert.modeling.apply import elimination_of, retention_of
from powerbert.modeling.dial import Dial, by_depth, dial_in, dial_to_json
from powerbert.modeling.limits import Limits, check_batch, check_classifier, limits_of
from powerbert.modeling.storage import elimination_in, elimination_to_json
from powerbert.retention import RetentionConfiguration
from powerbert.text.batches import Integers, collate
from powerbert.text.tokenise import Text, tokenise

GRAPHS = {"onnx": "model.onnx", "openvino": "model.xml"}  # the file that each engine reads
RUNTIMES = {"onnx": "onnxruntime", "openvino": "openvino"}  # the package that runs it
PRECISIONS = {"onnx": ("fp32", "int8"), "openvino": ("fp32", "int8", "bf16", "int8+bf16")}
_RUN_FROM = {"bf16": "fp32", "int8+bf16": "int8"}
"""The file of which precision another one runs from: bf16 is how OpenVINO computes what is not in int8."""
EXPORT_AGAIN = "export the model again"

Served = Sequence[RetentionConfiguration]

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
    dial: Dial | None = None,
) -> None:
    """Write a folder that an engine runs: graph, tokenizer and retention, all of it or nothing.

    The model is left as it is, in eval mode. Tracing takes some seconds per encoder.

    to: "onnx" or "openvino".
    precision: "fp32", "int8" or, for OpenVINO, "bf16" and "int8+bf16": bf16 for what is not in int8.
    calibration: texts, or pairs of texts, such as the model will meet; int8 in OpenVINO takes its scales
        from them. Some hundreds are plenty. ONNX Runtime needs none: each word-vector has its own scale.
    program: what `trace_graph` gave for this very model, if it is exported more than once; with a dial that of each
        depth in `by_depth`.
    dial: other configurations, by budget, that the folder serves. Those that run equally many encoders share a
        graph, which takes the configuration as an input.
    """
    check_engine(to, precision)
    check_exportable(folder)
    calibration = calibration if needs_scales(to, precision) else ()
    if needs_scales(to, precision) and not calibration:
        remedy = "give some hundreds of the texts it will meet"
        raise PowerBertError("int8 in OpenVINO needs calibration texts", remedy=remedy)
    _check_source(model, to)
    limits = limits_of(model, tokenizer)
    batches = _batches(tokenizer, calibration, limits)
    labels = [str(model.config.id2label.get(i, i)) for i in range(model.config.num_labels)]
    write_one = {"onnx": _write_onnx, "openvino": _write_openvino}[to]
    about = {"engine": to, "precision": precision, "labels": labels, **limits._asdict()}

    def write(staging: Path) -> None:
        with silenced(), one_line(f"the model cannot be exported to {folder}", "check the disk and retry"):
            model.config.save_pretrained(staging)
            tokenizer.save_pretrained(staging)
            for file, traced, served in _traced(model, limits, to, dial or {}, program):
                write_one(traced, staging / file, precision, _in_turn(batches, served))
        elimination = elimination_to_json(elimination_of(model))
        write_manifest(staging, elimination, export=about, dial=dial_to_json(dial or {}))

    write_folder(folder, write, check_exportable)
    logger.info("%s: exported to %s, %s", folder, to, precision)


def _traced(model: Any, limits: Limits, to: str, dial: Dial, program: Any) -> Iterator[tuple[str, Any, Served]]:
    """Every graph of a folder: its file, its program, and the configurations of a dial that it serves."""
    own = retention_of(model)
    groups = by_depth(own, dial)
    if not groups:
        yield GRAPHS[to], program or trace_graph(model, limits), ()
    for depth, served in groups.items():
        traced = trace_graph(model, limits, served) if program is None else program[depth]
        yield graph_file(to, depth, own), traced, served


def graph_file(engine: str, depth: int, own: RetentionConfiguration | None) -> str:
    """The file of the graph that runs so many encoders; the plain name is that of the model's own configuration."""
    plain = GRAPHS[engine]
    return plain if own is None or depth == own.depth else plain.replace(".", f"-{depth}.")


def _batches(tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], limits: Limits) -> list[dict[str, Integers]]:
    """Inputs for calibration, one by one: PAD would widen the scales (docs/results/notes/inference.md)."""
    own = copy.deepcopy(tokenizer)  # it remembers how it cut, and would be saved that way
    rows = tokenise(own, texts, limits.longest, limits.inputs).rows
    return [check_batch(collate([row], None), limits) for row in rows]


def _in_turn(batches: list[dict[str, Integers]], served: Served) -> list[dict[str, Integers]]:
    """Batches of a graph that takes its configuration as an input, with each of them in turn."""
    if len(served) < 2:
        return batches
    turns = itertools.cycle(np.array(each.values) for each in served)
    return [{**batch, RETENTION: values} for batch, values in zip(batches, turns, strict=False)]


def _check_source(model: Any, to: str) -> None:
    """Refuse a model that no graph is made of, and an engine that is not installed."""
    check_classifier(model)
    for name, weight in model.named_parameters():
        if weight.dtype != torch.float32 or weight.device.type != "cpu":
            got, remedy = f"{weight.dtype} on {weight.device}", "call model.float().cpu() first"
            raise UnsupportedModelError(f"{name} is not fp32 on the CPU", got=got, remedy=remedy)
    for package in ("onnx", RUNTIMES[to]):
        require(package, to)


def check_exportable(folder: str | Path) -> None:
    """Refuse to write an export over anything but an export: never over the model that it comes from."""
    check_replaceable(Path(folder), exported=True)


def needs_scales(to: str, precision: str) -> bool:
    """Whether an export takes scales from calibration texts."""
    return (to, file_precision(precision)) == ("openvino", "int8")


def file_precision(precision: str) -> str:
    """The precision of the file that a precision runs from: fp32 or int8."""
    return _RUN_FROM.get(precision, precision)


def check_engine(to: str, precision: str) -> None:
    """Refuse an engine that nothing is exported to, and a precision that it does not have."""
    if not isinstance(to, str) or to not in PRECISIONS:
        raise PowerBertError("a model cannot be exported to this", got=to, rule="one of " + ", ".join(PRECISIONS))
    if precision not in PRECISIONS[to]:
        raise PowerBertError(f"unknown precision of {to}", got=precision, rule="one of " + ", ".join(PRECISIONS[to]))


def _write_onnx(program: Any, target: Path, precision: str, batches: Sequence[dict[str, Integers]] = ()) -> None:
    if precision == "fp32":
        program.save(str(target))
        return
    with TemporaryDirectory() as temporary:
        plain = Path(temporary) / target.name
        program.save(str(plain))
        quantise_onnx(plain, target)


def _write_openvino(program: Any, target: Path, precision: str, batches: Sequence[dict[str, Integers]]) -> None:
    """By way of ONNX: OpenVINO's own reading of a torch graph cannot follow numbers computed inside it."""
    openvino = require("openvino", "openvino")
    prepare_openvino()  # quantising runs the graph
    with TemporaryDirectory() as temporary:
        _write_onnx(program, Path(temporary) / GRAPHS["onnx"], "fp32")
        graph = openvino.Core().read_model(str(Path(temporary) / GRAPHS["onnx"]))  # convert_model reports to Intel
        if file_precision(precision) == "int8":
            graph = quantise_openvino(graph, [*batches])
        openvino.save_model(graph, str(target), compress_to_fp16=False)


class Exported(NamedTuple):
    """What an exported folder says of itself."""

    engine: str
    precision: str
    limits: Limits
    labels: dict[int, str]
    problem_type: str | None
    activation: str | None
    retention: RetentionConfiguration | None
    encoders: int
    dial: Dial


def read_exported(folder: Path, manifest: Manifest | None = None) -> Exported | None:
    """Read what an exported folder says of itself, and check its files; None if it is not exported.

    manifest: what `read_manifest` gave for this folder, where the caller has read it.
    """
    if not folder.is_dir():
        raise ModelFolderError(f"{folder} is not a folder", rule="a model is a local folder")
    manifest = manifest or read_manifest(folder)
    if manifest.export is None:
        return None
    elimination = elimination_in(folder, manifest)
    retention = None if elimination is None else elimination[0]
    match manifest.export:
        case {
            "engine": str(engine),
            "precision": str(precision),
            "labels": list(labels),
            "inputs": list(inputs),
            "longest": int(longest),
            "vocabulary": int(vocabulary),
            "types": int(types),
        } if labels and all(isinstance(name, str) for name in (*labels, *inputs)):
            limits = Limits(tuple(inputs), longest, vocabulary, types)
            if 1 <= longest <= 1_000_000 and 1 <= vocabulary <= 10_000_000 and 0 <= types <= 100_000:
                problem_type, activation, encoders = _configured(folder)
                encoders = encoders if retention is None else len(retention)
                named, dial = dict(enumerate(labels)), dial_in(folder, manifest, retention)
                return Exported(engine, precision, limits, named, problem_type, activation, retention, encoders, dial)
    raise ModelFolderError(f"{folder / MANIFEST} has an unknown export", got=manifest.export, remedy=EXPORT_AGAIN)


def _configured(folder: Path) -> tuple[str | None, str | None, int]:
    """Problem type, activation and number of encoders in the configuration, whose sha256 has been compared."""
    read_config(folder)  # refuses what from_pretrained would follow
    with silenced(), one_line(f"{folder / CONFIG} cannot be read", EXPORT_AGAIN):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    # ALBERT may run several layers where its configuration counts one.
    encoders = config.num_hidden_layers * getattr(config, "inner_group_num", 1)
    return config.problem_type, activation_of(config), encoders

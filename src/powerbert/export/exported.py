"""An exported folder: a graph with its tokenizer, its retention configuration and what it can read.

It is written whole or not at all, and `powerbert.json` holds a sha256 of every file, as in a saved folder;
its entry `export` says which engine runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from transformers import AutoConfig, PreTrainedTokenizerBase

from powerbert.errors import ModelFolderError, one_line
from powerbert.folders.atomic import write_folder
from powerbert.folders.manifest import CONFIG, MANIFEST, Manifest, check_replaceable, read_manifest, write_manifest
from powerbert.folders.safe import read_config, silenced
from powerbert.modeling.apply import elimination_of
from powerbert.modeling.limits import Limits
from powerbert.modeling.storage import elimination_in, elimination_to_json
from powerbert.retention import RetentionConfiguration

GRAPHS = {"onnx": "model.onnx", "openvino": "model.xml"}
"""The file that each engine reads."""
PRECISIONS = {"onnx": ("fp32", "int8"), "openvino": ("fp32", "int8", "bf16")}
EXPORT_AGAIN = "export the model again"


class Exported(NamedTuple):
    """What an exported folder says of itself."""

    engine: str
    precision: str
    limits: Limits
    labels: dict[int, str]
    problem_type: str | None
    retention: RetentionConfiguration | None
    encoders: int


def write_exported(
    folder: str | Path,
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    exported: Exported,
    write_graph: Callable[[Path], None],
) -> None:
    """Write an exported folder; `write_graph` puts the graph into the folder that it is given."""

    def write(staging: Path) -> None:
        with silenced(), one_line(f"the model cannot be exported to {folder}", "check the disk and retry"):
            model.config.save_pretrained(staging)
            tokenizer.save_pretrained(staging)
            write_graph(staging)
        about = {
            "engine": exported.engine,
            "precision": exported.precision,
            "labels": [exported.labels[i] for i in range(len(exported.labels))],
            **exported.limits._asdict(),
        }
        write_manifest(staging, elimination_to_json(elimination_of(model)), export=about)

    write_folder(folder, write, check_exportable)


def check_exportable(folder: str | Path) -> None:
    """Refuse to write an export over anything but an export: never over the model that it comes from."""
    check_replaceable(Path(folder), exported=True)


def read_exported(folder: Path, manifest: Manifest | None = None) -> Exported | None:
    """Read what an exported folder says of itself, and check its files; None if it is not exported.

    manifest: what `read_manifest` gave for this folder, where the caller has read it.
    """
    if not folder.is_dir():
        raise ModelFolderError(f"{folder} is not a folder", rule="a model is a local folder")
    manifest = read_manifest(folder) if manifest is None else manifest
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
                problem_type, encoders = _configured(folder)
                named, encoders = dict(enumerate(labels)), encoders if retention is None else len(retention)
                return Exported(engine, precision, limits, named, problem_type, retention, encoders)
    raise ModelFolderError(f"{folder / MANIFEST} has an unknown export", got=manifest.export, remedy=EXPORT_AGAIN)


def _configured(folder: Path) -> tuple[str | None, int]:
    """The problem type and the number of encoders in the configuration, whose sha256 has been compared."""
    read_config(folder)  # refuses what from_pretrained would follow
    with silenced(), one_line(f"{folder / CONFIG} cannot be read", EXPORT_AGAIN):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    # ALBERT may run several layers where its configuration counts one.
    return config.problem_type, config.num_hidden_layers * getattr(config, "inner_group_num", 1)

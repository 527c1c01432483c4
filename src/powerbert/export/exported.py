"""An exported folder: a graph with its tokenizer, its retention configuration and what it can read.

It is written whole or not at all, and `powerbert.json` holds a sha256 of every file, as in a saved folder;
its entry `export` says which engine runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from transformers import AutoConfig, PreTrainedTokenizerBase

from powerbert.errors import ModelFolderError
from powerbert.folders.safe import CONFIG, read_tokenizer, told, write_folder
from powerbert.modeling.apply import elimination_of
from powerbert.modeling.limits import Limits
from powerbert.modeling.storage import MANIFEST, elimination_in, read_manifest, write_manifest
from powerbert.retention import RetentionConfiguration

GRAPHS = {"onnx": "model.onnx", "openvino": "model.xml"}
"""The file that each engine reads."""
PRECISIONS = {"onnx": ("fp32", "int8"), "openvino": ("fp32", "int8", "bf16")}
_AGAIN = "export the model again"


class Exported(NamedTuple):
    """What an exported folder says of itself."""

    engine: str
    precision: str
    limits: Limits
    labels: dict[int, str]
    problem_type: str | None
    retention: RetentionConfiguration | None
    encoders: int

    def in_precision(
        self, folder: Path, asked: str | None, interchangeable: tuple[str, ...] = ()
    ) -> Exported:
        """Run it in the precision asked for, if that can be had from the files in the folder."""
        if asked in (None, self.precision):
            return self
        if asked in interchangeable and self.precision in interchangeable:
            return self._replace(precision=asked)
        raise ModelFolderError(
            f"{folder} was exported in another precision",
            got=self.precision,
            rule=f"asked for {asked}",
            remedy=f"{_AGAIN} in {asked}",
        )


def write_exported(
    folder: str | Path,
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    exported: Exported,
    write_graph: Callable[[Path], None],
) -> None:
    """Write an exported folder; `write_graph` puts the graph into the folder that it is given."""

    def write(staging: Path) -> None:
        with told(f"the model cannot be exported to {folder}", remedy="check the disk and try again"):
            model.config.save_pretrained(staging)
            tokenizer.save_pretrained(staging)
            write_graph(staging)
        about = {
            "engine": exported.engine,
            "precision": exported.precision,
            "labels": [exported.labels[i] for i in range(len(exported.labels))],
            **exported.limits._asdict(),
        }
        write_manifest(staging, elimination_of(model), export=about)

    write_folder(folder, write)


def read_exported(folder: Path) -> Exported | None:
    """Read what an exported folder says of itself, and check its files; None if it is not exported."""
    if not folder.is_dir():
        raise ModelFolderError(f"{folder} is not a folder", rule="a model is a local folder")
    manifest = read_manifest(folder)
    if manifest is None or "export" not in manifest:
        return None
    elimination = elimination_in(folder, manifest)
    retention = None if elimination is None else elimination[0]
    match manifest["export"]:
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
            problem_type, encoders = _configured(folder)
            named, encoders = dict(enumerate(labels)), encoders if retention is None else len(retention)
            return Exported(engine, precision, limits, named, problem_type, retention, encoders)
    raise ModelFolderError(
        f"{folder / MANIFEST} has an unknown export", got=manifest["export"], remedy=_AGAIN
    )


def _configured(folder: Path) -> tuple[str | None, int]:
    """The problem type and the number of encoders in the configuration, whose sha256 has been compared."""
    with told(f"{folder / CONFIG} cannot be read", remedy=_AGAIN):
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    return config.problem_type, int(config.num_hidden_layers)


def read_for(
    folder: Path, engine: str, precisions: Collection[str], graph: str
) -> tuple[Exported, PreTrainedTokenizerBase]:
    """Read a folder that was exported to this engine and holds the file `graph`."""
    exported = read_exported(folder)
    if exported is None:
        raise ModelFolderError(
            f"{folder} is not an exported model",
            rule=f"the engine {engine} runs what was exported to it",
            remedy=f"powerbert export --model {folder} --to {engine} --output OUT",
        )
    if exported.engine != engine:
        raise ModelFolderError(
            f"{folder} was exported to another engine",
            got=exported.engine,
            rule=f"asked for {engine}",
            remedy=f"use engine {exported.engine}, or {_AGAIN}",
        )
    if exported.precision not in precisions:
        raise ModelFolderError(
            f"{folder / MANIFEST} has an unknown precision",
            got=exported.precision,
            rule="one of " + ", ".join(precisions),
            remedy=_AGAIN,
        )
    if not (folder / graph).is_file():
        raise ModelFolderError(f"{folder / graph} is missing", remedy=_AGAIN)
    return exported, read_tokenizer(folder)


def check_graph(folder: Path, found: set[str], limits: Limits) -> None:
    """Compare the inputs of a loaded graph with those that the folder names."""
    if found != set(limits.inputs):
        raise ModelFolderError(
            f"the graph in {folder} reads other inputs than {MANIFEST} says",
            got=sorted(found),
            rule=f"{sorted(limits.inputs)}",
            remedy=_AGAIN,
        )

"""What an exported folder says of itself: its entry `export` in `powerbert.json` names the engine that runs it."""

from pathlib import Path
from typing import NamedTuple

from transformers import AutoConfig

from powerbert.errors import ModelFolderError, one_line
from powerbert.folders.manifest import CONFIG, MANIFEST, Manifest, read_manifest
from powerbert.folders.safe import read_config, silenced
from powerbert.modeling.limits import Limits
from powerbert.modeling.storage import elimination_in
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

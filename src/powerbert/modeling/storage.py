"""Save a model with its retention configuration, and load it back with elimination applied.

The folder is an ordinary transformers folder plus `powerbert.json`, which says what elimination it
carries and holds a sha256 of every other file. A plain `from_pretrained` of it gives the ordinary
model, without elimination.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from powerbert.elimination.selection import STRATEGIES, Scoring
from powerbert.errors import ModelFolderError, UnsupportedModelError
from powerbert.folders.safe import read_model, read_tokenizer, told, write_folder
from powerbert.modeling.apply import apply, elimination_of
from powerbert.modeling.encoder import Elimination
from powerbert.modeling.families.registry import FAMILIES
from powerbert.modeling.limits import trained_length
from powerbert.retention import RetentionConfiguration

MANIFEST = "powerbert.json"
FORMAT = 1
MAX_MANIFEST = 1 << 20

logger = logging.getLogger(__name__)


def save(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    folder: str | Path,
    *,
    extra: Mapping[str, bytes] | None = None,
) -> None:
    """Write model, tokenizer and retention configuration to `folder`, all of it or nothing.

    `extra` are other files by name, such as a model card; loading does not look at them.
    """
    if not isinstance(model, PreTrainedModel):
        raise UnsupportedModelError(
            "only a transformers model can be saved",
            got=type(model).__name__,
            remedy="call merge_and_unload() on a PEFT model first",
        )
    elimination = elimination_of(model)

    def write(staging: Path) -> None:
        with told(f"the model cannot be written to {folder}", remedy="check the disk and try again"):
            model.save_pretrained(staging)
            tokenizer.save_pretrained(staging)
        write_manifest(staging, elimination)
        for name, content in (extra or {}).items():
            with (staging / name).open("xb") as file:  # never over a file of the model's
                file.write(content)

    write_folder(folder, write)


def load(folder: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load what `save` wrote, checked and with elimination applied; or a plain transformers folder.

    Only safetensors are read, no code of the folder runs, and every tensor must be there.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    if manifest is not None and "export" in manifest:
        raise ModelFolderError(
            f"{folder} holds an exported model",
            rule="an engine runs it, torch cannot",
            remedy="open it with powerbert.engines, or load the folder that it was exported from",
        )
    settings = None if manifest is None else elimination_in(folder, manifest)
    model = read_model(folder, FAMILIES)
    tokenizer = read_tokenizer(folder)
    if (trained := trained_length(folder)) is not None:
        tokenizer.model_max_length = trained  # a text is answered as it was evaluated
    if settings is None:
        logger.info("%s carries no retention configuration: loaded as it is", folder)
    else:
        retention, strategy, scoring = settings
        apply(model, retention, strategy, scoring=scoring)
        logger.info("%s: elimination applied, %s, retention %s", folder, strategy, retention)
    return model, tokenizer


def write_manifest(folder: Path, elimination: Elimination | None, **more: Any) -> None:
    """Write powerbert.json beside the files of a model: what it carries, and their sha256."""
    manifest = {"format": FORMAT, "elimination": _to_json(elimination), "sha256": _digests(folder), **more}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _to_json(elimination: Elimination | None) -> dict[str, Any] | None:
    if elimination is None:
        return None
    return {
        "retention": elimination.retention.to_json(),
        "strategy": elimination.strategy,
        "scoring": asdict(elimination.scoring),
    }


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: _sha256(path) for path in sorted(folder.iterdir()) if path.name != MANIFEST}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Read powerbert.json and compare every file with its sha256; None if there is none."""
    path = folder / MANIFEST
    if not path.exists():
        return None
    if not path.is_file():
        raise ModelFolderError(f"{path} is not a file", remedy="save the model again")
    if path.stat().st_size > MAX_MANIFEST:
        raise ModelFolderError(f"{path} is too large", rule=f"at most {MAX_MANIFEST:,} bytes")
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version, _, digests = manifest["format"], manifest["elimination"], dict(manifest["sha256"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFolderError(
            f"{path} cannot be read", got=f"{type(error).__name__}: {error}", remedy="save the model again"
        ) from error
    if version != FORMAT:
        raise ModelFolderError(
            f"{path} has an unknown format", got=version, rule=f"this version reads format {FORMAT}"
        )
    _check_digests(folder, digests)
    return manifest


def _check_digests(folder: Path, digests: dict[str, Any]) -> None:
    for name, digest in digests.items():
        file = folder / Path(name).name
        if not file.is_file():
            raise ModelFolderError(f"{file} is missing", remedy="save the model again")
        if _sha256(file) != digest:
            raise ModelFolderError(
                f"{file} is not what was saved",
                rule=f"its sha256 is in {MANIFEST}",
                remedy="save the model again, or delete powerbert.json to load it as a plain model",
            )


def elimination_in(
    folder: Path, manifest: Mapping[str, Any]
) -> tuple[RetentionConfiguration, str, Scoring] | None:
    """The elimination that a manifest describes: retention, strategy and scoring; None if there is none."""
    path, settings = folder / MANIFEST, manifest["elimination"]
    if settings is None:
        return None
    try:
        retention = RetentionConfiguration.from_json(settings["retention"])
        strategy, scoring = settings["strategy"], Scoring(**settings["scoring"])
    except (KeyError, TypeError, RecursionError) as error:
        raise ModelFolderError(f"{path} has an unknown elimination", got=settings) from error
    kinds = {name: type(value) for name, value in asdict(scoring).items()}
    if kinds != {name: type(value) for name, value in asdict(Scoring()).items()} or abs(scoring.seed) >> 63:
        raise ModelFolderError(f"{path} has unknown scoring options", got=settings["scoring"])
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ModelFolderError(
            f"{path} has an unknown strategy", got=strategy, rule="one of " + ", ".join(STRATEGIES)
        )
    return retention, strategy, scoring

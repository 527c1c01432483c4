"""What a run leaves behind: its command, versions, figures and a model card."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

from powerbert.errors import PowerBertError
from powerbert.folders.lock import LOCK
from powerbert.machine.describe import versions
from powerbert.modeling.limits import RUN
from powerbert.retention import RetentionConfiguration
from powerbert.training.evaluation import Evaluation

PACKAGES = ("powerbert", "torch", "transformers", "accelerate", "datasets", "tokenizers", "numpy")


def run_record(settings: dict[str, Any]) -> dict[str, Any]:
    """What was run, with what, on what."""
    return {
        "settings": settings,
        "command": shlex.join(["powerbert", *sys.argv[1:]]),
        "versions": versions(PACKAGES) | {"python": platform.python_version()},
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
    }


def read_run(folder: Path) -> dict[str, Any] | None:
    """The record in a folder, or None."""
    try:
        record = json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def origin(folder: Path) -> Path:
    """The fine-tuned model that a folder came from, through any number of searches and re-trainings.

    A folder that no step wrote, or that fine-tuning wrote, is that model itself.
    """
    seen: set[Path] = set()
    while (settings := _settings(folder)).get("step") not in (None, "finetune"):
        before = Path(str(settings.get("model")))
        if before in seen or not before.is_dir():
            raise PowerBertError(
                "the fine-tuned model that this one came from is not there",
                got=str(before),
                rule=f"{folder / RUN} names it",
                remedy="give --teacher FOLDER, or --distillation 0",
            )
        seen.add(before)
        folder = before
    return folder


def check_place(work: Path, output: Path, settings: dict[str, Any]) -> bool:
    """Whether `output` already holds the result of a run; a folder of another run is refused."""
    for folder in (output, work):
        record = read_run(folder)
        if record is not None and record.get("settings") != settings:
            raise PowerBertError(
                f"{folder} holds another run",
                got=_differences(record.get("settings"), settings),
                remedy="choose another --output, or delete the folder",
            )
    if read_run(output) is not None:
        return True
    for folder in (output,) if read_run(work) else (output, work):  # work is deleted at the end
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else {folder.name}
        if folder.exists() and not names <= {LOCK, RUN}:  # which a run that was killed at once may leave
            raise PowerBertError(f"{folder} is not empty", remedy="choose another --output")
    return False


def model_card(settings: dict[str, Any], evaluation: Evaluation, retention: RetentionConfiguration | None) -> str:
    """A README for the model's folder, with the retention table."""
    low, high = evaluation.interval
    lines = [
        f"# {settings['task']} with powerbert",
        "",
        f"Made by `powerbert {settings['step']}` from `{settings['model']}`, "
        f"seed {settings['options']['seed']}; the command and versions are in `run.json`, "
        "the course of training in `metrics.jsonl`.",
        "",
        "| on dev | |",
        "|---|---|",
        f"| {evaluation.metric} | {evaluation.value:.4f} "
        f"(95 % interval {low:.4f} to {high:.4f}, {evaluation.rows} rows) |",
        f"| word-vectors processed | {evaluation.word_vectors:,} of {evaluation.word_vectors_full:,} "
        f"of the unpadded model ({100 * evaluation.work:.1f} %) |",
    ]
    if retention is not None:
        counts = f"word-vectors of N={retention.max_length}"
        entries = str(retention).split(",")
        lines += [
            "",
            f"Retention configuration ({'share of own length' if retention.is_relative else counts}):",
            "",
            f"| encoder | {' | '.join(map(str, range(1, len(entries) + 1)))} |",
            "|---" * (len(entries) + 1) + "|",
            f"| retains | {' | '.join(entries)} |",
        ]
    return "\n".join([*lines, ""])


def _differences(old: Any, new: dict[str, Any]) -> str:
    old = old if isinstance(old, dict) else {}
    return "other " + ", ".join(sorted(name for name in {*old, *new} if old.get(name) != new.get(name)))


def _settings(folder: Path) -> dict[str, Any]:
    found = (read_run(folder) or {}).get("settings")
    return found if isinstance(found, dict) else {}

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
from powerbert.machine.versions import versions
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


def begin(work: Path, output: Path, settings: dict[str, Any]) -> bool:
    """Start or go on with a run; True if `output` already holds its result.

    A folder of another run is refused rather than mixed with this one.
    """
    done, begun = read_run(output), read_run(work)
    for folder, record in ((output, done), (work, begun)):
        if record is not None and record.get("settings") != settings:
            raise PowerBertError(
                f"{folder} holds another run",
                got=_differences(record.get("settings"), settings),
                remedy="choose another --output, or delete the folder",
            )
    if done is None and output.exists() and any(output.iterdir()):
        raise PowerBertError(f"{output} is not empty", remedy="choose another --output")
    if done is None and begun is None:
        work.mkdir(parents=True, exist_ok=True)
        (work / RUN).write_text(json.dumps(run_record(settings), indent=2), encoding="utf-8")
    return done is not None


def model_card(
    step: str, settings: dict[str, Any], evaluation: Evaluation, retention: RetentionConfiguration | None
) -> str:
    """A README for the model's folder, with the retention table."""
    low, high = evaluation.interval
    lines = [
        f"# {settings['task']} with powerbert",
        "",
        f"Made by `powerbert {step}` from `{settings['model']}`, seed {settings['options']['seed']}; "
        "the command and versions are in `run.json`, the course of training in `metrics.jsonl`.",
        "",
        "| on dev | |",
        "|---|---|",
        f"| {evaluation.metric} | {evaluation.value:.4f} "
        f"(95 % interval {low:.4f} to {high:.4f}, {evaluation.rows} rows) |",
        f"| word-vectors processed | {evaluation.word_vectors:,} of {evaluation.word_vectors_untouched:,} "
        f"of the unpadded model ({100 * evaluation.work:.1f} %) |",
    ]
    if retention is not None:
        kind = (
            "share of the input's own length"
            if retention.is_relative
            else f"word-vectors of N={retention.max_length}"
        )
        entries = str(retention).split(",")
        lines += [
            "",
            f"Retention configuration ({kind}):",
            "",
            "| encoder | " + " | ".join(map(str, range(1, len(entries) + 1))) + " |",
        ]
        lines += ["|---" * (len(entries) + 1) + "|", "| retains | " + " | ".join(entries) + " |"]
    return "\n".join([*lines, ""])


def _differences(old: Any, new: dict[str, Any]) -> str:
    if not isinstance(old, dict):
        return "unreadable settings"
    names = [name for name in {*old, *new} if old.get(name) != new.get(name)]
    return "other " + ", ".join(sorted(names))

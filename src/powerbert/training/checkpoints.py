"""Checkpoints that survive a kill at any moment.

A checkpoint is written beside its place, listed in a manifest with sizes and digests, synced to disk
and renamed. A rename is all or nothing, so a checkpoint under its final name is whole; the manifest
finds what a failing disk or a stray hand did to it afterwards.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from powerbert.folders.atomic import digest, swap

LISTING = "manifest.json"
PREFIX = "checkpoint-"


def publish(staging: Path, final: Path) -> None:
    """Turn a written staging folder into a checkpoint, all or nothing."""
    files = sorted(path for path in staging.rglob("*") if path.is_file())
    entries = {str(path.relative_to(staging)): [path.stat().st_size, digest(path)] for path in files}
    (staging / LISTING).write_text(json.dumps(entries, indent=1), encoding="utf-8")
    swap(staging, final)  # over what an earlier run left at this step and could not use


def newest_valid(folder: Path) -> Path | None:
    """The newest checkpoint whose files are all as its manifest says, or None."""
    found = sorted(folder.glob(f"{PREFIX}[0-9]*"), key=step_of, reverse=True)
    return next((path for path in found if is_valid(path)), None)


def is_valid(checkpoint: Path) -> bool:
    """Whether every file of the manifest is there with its size and digest."""
    try:
        entries = json.loads((checkpoint / LISTING).read_text(encoding="utf-8"))
        return bool(entries) and all(
            (checkpoint / name).stat().st_size == size and digest(checkpoint / name) == expected
            for name, (size, expected) in entries.items()
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return False


def step_of(checkpoint: Path) -> int:
    """The training step a checkpoint was written at."""
    return int(checkpoint.name.removeprefix(PREFIX))


def rotate(folder: Path, spare: set[Path]) -> None:
    """Delete all checkpoints but the spared ones, oldest first; leftovers of a kill too."""
    for path in sorted(folder.glob(f"{PREFIX}[0-9]*"), key=step_of):
        if path not in spare:
            shutil.rmtree(path, ignore_errors=True)

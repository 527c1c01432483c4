"""Checkpoints that survive a kill at any moment.

A checkpoint is written beside its place, listed in a manifest with sizes and digests, synced to disk
and renamed. A rename is all or nothing, so a checkpoint under its final name is whole; the manifest
finds what a failing disk or a stray hand did to it afterwards.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from powerbert.errors import PowerBertError

MANIFEST = "manifest.json"
PREFIX = "checkpoint-"


def publish(staging: Path, final: Path) -> None:
    """Turn a written staging folder into a checkpoint, all or nothing."""
    files = sorted(path for path in staging.rglob("*") if path.is_file())
    entries = {str(path.relative_to(staging)): [path.stat().st_size, _digest(path)] for path in files}
    (staging / MANIFEST).write_text(json.dumps(entries, indent=1), encoding="utf-8")
    for path in [*files, staging / MANIFEST, staging]:
        _sync(path)
    if final.exists():  # an earlier run got as far as this step but could not use what it wrote
        shutil.rmtree(final)
    staging.rename(final)
    _sync(final.parent)


def newest_valid(folder: Path) -> Path | None:
    """The newest checkpoint whose files are all as its manifest says, or None."""
    found = sorted(folder.glob(f"{PREFIX}[0-9]*"), key=step_of, reverse=True)
    return next((path for path in found if is_valid(path)), None)


def is_valid(checkpoint: Path) -> bool:
    """Whether every file of the manifest is there with its size and digest."""
    try:
        entries = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
        return bool(entries) and all(
            (checkpoint / name).stat().st_size == size and _digest(checkpoint / name) == digest
            for name, (size, digest) in entries.items()
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


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; a second run in it is refused. A killed run lets go by itself."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PowerBertError(
                "another run is writing here",
                got=str(folder),
                remedy="wait for it, or choose another --output",
            ) from None
        yield


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

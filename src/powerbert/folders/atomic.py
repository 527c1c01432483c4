"""Write whole or not at all: what is new is staged beside its place, synced, and put there in one step.

Whoever looks, and whenever the process is killed, finds what was there before or what is new, whole. And one
run holds a folder.
"""

import ctypes
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from powerbert.errors import PowerBertError, one_line

LOCK = ".lock"
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_file(path: str | Path, content: bytes) -> None:
    """Write a file whole."""
    with whole_file(path) as file:
        file.buffer.write(content)


@contextmanager
def whole_file(path: str | Path) -> Iterator[TextIOWrapper]:
    """A file (UTF-8, line ends as given) that is in its place when it is closed, and not before.

    One that it replaces hands on its permissions; a symbolic link stays one.
    """
    path = Path(path).resolve()
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    staging = _beside(path)

    def private(name: str, flags: int) -> int:  # never readable by more people than what it replaces
        return os.open(name, flags, 0o666 if mode is None else mode)

    try:
        with open(staging, "x", encoding="utf-8", newline="", opener=private) as file:
            yield file
            if mode is not None:
                staging.chmod(mode)
            file.flush()
            os.fsync(file.fileno())
        staging.replace(path)
        sync(path.parent)
    finally:
        staging.unlink(missing_ok=True)


def write_folder(folder: str | Path, write: Callable[[Path], None], check: Callable[[Path], None]) -> None:
    """Let `write` fill a staging folder, then put it in place whole; a failure leaves what was there.

    check: refuses a folder that must not be replaced; asked before anything is written, and at the end.
    """
    failure = (f"{folder} cannot be written", "give another folder")
    with one_line(*failure):
        target = Path(folder).resolve()
        check(target)
        staging = _beside(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        staging.mkdir()
    try:
        write(staging)
        with one_line(*failure):
            check(target)  # writing took time: somebody may have used it
            swap(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def sync(path: Path) -> None:
    """Have the disk hold a file, or the names in a folder, before anything is renamed over it."""
    with suppress(OSError) if path.is_dir() else nullcontext():  # some systems cannot sync a folder
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def swap(staging: Path, target: Path) -> None:
    """Sync a staging folder and put it into its place; what was there is deleted afterwards.

    A kill leaves one of the two under the name, if the file system can exchange names (on Linux nearly all).
    Elsewhere it may come between two renames: then the old folder is beside, hidden, with the suffix .old.
    """
    for path in (*staging.rglob("*"), staging):
        sync(path)
    if not target.exists():
        staging.rename(target)
    elif not _exchange(staging, target):
        _rename_both(staging, target)
    sync(target.parent)
    shutil.rmtree(staging, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders exchange their names in one step; False where there is no such step."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    return rename is not None and rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0


def _rename_both(staging: Path, target: Path) -> None:
    """Exchange by renaming twice; an error in between puts the old folder back."""
    old = staging.with_suffix(".old")
    try:
        target.rename(old)
        staging.rename(target)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(old, ignore_errors=True)


def _beside(path: Path) -> Path:
    return path.parent / f".powerbert-{secrets.token_hex(8)}"


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; a second run in it is refused. A killed run lets go by itself."""
    with one_line(f"{folder} cannot be written", "choose another --output"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            held = FileLock(folder / LOCK).acquire(blocking=False)
        except Timeout:
            remedy = "wait for it, or choose another --output"
            raise PowerBertError("another run is writing here", got=str(folder), remedy=remedy) from None
    with held:
        yield


def remembered(path: Path, name: str, make: Callable[[], Any]) -> Any:
    """What `make` gave the first time, kept by name in a JSON file: a stopped run goes on with it."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if name not in known:
        known[name] = make()
        write_file(path, json.dumps(known).encode())
    return known[name]

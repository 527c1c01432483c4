"""One run holds a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from powerbert.errors import PowerBertError

LOCK = ".lock"


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; a second run in it is refused. A killed run lets go by itself."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise PowerBertError(
            "another run is writing here", got=str(folder), remedy="wait for it, or choose another --output"
        ) from None
    try:
        yield
    finally:
        lock.release()

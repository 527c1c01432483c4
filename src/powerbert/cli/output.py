"""Where the output of a command goes: the terminal, a file written whole, or standard output."""

from __future__ import annotations

import json
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

from rich.console import Console, RenderableType
from rich.progress import track
from tqdm import tqdm

from powerbert.errors import PowerBertError
from powerbert.machine.describe import duration

STANDARD_OUTPUT = "-"

Part = TypeVar("Part")


def is_main() -> bool:
    """Whether this is the only process, or the first of those that `accelerate launch` started."""
    return os.environ.get("RANK", "0") == "0"


def show(renderable: RenderableType, *, aside: bool = False) -> None:
    """Print for a person on standard output, in colour where that is a terminal.

    aside: on standard error, where standard output is for figures.
    """
    if is_main():
        (_notes() if aside else Console(highlight=False, markup=False, emoji=False)).print(renderable)


def note(message: str) -> None:
    """Tell a person something on standard error, which leaves standard output to the result."""
    if is_main():
        _notes().print(message, style="dim", soft_wrap=True)


@contextmanager
def working(message: str) -> Iterator[None]:
    """Show on a terminal that something takes its time."""
    with _notes().status(message):
        yield


def progress(parts: Iterable[Part], *, what: str | None = None) -> Iterator[Part]:
    """Show a bar with the time left, on a terminal, while something goes through its parts.

    what: is said with the time that all of it will take, once the first of like parts is done.
    """
    parts, start = list(parts), time.perf_counter()
    bar = track(parts, total=len(parts), description="", console=_notes(), disable=not sys.stderr.isatty())
    for done, part in enumerate(bar):
        if done == 1 and what is not None:
            note(f"{what}: about {duration((time.perf_counter() - start) * (len(parts) - 1))} more")
        yield part


def bar(total: int | None, unit: str) -> tqdm[Any]:
    """A bar with the time left and the rate, on standard error where that is a terminal."""
    return tqdm(total=total, unit=f" {unit}", disable=None if is_main() else True)


def check_target(target: str, flag: str) -> None:
    """Refuse a file that could not be written; called before the work whose result it is to hold."""
    if target == STANDARD_OUTPUT:
        return
    path = Path(target)
    if not target or path.is_dir():
        raise PowerBertError(f"{flag} is not a file", got=target, remedy="give the name of a file")
    parent = path.resolve().parent
    if not parent.is_dir():
        raise PowerBertError(
            f"the folder of {flag} does not exist", got=target, remedy=f"create {parent} first"
        )
    if not os.access(parent, os.W_OK):
        raise PowerBertError(f"the folder of {flag} cannot be written to", got=target)


def write_json(target: str, data: Any, flag: str = "--json") -> None:
    """Write data as JSON to a file, or to standard output for "-"."""
    # A file is UTF-8; a terminal or pipe may know ASCII alone, where JSON has its own escapes.
    ascii_only = target == STANDARD_OUTPUT and not _is_utf8(sys.stdout.encoding)
    write_text(target, json.dumps(data, indent=2, ensure_ascii=ascii_only) + "\n", flag)


def write_text(target: str, text: str, flag: str) -> None:
    """Write a file whole or not at all; "-" is standard output."""
    if not is_main():
        return
    if target == STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    write_bytes(target, text.encode("utf-8"), flag)


def write_bytes(target: str, content: bytes, flag: str) -> None:
    """Write a file whole or not at all."""
    if not is_main():
        return
    check_target(target, flag)
    path = Path(target).resolve()  # through a symbolic link, which stays one
    with _problem(target, flag):
        if path.exists() and not path.is_file():  # a device or a pipe is written to, not replaced
            path.write_bytes(content)
        else:
            with _staged(path) as staging:
                staging.write_bytes(content)


@contextmanager
def writing(target: str, flag: str) -> Iterator[TextIO]:
    """A text file written little by little that appears whole, or not at all; "-" is standard output."""
    if target == STANDARD_OUTPUT:
        yield sys.stdout
        sys.stdout.flush()
        return
    check_target(target, flag)
    path = Path(target).resolve()
    with _problem(target, flag):
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8", newline="") as file:
                yield file
        else:
            with _staged(path) as staging, staging.open("x", encoding="utf-8", newline="") as file:
                yield file


@contextmanager
def _staged(path: Path) -> Iterator[Path]:
    """A name beside the target, renamed at the end, so that no reader ever sees half a file."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    staging = path.parent / f".powerbert-{secrets.token_hex(8)}"
    try:
        yield staging
        if mode is not None:
            staging.chmod(mode)
        staging.replace(path)
    finally:
        staging.unlink(missing_ok=True)


@contextmanager
def _problem(target: str, flag: str) -> Iterator[None]:
    """An error of the disk in one line."""
    try:
        yield
    except OSError as error:
        raise PowerBertError(
            f"{flag} cannot be written", got=target, rule=error.strerror or str(error)
        ) from error


def _notes() -> Console:
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def _is_utf8(encoding: str | None) -> bool:
    return (encoding or "").lower().replace("-", "").startswith("utf8")

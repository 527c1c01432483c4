"""Where the output of a command goes: the terminal, a file written whole, or standard output."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, TextIO, TypeVar

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments
from rich.status import Status
from tqdm import tqdm

from powerbert.errors import PowerBertError, one_line, printable
from powerbert.folders.atomic import whole_file
from powerbert.folders.manifest import own_files
from powerbert.machine.describe import duration

STANDARD_OUTPUT = "-"
OUTPUTS = {"json", "output", "target", "plot", "html"}  # flags that name what a command writes
SELDOM = 30.0  # seconds between two lines about progress where nobody looks on
PLACES = {"source": "IN", "target": "OUT"}  # files that are given by their position: what people call them

Part = TypeVar("Part")
_console = partial(Console, highlight=False, markup=False, emoji=False)


def is_main() -> bool:
    """Whether this is the only process, or the first of those that `accelerate launch` started."""
    return os.environ.get("RANK", "0") == "0"


def show(renderable: RenderableType, *, aside: bool = False) -> None:
    """Print for a person, in colour on a terminal; aside: on standard error, where standard output is for figures."""
    if is_main():
        console = _console(stderr=aside)
        parts = console.render(renderable)  # labels and names of strangers cannot steer the terminal
        console.print(Segments(p if p.control else Segment(printable(p.text), p.style) for p in parts))


def note(message: str) -> None:
    """Tell a person something on standard error, above a bar; standard output is for the result."""
    if is_main():
        with tqdm.external_write_mode(file=sys.stderr):
            _console(stderr=True).print(printable(message), style="dim", soft_wrap=True)


def working(message: str) -> Status:
    """Show on a terminal, within a `with`, that something takes its time."""
    return _console(stderr=True).status(printable(message))


def bar(total: int | None, unit: str, done: int = 0) -> tqdm[Any]:
    """A bar with the time left and the rate, on standard error, or in a log now and then; `done` are from earlier."""
    calm: dict[str, Any] = {} if sys.stderr.isatty() else {"delay": SELDOM, "mininterval": SELDOM, "ncols": 80}
    return tqdm(total=total, initial=done, unit=f" {unit}", disable=not is_main(), **calm)


def progress(parts: Iterable[Part], *, what: str | None = None) -> Iterator[Part]:
    """Show a bar with the time left, on a terminal, while something goes through its parts.

    what: is said with the time that all of it will take, once the first of like parts is done.
    """
    parts, start = list(parts), time.perf_counter()
    with bar(len(parts), "parts") as shown:
        for done, part in enumerate(parts):
            if done == 1 and what is not None:
                note(f"{what}: about {duration((time.perf_counter() - start) * (len(parts) - 1))} more")
            yield part
            shown.update()


def check_apart(named: Mapping[str, str | list[str]]) -> None:
    """Refuse an output that another flag reads or writes; `named` are the files and folders of a command."""
    given = {name: [paths] if isinstance(paths, str) else paths for name, paths in named.items()}
    called = {name: PLACES.get(name, f"--{name}") for name in given}
    paths = [(name, located(path, called[name])) for name in given for path in given[name] if path != STANDARD_OUTPUT]
    for (name, path), (other, same) in permutations(paths, 2):
        if name in OUTPUTS and path == same:
            what, rule = f"{called[name]} and {called[other]} are the same", "nothing is written over what is read"
            raise PowerBertError(what, got=str(path), rule=rule, remedy=f"give another {called[name]}")


def located(path: str, flag: str) -> Path:
    """The place that a flag names, whether anything is there or not; refuses what cannot be a name."""
    what, remedy = f"{flag} is not a file or folder", "give another name"
    if not path:
        raise PowerBertError(what, got=path, remedy=remedy)
    with one_line(what, remedy, PowerBertError):
        place = Path(path).resolve()  # a loop of links has no end
        place.exists()  # a name may be too long, a folder forbidden
        return place


def check_file(target: str, flag: str) -> None:
    """Refuse a file that could not be written, or that a model is made of; called before the work."""
    if target == STANDARD_OUTPUT:
        return
    path = located(target, flag)
    if path.is_dir():
        raise PowerBertError(f"{flag} is not a file", got=target, remedy="give the name of a file")
    if not (parent := path.parent).is_dir():
        raise PowerBertError(f"the folder of {flag} does not exist", got=target, remedy=f"create {parent} first")
    if not os.access(parent, os.W_OK):
        raise PowerBertError(f"the folder of {flag} cannot be written to", got=target)
    if path.is_file() and path.name in own_files(parent):
        raise PowerBertError(f"{flag} would replace a file of a model", got=target, remedy="give another file")


def write_json(target: str | None, data: Any) -> None:
    """Write data as JSON to a file, or to standard output for "-"; nowhere if none was asked for."""
    if target is not None:
        # A file is UTF-8; a terminal or pipe may know ASCII alone, where JSON has its own escapes.
        utf_8 = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf8")
        ascii_only = target == STANDARD_OUTPUT and not utf_8
        write_output(target, json.dumps(data, indent=2, ensure_ascii=ascii_only) + "\n", "--json")


def write_output(target: str, content: str | bytes, flag: str) -> None:
    """Write a file whole or not at all; "-" is standard output."""
    if is_main():
        with writing(target, flag) as file:
            if isinstance(content, bytes):
                file.buffer.write(content)
            else:
                file.write(content)


@contextmanager
def writing(target: str, flag: str) -> Iterator[TextIO]:
    """A text file written little by little that appears whole, or not at all; "-" is standard output."""
    if target == STANDARD_OUTPUT:
        if sys.stdout is None:
            raise PowerBertError("standard output is closed", remedy=f"give the name of a file as {flag}")
        yield sys.stdout
        sys.stdout.flush()
        return
    check_file(target, flag)
    path = Path(target)
    is_device = path.exists() and not path.is_file()  # a device or a pipe is written to, not replaced
    try:
        with path.open("w", encoding="utf-8", newline="") if is_device else whole_file(path) as file:
            yield file
    except OSError as error:
        raise PowerBertError(f"{flag} cannot be written", got=target, rule=error.strerror or str(error)) from error

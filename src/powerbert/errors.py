"""The errors a user can cause. Each message is one line: what, got, rule, remedy."""

import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_STEERING, _REPLACED = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp")), "\N{REPLACEMENT CHARACTER}"
_HARMLESS = frozenset("\n\t\u200c\u200d")  # the two joiners shape letters and emoji, and hide nothing


class PowerBertError(Exception):
    """A user's mistake in one line; the CLI prints it and exits with code 2."""

    def __init__(self, what: str, *, got: object = None, rule: str = "", remedy: str = "") -> None:
        parts = (what, "" if got is None else f"got {_short(got)}", rule, remedy)
        super().__init__(printable("; ".join(" ".join(part.split()) for part in parts if part)))


class RetentionError(PowerBertError, ValueError):
    """A retention configuration that breaks a rule."""


class UnsupportedModelError(PowerBertError, TypeError):
    """A model, head or argument that elimination cannot serve."""


class ModelFolderError(PowerBertError, ValueError):
    """A model folder that is missing, damaged or unsafe, or that must not be replaced."""


class ExportError(PowerBertError, RuntimeError):
    """A model that cannot be traced to a graph."""


class DataError(PowerBertError, ValueError):
    """A task, a data file or a row that cannot be trained on; the message names the file and the row."""


class RowError(DataError):
    """A row that ends a run which can go on without it."""


class ReadingError(DataError):
    """A file that the system could not read just now; it may the next time."""


class MachineError(PowerBertError, RuntimeError):
    """A precision that this machine does not run."""


class MissingExtraError(PowerBertError, ImportError):
    """A command needs a package that is not installed; the message has the pip command."""


def require(module: str, extra: str) -> Any:
    """Import a package of an optional extra, or tell how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"this needs {module.split('.')[0]}", got=str(error), remedy=install(extra)) from error


def require_all(what: str, packages: Iterable[str], extra: str) -> None:
    """Refuse in one line, before the work, where packages of an optional extra are not installed."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise MissingExtraError(f"{what} {' and '.join(missing)}", remedy=install(extra, clone=True))


def install(extra: str, *, clone: bool = False) -> str:
    """The command that installs an optional extra, or also that of a clone."""
    command = f'pip install "powerbert[{extra}]"'
    return f'{command}, or in a clone: pip install -e ".[{extra}]"' if clone else command


@contextmanager
def one_line(what: str, remedy: str = "", kind: type[PowerBertError] = ModelFolderError) -> Iterator[None]:
    """Turn whatever fails meanwhile into one line of ours; our own errors and want of memory pass."""
    try:
        yield
    except (PowerBertError, MemoryError):
        raise
    except Exception as error:
        got = " ".join(f"{type(error).__name__}: {error}".split())
        raise kind(what, got=got, remedy=remedy) from error


def printable(text: str) -> str:
    """Replace what would steer a terminal: escapes, bells, overrides of direction; line ends and tabs stay.

    File names, labels and the names of tensors come from strangers.
    """
    return "".join(c if c in _HARMLESS or unicodedata.category(c) not in _STEERING else _REPLACED for c in text)


def _short(value: object, limit: int = 80) -> str:
    """Show a value in one line, at most `limit` characters.

    The text is cut before it is formatted: an error about a huge value must itself stay small.
    """
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        return repr(value if len(value) <= limit else value[:limit] + "…")
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "…"

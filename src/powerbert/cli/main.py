"""`powerbert`: the command line.

A user's mistake is one line on standard error and exit code 2; anything else is a bug and shows its
traceback. typer and rich are an extra, and are imported where they are known to be there.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from powerbert import __version__
from powerbert.errors import PowerBertError, require_all

if TYPE_CHECKING:
    import typer


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    if arguments is not None:
        sys.argv[1:] = arguments  # a run records the command it came from
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a question mark where a terminal has no such character
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()  # here, where a closed pipe or a full disk can still be handled
    except PowerBertError as error:
        print(f"powerbert: error: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = 1  # the reader has gone, as `head` does
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(
            f"powerbert: error: {error.filename or 'the output'} cannot be written; the disk is full", file=sys.stderr
        )
        code = 2
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError:  # Python flushes once more at exit: let that go nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def make_app() -> typer.Typer:
    """Build the app with all commands."""
    import typer

    from powerbert.cli.commands import COMMANDS

    app = typer.Typer(
        name="powerbert",
        help="The same BERT-family classifier, several times faster, by progressive word-vector elimination.",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    version = typer.Option(False, "--version", help="Show the version and exit.", is_eager=True, callback=_show_version)

    @app.callback()
    def options(version: bool = version) -> None:
        pass

    for name, (_, command) in COMMANDS.items():
        app.command(name)(command)
    return app


def _run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    require_all("the command line needs", ("typer", "rich"), "cli")
    import typer

    from powerbert.cli.answering import with_addresses

    command = typer.main.get_command(make_app())
    try:
        code = command.main(args=with_addresses(arguments) or ["--help"], prog_name="powerbert", standalone_mode=False)
    except typer.exceptions.TyperException as error:  # a wrong flag or value: our own one line
        remedy = "powerbert COMMAND --help shows what there is"
        raise PowerBertError(error.format_message().rstrip("."), remedy=remedy) from None
    return code if isinstance(code, int) else 0


def _show_version(asked: bool) -> None:
    if asked:
        print(f"powerbert {__version__}")
        sys.exit(0)

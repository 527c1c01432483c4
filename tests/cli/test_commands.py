"""The commands: what each takes, what is loaded when, and flags from dataclasses. Oracle: a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from powerbert.cli import commands
from powerbert.cli.commands import COMMANDS, command
from powerbert.cli.flags import ARGUMENT
from powerbert.cli.main import main


def exit_code(*arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


def test_help_and_a_wrong_flag_import_nothing_heavy():
    """In a fresh interpreter: the help of every command, and what a group refuses by itself."""
    calls = [["--help"], ["--nonsense"], ["predict", "--model", "m", "--data", "d"]]
    calls += [[name, flag] for name in COMMANDS for flag in ("--help", "--nonsense")]
    program = (
        "import sys; from powerbert.cli.main import main\n"
        f"for call in {calls}:\n"
        "    try: main(call)\n"
        "    except SystemExit: pass\n"
        "sys.exit(', '.join({'torch', 'transformers', 'datasets', 'numpy'} & set(sys.modules)) or 0)"
    )
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    result = subprocess.run([sys.executable, "-c", program], **silent)
    assert result.returncode == 0, result.stderr.splitlines()[-1]
    assert result.stderr.count("powerbert: error: ") == 2 + len(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_a_function_that_takes_its_groups(name):
    work = getattr(import_module(f"powerbert.cli.{COMMANDS[name][0]}"), name)
    assert list(get_type_hints(work).values()) == list(get_type_hints(getattr(commands, name)).values())


def test_a_missing_library_names_the_pip_command(monkeypatch, capsys):
    def missing(name):
        raise ModuleNotFoundError("No module named 'datasets.arrow'", name="datasets.arrow")

    monkeypatch.setattr(commands, "import_module", missing)
    assert exit_code("doctor") == 2
    error = capsys.readouterr().err
    assert 'this command needs datasets; pip install "powerbert[train]"' in error
    assert error.count("\n") == 1


@dataclass(frozen=True)
class First:
    """The first group; with more to say."""

    model: Annotated[str, "Model folder.", "FOLDER"]
    rows: Annotated[int | None, "How many rows."] = None
    quick: Annotated[bool, "Hurry."] = False


@dataclass(frozen=True)
class Second:
    """The second group."""

    rate: Annotated[float, "Learning rate."] = 0.5
    names: Annotated[list[str] | None, "May be repeated."] = None
    relative: Annotated[bool, "On unless switched off."] = True
    batch: Annotated[int, "Inputs; by default the task's."] = 16


@dataclass(frozen=True)
class Third:
    """The third group."""

    text: Annotated[str, "By its position.", ARGUMENT]

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("no text")


@pytest.fixture
def run():
    """Run the command with arguments; returns the result, and what its work was given."""
    given = []

    def work(first: First, second: Second, third: Third) -> None:
        """Do something.

        Example: it --model X
        """
        given.extend([first, second, third])

    app = typer.Typer()
    app.command("it")(command(work, First, Second, Third))

    def call(*arguments):
        given.clear()
        return CliRunner().invoke(app, arguments), given

    return call


def test_what_the_user_gave_arrives_in_its_group_and_the_rest_is_the_group_s_default(run):
    result, given = run("--model", "m", "some text")
    assert result.exit_code == 0
    assert given == [First("m"), Second(), Third("some text")]
    _, given = run(
        "--model",
        "m",
        "--rows",
        "3",
        "--quick",
        "--rate",
        "0.1",
        "--names",
        "a",
        "--names",
        "b",
        "--no-relative",
        "some text",
    )
    assert given == [
        First("m", rows=3, quick=True),
        Second(rate=0.1, names=["a", "b"], relative=False),
        Third("some text"),
    ]


def test_values_are_checked_by_their_type_and_required_flags_are_required(run):
    assert run("--model", "m", "text", "--rows", "three")[0].exit_code == 2
    assert run("--rows", "3", "text")[0].exit_code == 2
    assert run("--model", "m")[0].exit_code == 2


def test_a_group_refuses_what_it_cannot_be_before_the_work_begins(run):
    result, given = run("--model", "m", "", "--rate", "0.1")
    assert str(result.exception) == "no text"
    assert given == []


def test_help_has_one_panel_per_group_and_true_defaults(run):
    shown = run("--help")[0].output
    assert "The first group" in shown
    assert "with more to say" not in shown
    assert "[0.5]" in shown
    assert "[16]" not in shown  # it says itself what the default is
    assert "--no-quick" not in shown
    assert "--no-relative" in shown

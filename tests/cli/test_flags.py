"""Commands made from dataclasses: one flag per field, and only what the user gave arrives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from powerbert.cli.flags import command


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


@pytest.fixture
def run():
    """Run the command with arguments; returns the result, and what its work was given."""
    given = []

    def work(first: dict, second: dict) -> None:
        """Do something.

        Example: it --model X
        """
        given.extend([first, second])

    app = typer.Typer()
    app.command("it")(command(work, First, Second))

    def call(*arguments):
        given.clear()
        return CliRunner().invoke(app, arguments), given

    return call


def test_only_what_the_user_gave_arrives_in_its_group(run):
    result, given = run("--model", "m")
    assert result.exit_code == 0
    assert given == [{"model": "m"}, {}]
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
    )
    assert given == [
        {"model": "m", "rows": 3, "quick": True},
        {"rate": 0.1, "names": ["a", "b"], "relative": False},
    ]


def test_values_are_checked_by_their_type_and_required_flags_are_required(run):
    assert run("--model", "m", "--rows", "three")[0].exit_code == 2
    assert run("--rows", "3")[0].exit_code == 2


def test_help_has_one_panel_per_group_and_true_defaults(run):
    shown = run("--help")[0].output
    assert "The first group" in shown
    assert "with more to say" not in shown
    assert "[0.5]" in shown
    assert "[16]" not in shown  # it says itself what the default is
    assert "--no-quick" not in shown
    assert "--no-relative" in shown

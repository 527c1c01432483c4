"""The table of commands: what each takes, and what is loaded when. Oracle: a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
import typing
from importlib import import_module

import pytest

from powerbert.cli import commands
from powerbert.cli.commands import COMMANDS
from powerbert.cli.main import main


def exit_code(*arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


def test_help_and_a_wrong_flag_import_nothing_heavy():
    """In a fresh interpreter: the help of every command, and what a group refuses by itself."""
    calls = [["--help"], ["--nonsense"], ["predict", "--model", "m", "--data", "d"]]
    calls += [[command.name, flag] for command in COMMANDS for flag in ("--help", "--nonsense")]
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


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_is_a_function_that_takes_its_groups(command):
    work = getattr(import_module(f"powerbert.cli.{command.home}"), command.name)
    kinds = list(typing.get_type_hints(work).values())
    assert kinds == [*command.groups, type(None)]


def test_a_missing_library_names_the_pip_command(monkeypatch, capsys):
    def missing(name):
        raise ModuleNotFoundError("No module named 'datasets.arrow'", name="datasets.arrow")

    monkeypatch.setattr(commands, "import_module", missing)
    assert exit_code("doctor") == 2
    error = capsys.readouterr().err
    assert 'this command needs datasets; pip install "powerbert[train]"' in error
    assert error.count("\n") == 1

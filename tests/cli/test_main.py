import os
import subprocess
import sys
import types

import pytest
from typer.testing import CliRunner

import powerbert
from powerbert.cli import commands
from powerbert.cli.commands import COMMANDS
from powerbert.cli.main import main, make_app
from powerbert.errors import PowerBertError


@pytest.fixture
def command(monkeypatch):
    """Put a command `broken` into the app; its body is what the test assigns to `body`."""
    home = types.ModuleType("powerbert.cli.broken")
    home.broken = lambda: home.body()
    monkeypatch.setitem(sys.modules, "powerbert.cli.broken", home)
    monkeypatch.setattr(commands, "COMMANDS", dict(COMMANDS))

    def broken() -> None:
        """Fail."""

    commands.declare("broken", "")(broken)
    return home


def exit_code(*arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


def test_help_lists_the_commands():
    result = CliRunner().invoke(make_app(), ["--help"])
    assert result.exit_code == 0
    assert all(f" {name} " in result.output for name in COMMANDS)


def test_version_is_the_package_s(capsys):
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"powerbert {powerbert.__version__}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["explain"], ["explain", "--model"]])
def test_wrong_usage_is_one_line_and_exits_with_2(arguments, capsys):
    assert exit_code(*arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("powerbert: error: ")
    assert output.err.count("\n") == 1


def test_no_command_shows_the_help(capsys):
    assert exit_code() == 0
    assert "explain" in capsys.readouterr().out


def test_a_user_s_mistake_is_one_line_on_standard_error_and_exit_code_2(command, capsys):
    def mistake():
        raise PowerBertError("the text\nis empty", got="x\ny", remedy="give one")

    command.body = mistake
    assert exit_code("broken") == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "powerbert: error: the text is empty; got 'x\\ny'; give one\n"


def test_an_interruption_exits_with_130_and_says_nothing(command, capsys):
    def interrupted():
        raise KeyboardInterrupt

    command.body = interrupted
    assert exit_code("broken") == 130
    assert capsys.readouterr().err == ""


def test_a_bug_shows_its_traceback(command):
    def bug():
        raise RuntimeError("a bug")

    command.body = bug
    with pytest.raises(RuntimeError, match="a bug"):
        main(["broken"])


def test_without_the_extra_one_line_names_the_pip_command(monkeypatch, capsys):
    monkeypatch.setattr("powerbert.errors.find_spec", lambda name: None)
    assert exit_code("--help") == 2
    error = capsys.readouterr().err
    assert 'pip install "powerbert[cli]"' in error
    assert error.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_behind_standard_output_is_one_line():
    program = "from powerbert.cli.main import main; main(['--help'])"
    with open("/dev/full", "wb") as full:
        result = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.stderr == "powerbert: error: the output cannot be written; the disk is full\n"
    assert result.returncode == 2


def test_a_reader_that_goes_away_is_met_with_silence():
    read, write = os.pipe()
    os.close(read)
    program = "from powerbert.cli.main import main; main(['--help'])"
    with os.fdopen(write, "wb") as closed:
        result = subprocess.run([sys.executable, "-c", program], stdout=closed, stderr=subprocess.PIPE)
    assert result.stderr == b""
    assert result.returncode == 1

"""Where output goes: files whole, never over what is read, and nothing that steers a terminal."""

from __future__ import annotations

import json
import os
import time

import pytest
from rich.table import Table

from powerbert.cli.main import main
from powerbert.cli.output import check_apart, check_file, note, progress, show, write_json, write_output
from powerbert.errors import PowerBertError

HOSTILE = "\x1b]0;pwned\x07\x1b[31m\x9b31m\u202e"


def test_the_time_that_is_left_is_said_after_the_first_part(capsys):
    for part in progress(range(5), what="five naps"):
        time.sleep(0.5 if part == 0 else 0)
    assert "five naps: about 2 s more" in capsys.readouterr().err
    assert list(progress("ab")) == ["a", "b"]
    assert capsys.readouterr().err == ""


def test_json_goes_to_a_file_as_utf_8_and_to_standard_output_for_a_dash(tmp_path, capsys):
    write_json(str(tmp_path / "a.json"), {"word": "Ġgood"})
    write_json("-", {"word": 1})
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == '{\n  "word": "Ġgood"\n}\n'
    assert capsys.readouterr().out == '{\n  "word": 1\n}\n'


def test_a_file_is_replaced_whole_and_keeps_its_permissions(tmp_path):
    file = tmp_path / "a.html"
    file.write_text("old")
    file.chmod(0o640)
    write_output(str(file), "new", "--html")
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["a.html"]


def test_a_new_file_has_the_permissions_that_the_user_s_umask_gives(tmp_path):
    (tmp_path / "usual").touch()
    write_output(str(tmp_path / "new"), "x", "--html")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    file = tmp_path / "a.html"
    file.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(PowerBertError, match=r"--html cannot be written.*No space left"):
        write_output(str(file), "new", "--html")
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.html"]


def test_a_symbolic_link_stays_one_and_a_device_is_written_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_output(str(tmp_path / "link"), "x", "--html")
    write_output(os.devnull, "x", "--html")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "x"
    assert not os.path.isfile(os.devnull)


@pytest.mark.parametrize(
    ("target", "message"), [("", "is not a file"), (".", "is not a file"), ("nope/a.html", "does not exist")]
)
def test_a_folder_or_a_missing_parent_is_refused(target, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PowerBertError, match=message):
        check_file(target, "--html")


@pytest.mark.parametrize("name", ["", "x" * 5000, "loop"], ids=["empty", "long", "loop"])
def test_what_no_file_can_be_called_is_one_line(name, tmp_path, monkeypatch):
    """Whatever the flag; pathlib raises an error of its own for each."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for check in (lambda: check_file(name, "--json"), lambda: check_apart({"json": name, "model": "m"})):
        with pytest.raises(PowerBertError, match="--json is not a file or folder"):
            check()


# ---- what is read is never replaced ------------------------------------------------------


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "powerbert.json", "README.md"])
def test_a_file_of_a_model_is_never_replaced(tmp_path, name):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    for other in ("model.safetensors", "README.md", "notes.json"):
        (tmp_path / other).write_text("{}")
    digests = {"config.json": "", "model.safetensors": ""}
    manifest = {"format": 1, "elimination": None, "sha256": digests, "extra": ["README.md"]}
    (tmp_path / "powerbert.json").write_text(json.dumps(manifest))
    with pytest.raises(PowerBertError, match="file of a model"):
        check_file(str(tmp_path / name), "--json")
    check_file(str(tmp_path / "notes.json"), "--json")
    check_file(str(tmp_path / "new.json"), "--json")


def test_what_one_flag_reads_another_one_does_not_replace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    check_apart({"data": "a.csv", "train": "a.csv", "json": "-", "html": "-", "output": "b.jsonl"})
    for named in (
        {"data": "a.csv", "output": "./a.csv"},
        {"data": "a.csv", "output": str(tmp_path / "link.csv")},
        {"model": "three/", "output": "three"},
        {"learned": ["one", "three"], "output": "three"},
        {"html": "x", "json": "x"},
    ):
        with pytest.raises(PowerBertError, match="the same"):
            check_apart(named)


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "--model", "m", "--data", "a.csv", "--text", "text", "--output", "a.csv"),
        ("evaluate", "--model", "m", "--data", "a.csv", "--json", "a.csv"),
        ("export", "--model", "m", "--to", "onnx", "--output", "m"),
        ("finetune", "--model", "m", "--train", "a.csv", "--dev", "b.csv", "--output", "m"),
        ("search", "--model", "m", "--train", "a.csv", "--dev", "b.csv", "--output", "m"),
        ("retrain", "--model", "n", "--teacher", "m", "--train", "a.csv", "--dev", "b.csv", "--output", "m"),
        ("anytime", "--model", "m", "--train", "a.csv", "--dev", "b.csv", "--output", "m"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_command_writes_over_what_it_reads(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("text,label\ngood,1\n")
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "the same" in capsys.readouterr().err
    assert (tmp_path / "a.csv").read_text() == "text,label\ngood,1\n"
    assert os.listdir(tmp_path) == ["a.csv"]


# ---- the terminal ------------------------------------------------------------------------


def test_notes_and_tables_cannot_steer_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    table = Table(title=f"title {HOSTILE}")
    table.add_column(f"column {HOSTILE}", style="bold")
    table.add_row(f"naïve 東京 {HOSTILE}")
    show(table)
    show(f"text {HOSTILE}")
    note(f"note {HOSTILE}")
    captured = capsys.readouterr()
    for text in captured:
        assert "pwned" in text
        assert not any(part in text for part in ("\x1b]", "\x07", "\x1b[31m", "\x9b", "\u202e"))
    assert "naïve 東京" in captured.out
    assert "\x1b[1m" in captured.out  # rich's own style


def test_a_mistake_with_a_hostile_file_name_cannot_steer_the_terminal(capsys, tmp_path):
    with pytest.raises(SystemExit):
        main(["explain", "text", "--model", str(tmp_path / HOSTILE)])
    error = capsys.readouterr().err
    assert "pwned" in error
    assert not any(part in error for part in ("\x1b", "\x07", "\x9b", "\u202e"))

"""Where output goes: files whole or not at all, JSON alone on standard output, time said beforehand."""

from __future__ import annotations

import os
import time

import pytest

from powerbert.cli.output import check_target, progress, write_json, write_text
from powerbert.errors import PowerBertError


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
    write_text(str(file), "new", "--html")
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["a.html"]


def test_a_new_file_has_the_permissions_that_the_user_s_umask_gives(tmp_path):
    (tmp_path / "usual").touch()
    write_text(str(tmp_path / "new"), "x", "--html")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    file = tmp_path / "a.html"
    file.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(PowerBertError, match=r"--html cannot be written.*No space left"):
        write_text(str(file), "new", "--html")
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.html"]


def test_a_symbolic_link_stays_one_and_a_device_is_written_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(str(tmp_path / "link"), "x", "--html")
    write_text(os.devnull, "x", "--html")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "x"
    assert not os.path.isfile(os.devnull)


@pytest.mark.parametrize(
    ("target", "message"), [("", "is not a file"), (".", "is not a file"), ("nope/a.html", "does not exist")]
)
def test_a_folder_or_a_missing_parent_is_refused(target, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PowerBertError, match=message):
        check_target(target, "--html")

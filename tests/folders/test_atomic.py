"""Writing whole or not at all: a failure or a kill at any moment leaves what was there, or what is new."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from model_folders import refusal

from powerbert.errors import ModelFolderError, PowerBertError
from powerbert.folders import atomic
from powerbert.folders.atomic import only_run, remembered, write_file
from powerbert.folders.atomic import write_folder as write_new_folder
from powerbert.folders.manifest import check_replaceable

# ---- folders -----------------------------------------------------------------------------


def write_folder(folder: str | Path, write: Callable[[Path], None]) -> None:
    """As a model is written: over an earlier one too."""
    write_new_folder(folder, write, check_replaceable)


def write_model(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps({"model_type": "bert", "text": text}))

    return write


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_is_written_with_its_parents(tmp_path: Path) -> None:
    write_folder(tmp_path / "new" / "model", write_model("one"))
    assert json.loads((tmp_path / "new" / "model" / "config.json").read_text())["text"] == "one"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model"]


def test_files_and_folders_are_on_disk_before_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.add(os.fstat(handle).st_ino))
    write_folder(tmp_path / "model", write_model("one"))
    parts = (tmp_path / "model" / "config.json", tmp_path / "model", tmp_path)
    assert flushed >= {path.stat().st_ino for path in parts}


@pytest.mark.parametrize("link", [False, True])
def test_an_earlier_model_is_replaced_whole(tmp_path: Path, link: bool) -> None:
    target = tmp_path / "model"
    write_folder(target, write_model("one"))
    (target / "model-00001-of-00002.safetensors").write_text("stale")  # transformers' own name
    if link:
        (tmp_path / "link").symlink_to(target)
    write_folder(tmp_path / "link" if link else str(target), write_model("two"))
    assert contents(target).keys() == {"config.json"}
    assert json.loads((target / "config.json").read_text())["text"] == "two"
    assert {path.name for path in tmp_path.iterdir()} == ({"model", "link"} if link else {"model"})


@pytest.mark.parametrize("name", ["file/below", "loop", "x" * 300], ids=["below a file", "loop", "long"])
def test_a_place_that_no_folder_can_have_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    message = refusal(ModelFolderError, lambda: write_folder(tmp_path / name, write_model("new")))
    assert "cannot be written" in message
    assert contents(tmp_path) == {"file": "mine"}


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    write_folder(tmp_path / "model", write_model("one"))
    assert contents(tmp_path / "model").keys() == {"config.json"}


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), ValueError("no")], ids=repr)
@pytest.mark.parametrize("earlier", [False, True])
def test_a_failure_leaves_what_was_there(tmp_path: Path, error: BaseException, earlier: bool) -> None:
    if earlier:
        write_folder(tmp_path / "model", write_model("one"))
    before = contents(tmp_path)

    def fail(folder: Path) -> None:
        write_model("two")(folder)
        raise error

    with pytest.raises(type(error)):
        write_folder(tmp_path / "model", fail)
    assert contents(tmp_path) == before
    assert len(list(tmp_path.iterdir())) == earlier


@pytest.mark.parametrize("error", [OSError("busy"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("renames", [0, 1])
def test_a_failure_while_renaming_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, renames: int
) -> None:
    """Where the file system cannot exchange names."""
    write_folder(tmp_path / "model", write_model("one"))
    monkeypatch.setattr(atomic, "_exchange", lambda one, other: False)
    before, rename, left = contents(tmp_path), Path.rename, [renames]

    def failing(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] == -1:
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(ModelFolderError if isinstance(error, OSError) else type(error)):
        write_folder(tmp_path / "model", write_model("two"))
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_files_that_appear_during_writing_are_not_deleted(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "notes.txt").write_text("mine")

    refusal(ModelFolderError, lambda: write_folder(tmp_path / "model", write))
    assert contents(tmp_path) == {"model/notes.txt": "mine"}


def test_a_folder_is_replaced_where_names_cannot_be_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "_exchange", lambda one, other: False)
    for text in ("one", "two"):
        write_folder(tmp_path / "model", write_model(text))
    assert json.loads((tmp_path / "model" / "config.json").read_text())["text"] == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_kill_at_any_moment_leaves_the_old_or_the_new_folder(tmp_path: Path) -> None:
    """A child is killed at its n-th call of the system, for every n until it gets to the end."""
    model, seen = tmp_path / "model", set()
    for calls in range(1, 1000):
        write_folder(model, write_model("old"))
        old, new = contents(model), {"config.json": json.dumps({"model_type": "bert", "text": "new"})}
        killed = killed_after(calls, lambda: write_folder(model, write_model("new")))
        assert contents(model) in (old, new)
        seen.add(contents(model) == new)
        if not killed:
            break
    assert not killed
    assert calls > 10
    assert seen == {False, True}


def killed_after(calls: int, work: Callable[[], None]) -> bool:
    """Do the work in a child that dies at the n-th file that it opens, makes, renames or deletes."""
    child = os.fork()
    if child == 0:
        left = [calls]

        def count(event: str, _: object) -> None:
            if event == "open" or event.startswith(("os.", "shutil.", "ctypes.")):
                left[0] -= 1
                if left[0] == 0:
                    os._exit(9)

        sys.addaudithook(count)
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


# ---- single files ------------------------------------------------------------------------


def test_a_file_is_replaced_whole_and_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    file, link = tmp_path / "a.json", tmp_path / "link.json"
    write_file(file, b"one")
    file.chmod(0o640)
    link.symlink_to(file)
    write_file(link, b"two")
    assert link.is_symlink()
    assert file.read_bytes() == b"two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "link.json"]


def test_a_new_file_has_the_permissions_that_the_user_gives_files(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_file(tmp_path / "new", b"")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_nobody_else_can_read_the_staging_copy_of_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, modes = tmp_path / "secret", []
    file.write_bytes(b"one")
    file.chmod(0o600)
    opened = os.open

    def watching(*args: object, **kwargs: object) -> int:
        handle = opened(*args, **kwargs)  # type: ignore[arg-type]
        modes.append(stat.S_IMODE(os.fstat(handle).st_mode))
        return handle

    monkeypatch.setattr(os, "open", watching)
    write_file(file, b"two")
    assert modes[0] == 0o600
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "a", b"one")

    def fail(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_file(tmp_path / "a", b"two")
    assert contents(tmp_path) == {"a": "one"}


def test_a_killed_writer_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    for calls in range(1, 100):
        write_file(tmp_path / "a", b"old")
        killed = killed_after(calls, lambda: write_file(tmp_path / "a", b"new"))
        assert (tmp_path / "a").read_bytes() in (b"old", b"new")
        if not killed:
            break
    assert not killed


def test_a_run_where_no_folder_can_be_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = refusal(ModelFolderError, lambda: only_run(tmp_path / "file" / "out.partial").__enter__())
    assert "choose another --output" in message


def test_two_runs_cannot_share_a_folder_and_a_dead_run_lets_go(tmp_path):
    code = (
        "import sys, pathlib, os; from powerbert.folders.atomic import only_run\n"
        "with only_run(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"held\n"
    with pytest.raises(PowerBertError, match="another run"), only_run(tmp_path):
        pass
    other.kill()
    other.wait()
    with only_run(tmp_path):
        pass


def test_what_was_made_once_is_remembered_by_its_name(tmp_path):
    path = tmp_path / "measured.json"
    assert remembered(path, "one", lambda: (1.0, 2.0)) == (1.0, 2.0)
    assert remembered(path, "two", lambda: 3) == 3
    assert remembered(path, "one", lambda: pytest.fail("made again")) == [1.0, 2.0]  # as JSON has it
    with pytest.raises(ZeroDivisionError):
        remembered(path, "three", lambda: 1 / 0)
    assert set(json.loads(path.read_text())) == {"one", "two"}

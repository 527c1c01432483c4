"""Writing a model folder: all of it or nothing, and never over a user's files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from model_folders import refusal

from powerbert.errors import ModelFolderError
from powerbert.folders.safe import write_folder

# ---- writing -----------------------------------------------------------------------------


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


def test_files_and_folders_are_on_disk_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.add(os.fstat(handle).st_ino))
    write_folder(tmp_path / "model", write_model("one"))
    parts = (tmp_path / "model" / "config.json", tmp_path / "model", tmp_path)
    assert flushed >= {path.stat().st_ino for path in parts}


@pytest.mark.parametrize("link", [False, True])
def test_an_earlier_model_is_replaced_whole(tmp_path: Path, link: bool) -> None:
    target = tmp_path / "model"
    write_folder(target, write_model("one"))
    (target / "stale.safetensors").write_text("stale")
    if link:
        (tmp_path / "link").symlink_to(target)
    write_folder(tmp_path / "link" if link else str(target), write_model("two"))
    assert contents(target).keys() == {"config.json"}
    assert json.loads((target / "config.json").read_text())["text"] == "two"
    assert {path.name for path in tmp_path.iterdir()} == ({"model", "link"} if link else {"model"})


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
    write_folder(tmp_path / "model", write_model("one"))
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


@pytest.mark.parametrize(
    "files",
    [
        {"notes.txt": "mine"},
        {"config.json": "{}"},
        {"config.json": "mine"},
        {"config.json": '{"model_type": "bert"}', "checkpoint-5/model.safetensors": "mine"},
    ],
    ids=["files", "other config", "broken config", "sub-folder"],
)
def test_a_folder_that_is_no_plain_model_is_never_replaced(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(text)
    message = refusal(ModelFolderError, lambda: write_folder(tmp_path / "mine", write_model("two")))
    assert str(tmp_path / "mine") in message
    assert contents(tmp_path / "mine") == files
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    refusal(ModelFolderError, lambda: write_folder(tmp_path / "file", write_model("two")))
    assert "cannot be written" in refusal(
        ModelFolderError, lambda: write_folder(tmp_path / "file" / "model", write_model("two"))
    )
    assert contents(tmp_path) == {"file": "mine"}


def test_files_that_appear_during_writing_are_not_deleted(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "notes.txt").write_text("mine")

    refusal(ModelFolderError, lambda: write_folder(tmp_path / "model", write))
    assert contents(tmp_path) == {"model/notes.txt": "mine"}

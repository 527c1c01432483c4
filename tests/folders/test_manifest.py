"""powerbert.json: what is compared, what names a folder's content, and whose files are never replaced."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from model_folders import edit_config, refusal

from powerbert.errors import ModelFolderError
from powerbert.folders.atomic import write_folder as write_any
from powerbert.folders.manifest import (
    MANIFEST,
    Manifest,
    check_replaceable,
    folder_digest,
    own_files,
    read_manifest,
    write_manifest,
)


def write_model(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps({"model_type": "bert", "text": text}))

    return write


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    write_any(folder, write, check_replaceable)


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def saved(folder: Path) -> Path:
    """A folder as `save` writes it, with a model card beside."""
    write_manifest(folder, {"strategy": "attn-ws"}, extra=["README.md"])
    (folder / "README.md").write_text("card")
    return folder


# ---- what is replaced --------------------------------------------------------------------


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


@pytest.mark.parametrize("name", ["train.csv", ".git", "stale.safetensors", "pytorch_model.bin", "my_notes.txt"])
def test_a_model_with_a_file_of_the_user_beside_is_never_replaced(folder: Path, name: str) -> None:
    """A plain transformers folder, and then one of ours."""
    (folder / name).write_text("mine")
    for _ in range(2):
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        message = refusal(ModelFolderError, lambda: write_folder(folder, write_model("two")))
        assert name in message
        assert str(folder) in message
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        (folder / name).unlink()
        write_manifest(folder, None)
        (folder / name).write_text("mine")


def test_a_model_and_what_was_written_with_it_is_replaced(saved: Path) -> None:
    write_folder(saved, write_model("two"))
    assert [path.name for path in saved.iterdir()] == ["config.json"]


def test_a_plain_transformers_folder_is_replaced(folder: Path) -> None:
    write_folder(folder, write_model("two"))
    assert [path.name for path in folder.iterdir()] == ["config.json"]


def test_an_export_and_a_saved_model_do_not_replace_each_other(saved: Path) -> None:
    check_replaceable(saved)
    assert "holds a saved model" in refusal(ModelFolderError, lambda: check_replaceable(saved, exported=True))
    (saved / MANIFEST).unlink()
    (saved / "README.md").unlink()
    refusal(ModelFolderError, lambda: check_replaceable(saved, exported=True))
    write_manifest(saved, None, export={"engine": "onnx"})
    check_replaceable(saved, exported=True)
    assert "holds an exported model" in refusal(ModelFolderError, lambda: check_replaceable(saved))


def test_a_config_json_of_another_program_is_no_model(tmp_path: Path) -> None:
    """Beside it a command writes its figures twice, and a model is not written over it."""
    (tmp_path / "config.json").write_text('{"colour": "blue"} // a comment')
    assert own_files(tmp_path) == set()
    message = refusal(ModelFolderError, lambda: check_replaceable(tmp_path))
    assert "config.json in it is not of a model" in message


def test_a_damaged_manifest_names_nothing_that_may_be_replaced(saved: Path) -> None:
    (saved / MANIFEST).write_text("{")
    assert MANIFEST in refusal(ModelFolderError, lambda: check_replaceable(saved))


# ---- what is read ------------------------------------------------------------------------


def test_a_manifest_reads_back(saved: Path) -> None:
    manifest = read_manifest(saved)
    assert manifest.elimination == {"strategy": "attn-ws"}
    assert manifest.export is None
    assert manifest.extra == ("README.md",)
    assert set(manifest.sha256) == own_files(saved) - {MANIFEST, "README.md"}


def test_a_plain_folder_has_an_empty_manifest(folder: Path) -> None:
    assert read_manifest(folder) == Manifest()


def test_a_file_that_was_changed_is_named_and_one_beside_the_model_is_free(saved: Path) -> None:
    (saved / "README.md").write_text("a better card")
    read_manifest(saved)
    edit_config(saved, num_labels=5)
    assert "config.json is not what was saved" in refusal(ModelFolderError, lambda: read_manifest(saved))


# ---- the digest of a folder --------------------------------------------------------------


def test_the_digest_follows_the_model_and_nothing_else(saved: Path, tmp_path: Path) -> None:
    digest = folder_digest(saved)
    copy = Path(shutil.copytree(saved, tmp_path / "copy"))
    (copy / "README.md").write_text("another card")
    (copy / "train.csv").write_text("mine")
    assert folder_digest(str(copy)) == digest
    (copy / MANIFEST).unlink()
    assert folder_digest(copy) != digest  # it carries no elimination any more
    plain = folder_digest(copy)
    edit_config(copy, num_labels=5)
    assert folder_digest(copy) != plain
    edit_config(saved, num_labels=5)
    refusal(ModelFolderError, lambda: folder_digest(saved))


def test_a_folder_without_a_model_has_no_digest(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("mine")
    assert "holds no model" in refusal(ModelFolderError, lambda: folder_digest(tmp_path))
    refusal(ModelFolderError, lambda: folder_digest(tmp_path / "nowhere"))

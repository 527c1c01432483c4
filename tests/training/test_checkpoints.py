"""Checkpoints: only whole ones are chosen."""

from __future__ import annotations

import pytest

from powerbert.training.checkpoints import is_valid, newest_valid, publish, rotate


def write(folder, step, content=b"weights"):
    staging = folder / ".staging"
    staging.mkdir(parents=True)
    (staging / "model.safetensors").write_bytes(content)
    (staging / "rng_state.pth").write_bytes(b"state")
    publish(staging, folder / f"checkpoint-{step}")
    return folder / f"checkpoint-{step}"


def test_the_newest_whole_checkpoint_is_chosen(tmp_path):
    first, second, tenth = (write(tmp_path, step) for step in (1, 2, 10))
    assert newest_valid(tmp_path) == tenth  # by number, not by name
    (tenth / "model.safetensors").write_bytes(b"weightz")
    assert newest_valid(tmp_path) == second
    (second / "rng_state.pth").unlink()
    assert newest_valid(tmp_path) == first
    (first / "manifest.json").write_text("{")
    assert newest_valid(tmp_path) is None


def test_a_folder_that_was_never_renamed_is_no_checkpoint(tmp_path):
    staging = tmp_path / ".staging-7"
    staging.mkdir()
    (staging / "model.safetensors").write_bytes(b"half")
    (tmp_path / "checkpoint-9").mkdir()  # as HF's Trainer leaves them behind
    assert newest_valid(tmp_path) is None


@pytest.mark.parametrize("manifest", ["[]", "{}", "null", '{"a": 1}', '{"../../etc/passwd": [1, "x"]}'])
def test_odd_manifests_are_not_valid(tmp_path, manifest):
    checkpoint = write(tmp_path, 1)
    (checkpoint / "manifest.json").write_text(manifest)
    assert not is_valid(checkpoint)


def test_publishing_replaces_what_a_killed_run_left_at_that_step(tmp_path):
    (tmp_path / "checkpoint-3").mkdir()
    assert newest_valid(tmp_path) is None
    whole = write(tmp_path, 3)
    assert newest_valid(tmp_path) == whole


def test_rotation_spares_the_newest_and_the_best(tmp_path):
    checkpoints = [write(tmp_path, step) for step in (1, 2, 3)]
    rotate(tmp_path, {checkpoints[0], checkpoints[2]})
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == ["checkpoint-1", "checkpoint-3"]

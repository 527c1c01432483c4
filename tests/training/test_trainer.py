"""The estimate, the bar and checkpoints; and two processes under `accelerate launch` against one.

Of checkpoints only whole ones are chosen. The oracle of two processes is the run in one at the same effective
batch. The model has no dropout, because masks fall differently on the parts of a batch: with it the two runs
are two samples, as far apart as two draws of masks in one process (up to six word-vectors in so short a
search). Without it they differ in the order in which fp32 gradients are added up, and in nothing else.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from launched import EFFECTIVE, FOLDERS, LONGEST, encoder, run_steps
from runs import pretrained, small_data
from safetensors.torch import load_file

import powerbert
from powerbert.errors import PowerBertError
from powerbert.modeling.apply import retention_of
from powerbert.training import Options, SearchOptions, finetune, search
from powerbert.training.trainer import Bar, newest_whole, publish, rotate

PROCESSES = 2


def test_the_estimate_comes_before_the_end_on_one_line(tmp_path, caplog):
    options = Options(epochs=3, batch_size=8, accumulation=2)
    with caplog.at_level("INFO", "powerbert.training"):
        finetune(pretrained(tmp_path / "encoder"), small_data(), tmp_path / "one", options)
    told = [line for line in caplog.messages if "about" in line]
    assert len(told) == 1
    assert re.fullmatch(r"48 rows, 9 steps of 16 inputs: about \d+ s left", told[0])


def test_a_state_is_read_to_the_only_cpu_by_its_number(tmp_path):
    """As transformers before 5.18 resumes several CPU processes; importing the trainer is what helps."""
    torch.save({"exp_avg": torch.arange(3.0)}, tmp_path / "optimizer.pt")
    state = torch.load(tmp_path / "optimizer.pt", map_location=torch.device("cpu:0"), weights_only=True)
    assert state["exp_avg"].tolist() == [0, 1, 2]
    assert state["exp_avg"].device.type == "cpu"


def state(step: int, main: bool = True) -> SimpleNamespace:
    return SimpleNamespace(max_steps=10, global_step=step, is_world_process_zero=main)


def test_the_bar_starts_where_a_resumed_run_goes_on_and_shows_the_newest_figures(capsys):
    bar = Bar()
    bar.on_train_begin(None, state(4), None)
    assert (bar.training_bar.n, bar.training_bar.total) == (4, 10)
    bar.on_step_end(None, state(5), None)
    bar.on_log(None, state(5), None, {"loss": 0.51234, "mass": 3.25, "grad_norm": 1.0})
    bar.on_log(None, state(6), None, {"eval_metric": 0.75})
    assert bar.training_bar.n == 5
    assert bar.shown == {"loss": "0.5123", "mass": "3.25", "metric": "0.75"}
    bar.on_train_end(None, state(6), None)
    assert "mass=3.25" in capsys.readouterr().err


def test_only_the_first_process_draws(capsys):
    bar = Bar()
    bar.on_train_begin(None, state(0, main=False), None)
    bar.on_step_end(None, state(1, main=False), None)
    bar.on_log(None, state(1, main=False), None, {"loss": 1.0})
    bar.on_train_end(None, state(1, main=False), None)
    assert capsys.readouterr().err == ""


def test_a_search_shows_its_mass_and_the_time_left(tmp_path, capsys):
    data, common = small_data(), {"epochs": 1, "batch_size": 8, "accumulation": 1}
    finetune(pretrained(tmp_path / "encoder"), data, tmp_path / "one", Options(**common))
    assert "step/s" not in capsys.readouterr().err  # no bar unless it is asked for
    search(tmp_path / "one", data, tmp_path / "two", SearchOptions(bins=4, **common), progress=True)
    shown = capsys.readouterr().err
    assert "6/6 [" in shown
    assert "mass=" in shown
    assert "tokens/s=" in shown
    assert "shards" not in shown  # the bar of what a checkpoint writes, which would break this one


def write(folder, step, content=b"weights"):
    staging = folder / ".staging"
    staging.mkdir(parents=True)
    (staging / "model.safetensors").write_bytes(content)
    (staging / "rng_state.pth").write_bytes(b"state")
    publish(staging, folder / f"checkpoint-{step}")
    return folder / f"checkpoint-{step}"


def test_the_newest_whole_checkpoint_is_chosen(tmp_path):
    first, second, tenth = (write(tmp_path, step) for step in (1, 2, 10))
    assert newest_whole(tmp_path) == tenth  # by number, not by name
    (tenth / "model.safetensors").write_bytes(b"weightz")
    assert newest_whole(tmp_path) == second
    (second / "rng_state.pth").unlink()
    assert newest_whole(tmp_path) == first
    (first / "powerbert.json").write_text("{")
    assert newest_whole(tmp_path) is None


def test_a_folder_that_was_never_renamed_is_no_checkpoint(tmp_path):
    staging = tmp_path / ".staging-7"
    staging.mkdir()
    (staging / "model.safetensors").write_bytes(b"half")
    (tmp_path / "checkpoint-9").mkdir()  # as HF's Trainer leaves them behind
    assert newest_whole(tmp_path) is None


@pytest.mark.parametrize("manifest", ["[]", "{}", "null", '{"a": 1}', '{"../../etc/passwd": [1, "x"]}'])
def test_odd_manifests_are_not_valid(tmp_path, manifest):
    checkpoint = write(tmp_path, 1)
    (checkpoint / "powerbert.json").write_text(manifest)
    assert newest_whole(tmp_path) is None


def test_publishing_replaces_what_a_killed_run_left_at_that_step(tmp_path):
    (tmp_path / "checkpoint-3").mkdir()
    assert newest_whole(tmp_path) is None
    whole = write(tmp_path, 3)
    assert newest_whole(tmp_path) == whole


def test_rotation_spares_the_newest_and_the_best(tmp_path):
    checkpoints = [write(tmp_path, step) for step in (1, 2, 3)]
    rotate(tmp_path, {checkpoints[0], checkpoints[2]})
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == ["checkpoint-1", "checkpoint-3"]


def launch(root: Path) -> subprocess.Popen[bytes]:
    """`accelerate launch` of the steps in two CPU processes; what they print goes to `log_of(root)`.

    `--cpu --num_processes 2` would start one process (accelerate 1.15, without mpirun): the launcher of
    several processes is called `--multi_gpu`, and the environment says that there is only the CPU.
    """
    here = Path(__file__).parents[1]
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"]
    command += ["--num_processes", str(PROCESSES), "--mixed_precision", "no", "--dynamo_backend", "no"]
    command += ["--main_process_port", "0", str(here / "launched.py"), str(root), str(EFFECTIVE // PROCESSES)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")]),
        "ACCELERATE_USE_CPU": "true",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    with log_of(root).open("ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def log_of(root: Path) -> Path:
    return root / "launched.log"


def finish(process: subprocess.Popen[bytes], root: Path) -> None:
    assert process.wait(timeout=300) == 0, log_of(root).read_text()[-3000:]


def interrupt(root: Path, rank: int | None = None) -> None:
    """Launch, and send SIGTERM during fine-tuning: to the launcher, or to one of its processes alone."""
    process = launch(root)
    while process.poll() is None and not list(root.glob("one.partial/checkpoint-*")):
        time.sleep(0.02)
    if rank is None:
        process.send_signal(signal.SIGTERM)
    else:
        os.kill(int(re.findall(rf"rank {rank} is process (\d+)", log_of(root).read_text())[0]), signal.SIGTERM)
    assert process.wait(timeout=120) != 0


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    root = tmp_path_factory.mktemp("one-process")
    encoder(root / "pretrained")
    run_steps(root, EFFECTIVE)
    return root


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """Interrupted once and launched again."""
    root = tmp_path_factory.mktemp("two-processes")
    encoder(root / "pretrained")
    interrupt(root)
    assert "stopped and saved at step" in log_of(root).read_text()
    assert list(root.glob("one.partial/checkpoint-*"))
    assert '"loss"' in (root / "one.partial/metrics.jsonl").read_text()  # it can be followed while it trains
    finish(launch(root), root)
    return root


def retention(root: Path, name: str) -> powerbert.RetentionConfiguration:
    return retention_of(powerbert.load(root / name)[0])


def record(root: Path, name: str) -> dict:
    return json.loads((root / name / "run.json").read_text())


def course(root: Path, name: str, figure: str) -> dict[int, float]:
    """A logged figure by training step; a line that was written twice would be a second entry."""
    lines = [json.loads(line) for line in (root / name / "metrics.jsonl").read_text().splitlines()]
    found = [(line["step"], line[figure]) for line in lines if figure in line]
    assert len(dict(found)) == len(found), (name, figure)
    return dict(found)


def assert_same_configurations(root: Path, expected: Path) -> None:
    """Within one word-vector per encoder, of N and of the longest input."""
    for name in FOLDERS[1:]:
        ours, theirs = retention(root, name).counts(LONGEST), retention(expected, name).counts(LONGEST)
        assert all(abs(a - b) <= 1 for a, b in zip(ours, theirs, strict=True)), (name, ours, theirs)


def test_two_processes_that_were_stopped_learn_the_configuration_of_one(one_process, two_processes):
    assert_same_configurations(two_processes, one_process)
    counts = retention(one_process, "two").counts(LONGEST)
    assert len(set(counts)) > 1  # there is something to agree on
    assert max(counts[1:]) < LONGEST


def test_two_processes_take_the_same_steps_on_the_same_effective_batches(one_process, two_processes):
    for name in FOLDERS:
        assert record(two_processes, name)["settings"]["processes"] == PROCESSES
        for figure in ("loss", "mass") if name in ("two", "relative") else ("loss",):
            ours, theirs = course(two_processes, name, figure), course(one_process, name, figure)
            assert ours == pytest.approx(theirs, abs=2e-3), (name, figure)


def test_every_dev_row_counts_once_although_they_do_not_divide(one_process, two_processes):
    for name in FOLDERS:
        assert record(two_processes, name)["result"]["evaluation"]["rows"] == 15
        assert course(two_processes, name, "eval_metric") == pytest.approx(
            course(one_process, name, "eval_metric"), abs=1e-9
        )


def test_several_processes_leave_the_files_that_one_leaves(one_process, two_processes):
    for name in FOLDERS:
        ours, theirs = ({file.name for file in (root / name).iterdir()} for root in (two_processes, one_process))
        assert ours == theirs
    assert {path.name for path in two_processes.iterdir()} == {"pretrained", "launched.log", *FOLDERS}


def test_the_number_of_processes_belongs_to_a_run(two_processes):
    with pytest.raises(PowerBertError, match="other processes"):  # half the effective batch: another result
        run_steps(two_processes, EFFECTIVE // PROCESSES, ("one",))


@pytest.mark.slow
def test_a_signal_to_one_process_stops_both_at_one_step_and_changes_no_bit(two_processes, tmp_path):
    encoder(tmp_path / "pretrained")
    interrupt(tmp_path, rank=1)
    assert log_of(tmp_path).read_text().count("InterruptedRun: stopped and saved at step") == PROCESSES
    finish(launch(tmp_path), tmp_path)
    for name in FOLDERS:
        ours, theirs = (load_file(root / name / "model.safetensors") for root in (tmp_path, two_processes))
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs), name

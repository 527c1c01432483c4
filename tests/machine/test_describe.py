"""The machine, its memory, others at work on it, and how many threads; the oracles are processes of known cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

from powerbert.errors import PowerBertError
from powerbert.machine import describe
from powerbert.machine.describe import (
    VARIABLES,
    Watch,
    busy_cores,
    choose_threads,
    duration,
    extra_megabytes,
    machine,
    own_cores,
    own_seconds,
)


def test_a_busy_machine_is_told(monkeypatch):
    watch = Watch()
    assert watch.others() is not None  # Linux tells
    monkeypatch.setattr(Watch, "others", lambda self: 0.5)
    assert "50 %" in watch.warning()
    monkeypatch.setattr(Watch, "others", lambda self: 0.05)
    assert watch.warning() is None


def test_the_work_of_a_child_is_our_own_work():
    before = own_seconds()
    burn = "import time\nwhile time.process_time() < 0.6: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert own_seconds() - before >= 0.5


def test_the_machine_names_its_processor_and_versions():
    found = machine()
    assert found["processor"]
    assert found["cores"] >= 1
    assert "torch" in found["versions"]


def test_extra_memory_is_what_the_work_takes_at_its_height():
    assert extra_megabytes(lambda: bytearray(b"x") * 100_000_000) > 80


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "0 s"), (61, "61 s"), (179, "3.0 min"), (5400, "90 min"), (7200, "2.0 h")]
)
def test_a_duration_is_no_more_exact_than_an_estimate(seconds, words):
    assert duration(seconds) == words


@pytest.fixture
def cores(monkeypatch):
    """Eight cores, of which others use as many as the test says, and no variable."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def of(others: int) -> None:
        monkeypatch.setattr(describe, "own_cores", lambda: 8)
        monkeypatch.setattr(describe, "busy_cores", lambda: others)

    return of


@pytest.mark.parametrize(("others", "chosen"), [(0, 8), (3, 5), (8, 1), (20, 1)])
def test_cores_that_others_use_are_left_to_them(cores, others, chosen):
    cores(others)
    assert choose_threads()[0] == chosen


def test_the_user_wins_then_the_environment(cores, monkeypatch):
    cores(3)
    monkeypatch.setenv("MKL_NUM_THREADS", "4")
    assert choose_threads() == (4, "MKL_NUM_THREADS=4")
    monkeypatch.setenv("OMP_NUM_THREADS", "6,2")  # a number for each level of nesting
    assert choose_threads() == (6, "OMP_NUM_THREADS=6")
    assert choose_threads(7) == (7, "as asked")
    for value in ("many", "0", "", "²"):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert choose_threads()[0] == 4


@pytest.mark.parametrize("asked", [0, -1, 1.5, True, 100_000])
def test_a_number_of_threads_that_is_none_is_refused(asked):
    with pytest.raises(PowerBertError, match="--threads is out of range"):
        choose_threads(asked)


def test_a_busy_process_is_heard(monkeypatch):
    """The oracle is a child that burns a core; others may be at work as well."""
    monkeypatch.setattr(describe, "_SILENCE", 1.0)
    burn = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert busy_cores() >= 1
    finally:
        burn.kill()
        burn.wait()


def test_a_share_of_a_core_is_rounded(monkeypatch):
    monkeypatch.setattr(describe, "_SILENCE", 0)
    monkeypatch.setattr(describe.psutil, "cpu_count", lambda: 8)
    for share, cores in ((0.05, 0), (0.1, 1), (0.5, 4)):
        monkeypatch.setattr(Watch, "others", lambda self, share=share: share)
        assert busy_cores() == cores


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_the_quota_of_a_container_bounds_the_cores(tmp_path, monkeypatch, files, quota):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert describe._quota(tmp_path) == quota
    monkeypatch.setattr(describe, "_quota", lambda: 0.5)
    assert own_cores() == 1

"""The machine, its memory, and whether others are at work on it; the oracles are processes of known cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

from powerbert.machine.describe import Watch, duration, extra_megabytes, machine, own_seconds


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

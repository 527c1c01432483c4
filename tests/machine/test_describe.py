"""What is said of the machine. Oracle: work that this process and its children do."""

from __future__ import annotations

import subprocess
import sys

from powerbert.machine.describe import Watch, machine, own_seconds


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

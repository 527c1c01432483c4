"""What crashes in the child leaves this process alone."""

import powerbert.machine.child
from powerbert.machine.child import survives


def test_a_crash_an_error_and_a_hang_are_told_from_a_success(monkeypatch):
    assert survives("import math; math.sqrt(2)")
    assert not survives("import os, signal; os.kill(os.getpid(), signal.SIGILL)")  # an illegal instruction
    assert not survives("raise SystemExit(3)")
    monkeypatch.setattr(powerbert.machine.child, "PATIENCE", 0.2)
    assert not survives("import time; time.sleep(60)")

"""What crashes in the child leaves this process alone."""

import pytest

import powerbert.machine.child
from powerbert.machine.child import attempt


@pytest.mark.parametrize(
    ("code", "killed", "how"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", True, "died with SIGILL"),
        ("raise SystemExit(3)", False, "ended with code 3"),
        ("raise ValueError('no such thing')", False, "ValueError: no such thing"),
    ],
)
def test_a_crash_and_an_error_are_told_from_a_success(code, killed, how):
    outcome = attempt(["-c", code])
    assert outcome.code != 0
    assert (outcome.was_killed, outcome.how) == (killed, how)
    assert attempt(["-c", "import math; math.sqrt(2)"]).code == 0


def test_a_child_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(powerbert.machine.child, "PATIENCE", 0.2)
    outcome = attempt(["-c", "import time; time.sleep(60)"])
    assert (outcome.code, outcome.how) == (None, "no answer within 0 s")

"""Try in a child process what might crash: some machines promise instructions that they do not have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PATIENCE = 120.0


@dataclass(frozen=True)
class Outcome:
    """How a child process ended."""

    code: int | None
    """Its exit code; the number of a signal below 0, None for a child that ran out of patience."""
    output: str = ""
    errors: str = ""

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended it, such as that of an illegal instruction."""
        return self.code is not None and self.code < 0

    @property
    def how(self) -> str:
        """One line for a person."""
        if self.code is None:
            return f"no answer within {PATIENCE:.0f} s"
        if self.was_killed:
            return f"died with {_signal(-self.code)}"
        last = self.errors.strip().rpartition("\n")[2].strip()
        return last or f"ended with code {self.code}"


def attempt(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Outcome:
    """Run this Python with arguments, and variables beside the inherited ones; a crash stays in the child."""
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(None)
    except OSError as error:  # no memory for a child, or a Python that is part of another program
        return Outcome(1, errors=str(error))
    return Outcome(done.returncode, done.stdout, done.stderr)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

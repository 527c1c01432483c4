"""`powerbert doctor`: what this machine can run, and what to choose."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from powerbert.cli.flags import command
from powerbert.cli.output import STANDARD_OUTPUT, check_target, note, show, working, write_json
from powerbert.cli.training import Given

if TYPE_CHECKING:
    from powerbert.machine.verdicts import Verdict

LISTEN = 0.5
"""Seconds for which this process is silent, to hear whether others work."""


@dataclass(frozen=True)
class Asked:
    """Where the figures go."""

    json: Annotated[str | None, 'Write the figures to this file; "-" is standard output.', "FILE"] = None


def _doctor(flags: Given) -> None:
    """Tell what this machine can run: engines, precisions, speed, and the choice they recommend.

    Every engine is tried in every precision in a process of its own, because a CPU that claims
    instructions which it does not have ends the process that uses them. The other commands remember
    what is found here.

    Example:

        powerbert doctor --json machine.json
    """
    asked = Asked(**flags)
    if asked.json is not None:
        check_target(asked.json, "--json")
    figures = _measure()
    if asked.json != STANDARD_OUTPUT:
        from powerbert.report.doctor_table import choice_lines, engines_table, machine_table

        show(machine_table(figures))
        show(engines_table(figures))
        for line in choice_lines(figures):
            show(line)
    if figures["warning"]:
        note(f"warning: {figures['warning']}")
    if asked.json is not None:
        write_json(asked.json, figures)


def _measure() -> dict[str, Any]:
    """Machine, verdicts, peaks and the recommended choice; figures for JSON."""
    from powerbert.machine.describe import Watch, machine
    from powerbert.machine.verdicts import ISA, PAIRS, examine, fastest, hold_isa, remember

    with working("listening whether the machine is busy"):
        watch = Watch()
        time.sleep(LISTEN)
        warning = watch.warning()
    described = machine()  # before a cap is set
    verdicts = []
    for engine, precision in PAIRS:
        with working(f"trying {engine} in {precision}"):
            verdicts.append(examine(engine, precision))
    remember(verdicts)
    cap = next((verdict.cap for verdict in verdicts if verdict.cap is not None), None)
    with working("measuring the peak of matrix products"):
        if cap is not None:
            hold_isa(cap)  # before torch is loaded: then the peak is that of what can be had
        import torch

        from powerbert.machine.peak import peaks

        peak = peaks()
    return {
        "machine": described,
        "engines": [asdict(verdict) for verdict in verdicts],
        "threads": torch.get_num_threads(),
        "peak_gflops": peak,
        "environment": {} if cap is None else {ISA: cap},
        "recommended": {
            "fastest": _choice(fastest(verdicts)),
            "same_answers": _choice(fastest(verdicts, "fp32")),
        },
        "warning": warning,
    }


def _choice(verdict: Verdict | None) -> dict[str, str] | None:
    return None if verdict is None else {"engine": verdict.engine, "precision": verdict.precision}


doctor = command(_doctor, Asked)

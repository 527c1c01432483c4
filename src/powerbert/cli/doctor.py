"""`powerbert doctor`: what this machine can run, and what to choose."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import torch

from powerbert.cli.groups import Figures
from powerbert.cli.output import note, show, working, write_json
from powerbert.machine.describe import Watch, choose_threads, machine
from powerbert.machine.measure import peaks
from powerbert.machine.verdicts import ISA, PAIRS, Verdict, examine, fastest, hold_isa, remember
from powerbert.report.tables import choice_lines, engines_table, machine_table

LISTEN = 0.5
"""Seconds for which this process is silent, to hear whether others work."""


def doctor(asked: Figures) -> None:
    """Say what this machine can run."""
    figures = _measure()
    if asked.shows:
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
    with working("listening whether the machine is busy"):
        watch = Watch()
        time.sleep(LISTEN)
        warning = watch.warning()
        threads, why = choose_threads()
    described = machine()  # before a cap is set
    verdicts = []
    for engine, precision in PAIRS:
        with working(f"trying {engine} in {precision}"):
            verdicts.append(examine(engine, precision))
    remember(verdicts)
    cap = next((verdict.cap for verdict in verdicts if verdict.cap is not None), None)
    with working("measuring the peak of matrix products"):
        if cap is not None:
            hold_isa(cap)  # before the first product: then the peak is that of what can be had
        torch.set_num_threads(threads)
        peak = peaks(precision for _, precision in PAIRS)
    return {
        "machine": described,
        "engines": [asdict(verdict) for verdict in verdicts],
        "threads": threads,
        "threads_because": why,
        "peak_gflops": peak,
        "environment": {} if cap is None else {ISA: cap},
        "recommended": {"fastest": _choice(fastest(verdicts)), "same_answers": _choice(fastest(verdicts, "fp32"))},
        "warning": warning,
    }


def _choice(verdict: Verdict | None) -> dict[str, str] | None:
    return None if verdict is None else {"engine": verdict.engine, "precision": verdict.precision}

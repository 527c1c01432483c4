"""What a machine can run, as tables for a terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from powerbert.machine.probes import TRAINING
from powerbert.machine.verdicts import CAPPED, CRASHES, MISSING, Verdict


def machine_table(figures: dict[str, Any]) -> Table:
    """The machine and the versions of what computes."""
    machine = figures["machine"]
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("processor", machine["processor"])
    table.add_row("cores", f"{machine['cores']}")
    table.add_row("memory", f"{machine['memory_gb']} GB")
    table.add_row("instructions", " ".join(machine["isa"]) or "unknown")
    table.add_row("system", f"{machine['system']}, Python {machine['python']}")
    table.add_row("versions", ", ".join(f"{name} {found}" for name, found in machine["versions"].items()))
    if machine["onednn_max_cpu_isa"]:
        table.add_row("environment", f"ONEDNN_MAX_CPU_ISA={machine['onednn_max_cpu_isa']}")
    peaks = ", ".join(f"{name} {rate:,.0f}" for name, rate in figures["peak_gflops"].items())
    table.add_row("threads", f"{figures['threads']} ({figures['threads_because']})")
    table.add_row("peak", f"{peaks} GFLOP/s")
    return table


def engines_table(figures: dict[str, Any]) -> Table:
    """Every engine in every precision: whether it runs, and how fast."""
    title = "one linear layer of a BERT-base, 256 word-vectors, one core"
    table = Table(  # as narrow as it goes: the pip command fits 80 columns
        title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )
    for name in ("engine", "precision"):
        table.add_column(name, no_wrap=True)
    for name in ("GFLOP/s", "x fp32"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in figures["engines"]:
        verdict = Verdict(**row)
        table.add_row(
            verdict.engine,
            verdict.precision,
            "" if verdict.gflops is None else f"{verdict.gflops:,.0f}",
            "" if verdict.ratio is None or verdict.precision == "fp32" else f"{verdict.ratio:.2f}",
            Text(word(verdict)),  # its brackets are no markup
        )
    return table


def word(verdict: Verdict) -> str:
    """What a verdict comes to, in plain words."""
    if verdict.state in (CRASHES, MISSING):
        return f"{verdict.state}: {verdict.detail}"
    words = ["slower than fp32"] if verdict.is_slower else []
    if verdict.state == CAPPED or not words:
        words.append(verdict.state)
    if (verdict.engine, verdict.precision) == TRAINING:
        words.append("training only")
    return ", ".join(words)


def choice_lines(figures: dict[str, Any]) -> list[str]:
    """What to choose, one line each."""
    said = {"fastest": "fastest", "same_answers": "fastest with the answers of fp32"}
    choices = {said[name]: choice for name, choice in figures["recommended"].items() if choice is not None}
    lines = [f"{name}: {choice['engine']} {choice['precision']}" for name, choice in choices.items()]
    for variable, value in figures["environment"].items():
        lines.append(f"set {variable}={value} for training in bf16; engines that need it are opened with it anyway")
    return [*lines, "powerbert bench measures your own model and texts"]

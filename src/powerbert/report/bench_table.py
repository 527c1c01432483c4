"""The figures of a benchmark as tables for a terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table


def headline_table(figures: dict[str, Any]) -> Table:
    """How many times as fast, the hardest comparison first."""
    table = Table(
        title=f"{figures['texts']} texts, {figures['mean_length']:.0f} words in the mean: times as fast"
    )
    for column in ("", "", "eliminated", "baseline"):
        table.add_column(column, overflow="fold")
    for row in figures["headline"]:
        table.add_row(f"{row['ratio']:.2f}x", row["against"], row["arm"], row["baseline"])
    if paper := figures.get("paper"):
        how = f"as the paper measures: {paper['batch']} x {paper['length']}, mean of {paper['runs']} runs"
        table.add_row(f"{paper['ratio']:.2f}x", how, *reversed(paper["mean_seconds"]))
    return table


def arms_table(figures: dict[str, Any]) -> Table:
    """Every arm, the fastest first."""
    title = f"{figures['rounds']} rounds, arms in turn; medians, and the distance of the quartiles"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("model", "engine", "feed"):
        table.add_column(name)
    for name in ("batch", "inputs/s", "±", "p95 ms", "word-vectors", "GFLOP", "of peak", "MB"):
        table.add_column(name, justify="right")
    for arm in sorted(figures["arms"], key=lambda arm: -float(arm["inputs_per_second"])):
        table.add_row(
            arm["model"],
            f"{arm['engine']} {arm['precision']}",
            arm["feed"],
            str(arm["batch"]),
            f"{arm['inputs_per_second']:,.1f}",
            f"{100 * arm['spread']:.0f} %",
            f"{arm['p95_ms']:,.1f}",
            f"{arm['word_vectors']:,}",
            f"{arm['gflop']:,.1f}",
            "" if arm["share_of_peak"] is None else f"{100 * arm['share_of_peak']:.0f} %",
            "" if arm["extra_memory_mb"] is None else f"{arm['extra_memory_mb']:,.0f}",
        )
    return table

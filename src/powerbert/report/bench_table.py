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


def efficiency_table(figures: dict[str, Any]) -> Table:
    """What of the work that is saved shows as time, at each length and batch size."""
    table = Table(
        title="speed-up over the unpruned model in the same engine, and its share of the FLOP ratio"
    )
    for column in ("inputs", "engine", "speed-up", "FLOP ratio", "efficiency", "against stock"):
        table.add_column(column, justify="left" if column == "engine" else "right")
    points = {(p["engine"], p["precision"], p["batch"], p["length"]): p for p in _curve_points(figures)}
    for point in points.values():
        stock = point["against_stock"]
        table.add_row(
            f"{point['batch']} x {point['length']}",
            f"{point['engine']} {point['precision']}",
            f"{point['speed_up']:.2f}x",
            f"{point['flop_ratio']:.2f}",
            f"{point['efficiency']:.2f}",
            "" if stock is None else f"{stock:.2f}x",
        )
    return table


def _curve_points(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """The points of both curves at which the eliminated model was measured."""
    points = [*figures["by_length"], *figures["by_batch"]]
    return [point for point in points if point["model"] == "eliminated"]


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

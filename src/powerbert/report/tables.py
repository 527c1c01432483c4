"""Tables for a terminal, none wider than 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from powerbert.export.compare import Comparison
from powerbert.retention import RetentionConfiguration

FULL_CELLS, SHADED_CELLS = "cyan", "bright_black"
LEAST_BAR, WIDEST_BAR = 8, 40  # cells


# ---- a retention configuration -------------------------------------------------------------


@dataclass(frozen=True)
class ShareBar:
    """A share as full and shaded cells, as wide as there is room for.

    Shades fill it up to the end, so that the whole is seen and no line of a file ends in spaces.
    """

    share: float

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Ask for `WIDEST_BAR` cells, and make do with `LEAST_BAR`."""
        return Measurement(LEAST_BAR, WIDEST_BAR).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Round to cells, but never to none, nor to all where something is eliminated."""
        full, shaded = ("#", ".") if options.ascii_only else ("█", "░")
        width = min(options.max_width, WIDEST_BAR)
        cells = max(1, min(round(self.share * width), width - (self.share < 1)))
        yield Text.assemble((full * cells, FULL_CELLS), (shaded * (width - cells), SHADED_CELLS))


def retention_table(retention: RetentionConfiguration) -> Table:
    """What each encoder retains: a share of the input's own length, or word-vectors of N.

    Consecutive encoders that retain the same share one row.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style=SHADED_CELLS)
    table.add_column("encoder", justify="right", no_wrap=True)
    table.add_column("retains", justify="right", no_wrap=True)
    table.add_column("of the input's own length" if retention.is_relative else f"of N={retention.max_length}")
    entries = enumerate(zip(retention.values, retention.fractions, strict=True), 1)
    for (value, share), run in groupby(entries, key=lambda entry: entry[1]):
        encoders = [j for j, _ in run]
        name = f"{encoders[0]}" if len(encoders) == 1 else f"{encoders[0]}-{encoders[-1]}"
        shown = f"{100 * share:.2f} %" if retention.is_relative else f"{value}"
        table.add_row(name, shown, ShareBar(share))
    return table


# ---- what a model answers ------------------------------------------------------------------


def comparison_table(found: Comparison, exported: str, metrics: Mapping[str, float] | None, metric: str) -> Table:
    """An exported model against torch in fp32; `metrics` are those of both, where there are labels."""
    title = f"{len(found.first):,} texts that were not used for the scales"
    table = plain_table(title, [""], [f"{exported} against torch fp32"])
    if found.agreement is not None:
        table.add_row("same label", f"{100 * found.agreement:.2f} %")
    table.add_row("largest difference of a logit", f"{found.difference:.4f}")
    if metrics is not None:
        before, after = (100 * value for value in metrics.values())
        table.add_row(metric, f"{before:.2f} -> {after:.2f}")
    return table


# ---- a benchmark ---------------------------------------------------------------------------


def headline_table(figures: dict[str, Any]) -> Table:
    """How many times as fast, the hardest comparison first."""
    mean = figures["mean_length"]
    table = plain_table(f"times as fast: {figures['texts']} texts, {mean:.0f} words on average", [], [""])
    for column in ("against", "eliminated", "baseline"):
        table.add_column(column, overflow="fold")
    for row in figures["headline"]:
        arms = [row[name].rpartition(" ")[0] for name in ("arm", "baseline")]  # the column says which model
        table.add_row(f"{row['ratio']:.2f}x", row["against"], *arms)
    if paper := figures.get("paper"):
        how = f"as the paper measures: {paper['batch']} x {paper['length']}, mean of {paper['runs']} runs"
        arms = [name.rpartition(" ")[0] for name in reversed(paper["mean_seconds"])]
        table.add_row(f"{paper['ratio']:.2f}x", how, *arms)
    return table


def arms_table(figures: dict[str, Any]) -> Table:
    """Every arm, the fastest first; peak: the share of it that is used. Word-vectors are in the JSON."""
    title = f"{figures['rounds']} rounds, arms in turn; medians, and the distance of the quartiles"
    columns = ["batch", "inputs/s", "±", "p95 ms", "GFLOP", "peak", "MB"]
    table = plain_table(title, ["model", "engine", "feed"], columns)
    for arm in sorted(figures["arms"], key=lambda arm: -float(arm["inputs_per_second"])):
        table.add_row(
            arm["model"],
            f"{arm['engine']} {arm['precision']}",
            arm["feed"],
            str(arm["batch"]),
            _number(arm["inputs_per_second"]),
            f"{100 * arm['spread']:.0f} %",
            _number(arm["p95_ms"]),
            _number(arm["gflop"]),
            "" if arm["share_of_peak"] is None else f"{100 * arm['share_of_peak']:.0f} %",
            "" if arm["extra_memory_mb"] is None else f"{arm['extra_memory_mb']:,.0f}",
        )
    return table


def efficiency_table(figures: dict[str, Any]) -> Table:
    """What of the work that is saved shows as time, at each length and batch size."""
    title = "speed-up over the full model in the same engine, and its share of the FLOP ratio"
    columns = ["speed-up", "FLOP ratio", "efficiency", "against stock"]
    table = plain_table(title, ["inputs", "engine"], columns)
    points = [point for curve in ("by_length", "by_batch") for point in figures[curve]]
    both = {(p["engine"], p["precision"], p["batch"], p["length"]): p for p in points if "speed_up" in p}
    for point in both.values():
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


def _number(value: float) -> str:
    """With a decimal where it matters."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def plain_table(title: str, words: Iterable[str], numbers: Iterable[str]) -> Table:
    """An empty table with columns of words, then of numbers."""
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for column in words:
        table.add_column(column)
    for column in numbers:
        table.add_column(column, justify="right")
    return table

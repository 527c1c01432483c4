"""A retention configuration as a table for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from powerbert.retention import RetentionConfiguration

RETAINED = "cyan"
ELIMINATED = "bright_black"
LEAST_BAR, BAR = 8, 40  # cells


@dataclass(frozen=True)
class Bar:
    """A share as full and shaded cells, as wide as there is room for.

    Shades fill it up to the end, so that the whole is seen and no line of a file ends in spaces.
    """

    share: float

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Ask for `BAR` cells, and make do with `LEAST_BAR`."""
        return Measurement(LEAST_BAR, BAR).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Round to cells, but never to none, nor to all where something is eliminated."""
        full, shaded = ("#", ".") if options.ascii_only else ("█", "░")
        width = min(options.max_width, BAR)
        cells = max(1, min(round(self.share * width), width - (self.share < 1)))
        yield Text.assemble((full * cells, RETAINED), (shaded * (width - cells), ELIMINATED))


def retention_table(retention: RetentionConfiguration) -> Table:
    """What each encoder retains: a share of the input's own length, or word-vectors of N.

    Consecutive encoders that retain the same share one row.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style=ELIMINATED)
    table.add_column("encoder", justify="right", no_wrap=True)
    table.add_column("retains", justify="right", no_wrap=True)
    table.add_column("of the input's own length" if retention.is_relative else f"of N={retention.max_length}")
    entries = enumerate(zip(retention.values, retention.fractions, strict=True), 1)
    for (value, share), run in groupby(entries, key=lambda entry: entry[1]):
        encoders = [j for j, _ in run]
        name = f"{encoders[0]}" if len(encoders) == 1 else f"{encoders[0]}-{encoders[-1]}"
        shown = f"{100 * share:.2f} %" if retention.is_relative else f"{value}"
        table.add_row(name, shown, Bar(share))
    return table

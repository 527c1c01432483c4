"""The learned retention parameters r as a picture: rank against encoder, and what each encoder retains.

Paper: Loss Function
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from powerbert.errors import RetentionError
from powerbert.report.style import BLUE, FONT, INK, MUTED, TRACK, new_figure, png
from powerbert.report.words import visible
from powerbert.retention import RetentionConfiguration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.text import Text

Rows = Sequence[Sequence[float]]

DEGREES = ("#fdfaf3", "#fde3b0", "#f6ac2a", "#c0690c", "#743700")  # r from 0 to 1, ever darker
MOST_TITLE = 200  # characters of a title that are looked at; fewer are shown where they do not fit

# Inches. Everything but the rows has a fixed size, so 6 and 24 encoders read alike.
WIDTH, TOP, BOTTOM, LEFT = 10.0, 1.2, 0.72, 0.75
RANKS_WIDTH, GAP, BARS_WIDTH = 5.9, 0.3, 1.3
ROW, MOST_ROWS_HEIGHT = 0.36, 40.0
DPI = 160


def retention_picture(parameters: Rows, retention: RetentionConfiguration, title: str) -> bytes:
    """Draw r, (L, N) for an absolute configuration or (L, bins) for a relative one; returns a PNG.

    Colour is r. The line is the length that each encoder retains, which the bars repeat beside the mass.
    The same input gives the same bytes.
    """
    _check(parameters, retention)
    degrees = _degrees(parameters, retention)
    rows = min(ROW * len(retention), MOST_ROWS_HEIGHT)
    height = TOP + rows + BOTTOM
    figure = new_figure(WIDTH, height, DPI)
    middle = (BOTTOM / height, rows / height)
    ranks = figure.add_axes((LEFT / WIDTH, middle[0], RANKS_WIDTH / WIDTH, middle[1]))
    left = (LEFT + RANKS_WIDTH + GAP) / WIDTH
    bars = figure.add_axes((left, middle[0], BARS_WIDTH / WIDTH, middle[1]), sharey=ranks)
    _draw_ranks(ranks, degrees, retention)
    _draw_bars(bars, degrees, retention)
    _draw_headings(figure, height, retention, title)
    _draw_legend(figure, height)
    return png(figure)


# ---- the figures -------------------------------------------------------------------------


def _check(parameters: Rows, retention: RetentionConfiguration) -> None:
    widths = {len(row) for row in parameters}
    if len(parameters) != len(retention) or len(widths) != 1 or 0 in widths:
        raise RetentionError(
            "the retention parameters do not fit the retention configuration",
            got=f"{len(parameters)} rows of {', '.join(map(str, sorted(widths))) or 'no'} values",
            rule=f"one row per encoder, {len(retention)} rows of one width",
        )
    if retention.max_length not in (None, *widths):
        raise RetentionError(
            "the retention parameters do not fit the retention configuration",
            got=f"{widths.pop()} values per encoder",
            rule=f"an absolute configuration has one value per rank, and N is {retention.max_length}",
        )
    for j, row in enumerate(parameters, 1):
        for value in row:
            if not 0 <= value <= 1:  # true for NaN
                raise RetentionError(
                    f"a retention parameter of encoder {j} is out of range", got=value, rule="r is in [0, 1]"
                )


def _degrees(parameters: Rows, retention: RetentionConfiguration) -> list[list[float]]:
    """Return r as soft-extract uses it: CLS, the first rank of an absolute configuration, is held at 1."""
    if retention.is_relative:
        return [list(row) for row in parameters]
    return [[1.0, *row[1:]] for row in parameters]


def _numbers(degrees: Rows, retention: RetentionConfiguration) -> list[tuple[str, str]]:
    """What each encoder retains, and its mass: shares of the real length, or word-vectors out of N."""
    masses = [math.fsum(row) for row in degrees]
    if retention.is_relative:
        shares = (mass / len(degrees[0]) for mass in masses)
        return [(_percent(part), _percent(share)) for part, share in zip(retention.fractions, shares, strict=True)]
    return [(str(count), f"{mass:.1f}") for count, mass in zip(retention.values, masses, strict=True)]


def _percent(share: float) -> str:
    """Write a share; what is little but not nothing, or nearly but not all, is told apart from 0 and 1."""
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


# ---- the panels --------------------------------------------------------------------------


def _draw_ranks(axes: Axes, degrees: Rows, retention: RetentionConfiguration) -> None:
    """Draw r in colour, and over it the line of retained lengths."""
    encoders, size = len(degrees), len(degrees[0])
    # A rank k covers k - 1/2 to k + 1/2, so that its number stands below its middle.
    first, last = (0.0, 100.0) if retention.is_relative else (0.5, size + 0.5)
    edges = [first + (last - first) * k / size for k in range(size + 1)]
    borders = [j + 0.5 for j in range(encoders + 1)]
    axes.pcolormesh(edges, borders, degrees, cmap=_colours(), vmin=0, vmax=1, rasterized=True)
    axes.hlines(borders[1:-1], first, last, colors="white", linewidth=1.6)
    ends = [first + (last - first) * part for part in retention.fractions]
    x = [end for end in ends for _ in range(2)]
    y = [border for j in range(encoders) for border in borders[j : j + 2]]
    for colour, width in (("white", 5.0), (BLUE, 2.4)):  # a white rim, so that it shows on any colour
        axes.plot(
            x, y, color=colour, linewidth=width, solid_joinstyle="miter", solid_capstyle="butt", clip_on=False, zorder=3
        )
    axes.set(xlim=(first, last), ylim=(borders[-1], borders[0]))  # encoder 1 on top
    axes.set_yticks(range(1, encoders + 1))
    axes.set_ylabel("encoder", fontfamily=FONT, fontsize=10, color=MUTED)
    name = "rank by significance score"
    if retention.is_relative:
        axes.set_xticks(range(0, 101, 20), [f"{tick} %" for tick in range(0, 101, 20)])
        name += ", as a share of the input's own length"
    else:
        axes.set_xticks(_rank_ticks(size))
        name += f" (1 is CLS, N = {size})"
    axes.set_xlabel(name, fontfamily=FONT, fontsize=10, color=MUTED, labelpad=7)
    axes.tick_params(length=0, pad=6, labelsize=10, labelcolor=INK, labelfontfamily=FONT)
    axes.spines[:].set_visible(False)


def _draw_bars(axes: Axes, degrees: Rows, retention: RetentionConfiguration) -> None:
    """Draw the retained share of each encoder as a bar, and both numbers beside it."""
    places = range(1, len(retention) + 1)
    axes.barh(places, [1.0] * len(retention), height=0.56, color=TRACK)
    axes.barh(places, retention.fractions, height=0.56, color=BLUE)
    axes.set_xlim(0, 1)
    axes.axis("off")
    for j, (retained, mass) in zip(places, _numbers(degrees, retention), strict=True):
        _text(axes, 1.46, j, retained, color=BLUE, weight="bold")
        _text(axes, 1.98, j, mass, color=MUTED)


def _text(axes: Axes, x: float, y: float, text: str, *, color: str, weight: str = "normal") -> None:
    axes.text(x, y, text, ha="right", va="center_baseline", family=FONT, size=10, color=color, weight=weight)


def _draw_headings(figure: Figure, height: float, retention: RetentionConfiguration, title: str) -> None:
    """Write the title, what is retained in all, and the heads of the bars' columns."""
    part = sum(retention.fractions) / len(retention)
    summary = f"Retention parameters r; over all encoders {_percent(part)} of the word-vectors are retained"
    start = LEFT / WIDTH
    name = figure.text(start, 1 - 0.38 / height, "", family=FONT, size=14, weight="bold", color=INK, parse_math=False)
    _fit(name, visible(title[:MOST_TITLE]) if title else "", (WIDTH - 2 * LEFT) * DPI)
    figure.text(start, 1 - 0.64 / height, summary, family=FONT, size=10, color=MUTED)
    left = LEFT + RANKS_WIDTH + GAP
    whole = "" if retention.is_relative else f" of {retention.max_length}"
    heads = ((1.46, f"retained{whole}", BLUE), (1.98, "mass", MUTED))
    for at, head, colour in heads:
        x = (left + at * BARS_WIDTH) / WIDTH
        figure.text(x, 1 - (TOP - 0.1) / height, head, family=FONT, size=10, color=colour, ha="right")


def _fit(text: Text, words: str, width: float) -> None:
    """Write as many of the words as fit into `width` pixels, and say where they were cut."""
    text.set_text(words)
    while words and text.get_window_extent().width > width:
        words = words[:-1]
        text.set_text(words + "…")


def _draw_legend(figure: Figure, height: float) -> None:
    """Say what colour and line mean, in a strip above the ranks."""
    place = (LEFT / WIDTH, 1 - (TOP - 0.1) / height, RANKS_WIDTH / WIDTH, 0.12 / height)
    strip = figure.add_axes(place)
    strip.axis("off")
    ramp = [[k / 255 for k in range(256)]]
    strip.imshow(ramp, cmap=_colours(), aspect="auto", extent=(1.14, 2.74, 0, 1))
    strip.set(xlim=(0, RANKS_WIDTH), ylim=(0, 1))  # inches from the left of the ranks
    strip.plot([4.36, 4.72], [0.5, 0.5], color=BLUE, linewidth=2.4)
    for x, words, side in (
        (0, "r:  eliminated 0", "left"),
        (2.81, "1 retained", "left"),
        (RANKS_WIDTH, "retained length", "right"),
    ):
        strip.text(x, 0, words, family=FONT, size=10, color=MUTED, ha=side)


def _colours() -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("degrees", DEGREES)


def _rank_ticks(size: int) -> list[int]:
    """Rank 1, N, and about eight round ranks between that leave room for N.

    >>> _rank_ticks(128)
    [1, 16, 32, 48, 64, 80, 96, 112, 128]
    """
    step = max(1, 2 ** round(math.log2(size / 8)))
    return sorted({1, *(rank for rank in range(step, size, step) if step < size - rank + step / 2), size})

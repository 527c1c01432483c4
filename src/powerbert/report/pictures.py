"""Pictures, drawn without a screen: the learned retention parameters r, and a benchmark.

Paper: Loss Function
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from powerbert.errors import RetentionError
from powerbert.report.style import BLUE, DEGREES, DPI, INK, MARKS, MUTED, PALE, TRACK, drawing, plain, png
from powerbert.report.words import visible
from powerbert.retention import RetentionConfiguration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

MOST_TITLE = 200  # characters of a title that are looked at; fewer are shown where they do not fit

# Inches. Everything but the rows has a fixed size, so 6 and 24 encoders read alike.
WIDTH, TOP, BOTTOM, LEFT = 10.0, 1.2, 0.72, 0.75
RANKS_WIDTH, GAP, BARS_WIDTH = 5.9, 0.3, 1.3
ROW, MOST_ROWS_HEIGHT = 0.36, 40.0
ABOVE = 0.1  # from the rows to what stands above them

COLOURS = {"eliminated": BLUE, "full": PALE, "truncated": "#e3a857"}
MOST_ARMS = 40  # that are drawn, the fastest; all of them are in the table and the JSON


def retention_picture(parameters: Sequence[Sequence[float]], retention: RetentionConfiguration, title: str) -> bytes:
    """Draw r, (L, N) for an absolute configuration or (L, bins) for a relative one; returns a PNG.

    Rank against encoder: colour is r. The line is the length that each encoder retains, which the bars
    repeat beside the mass. The same input gives the same bytes.
    """
    _check(parameters, retention)
    # As soft-extract uses r: CLS, the first rank of an absolute configuration, is held at 1.
    degrees = [list(row) if retention.is_relative else [1.0, *row[1:]] for row in parameters]
    rows = min(ROW * len(retention), MOST_ROWS_HEIGHT)
    height = TOP + rows + BOTTOM
    with drawing(WIDTH, height) as figure:
        right = LEFT + RANKS_WIDTH + GAP + BARS_WIDTH
        ranks, bars = figure.subplots(1, 2, sharey=True, width_ratios=(RANKS_WIDTH, BARS_WIDTH))
        figure.subplots_adjust(
            LEFT / WIDTH, BOTTOM / height, right / WIDTH, 1 - TOP / height, wspace=2 * GAP / (RANKS_WIDTH + BARS_WIDTH)
        )
        mesh = _draw_ranks(ranks, degrees, retention)
        _draw_bars(bars, rows, degrees, retention)
        _draw_head(ranks, rows, mesh, retention, title)
        return png(figure)


def _check(parameters: Sequence[Sequence[float]], retention: RetentionConfiguration) -> None:
    widths, what = {len(row) for row in parameters}, "the retention parameters do not fit the retention configuration"
    if len(parameters) != len(retention) or len(widths) != 1 or 0 in widths:
        got = f"{len(parameters)} rows of {', '.join(map(str, sorted(widths))) or 'no'} values"
        raise RetentionError(what, got=got, rule=f"one row per encoder, {len(retention)} rows of one width")
    if retention.max_length not in (None, *widths):
        rule = f"an absolute configuration has one value per rank, and N is {retention.max_length}"
        raise RetentionError(what, got=f"{widths.pop()} values per encoder", rule=rule)
    for j, row in enumerate(parameters, 1):
        if wrong := [value for value in row if not 0 <= value <= 1]:  # true for NaN
            what = f"a retention parameter of encoder {j} is out of range"
            raise RetentionError(what, got=wrong[0], rule="r is in [0, 1]")


def _draw_ranks(axes: Axes, degrees: list[list[float]], retention: RetentionConfiguration) -> QuadMesh:
    """Draw r in colour, and over it the line of retained lengths."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patheffects import withStroke

    encoders, size = len(degrees), len(degrees[0])
    # A rank k covers k - 1/2 to k + 1/2, so that its number stands below its middle.
    first, last = (0.0, 100.0) if retention.is_relative else (0.5, size + 0.5)
    edges = [first + (last - first) * k / size for k in range(size + 1)]
    borders = [j + 0.5 for j in range(encoders + 1)]
    colours = LinearSegmentedColormap.from_list("degrees", DEGREES)
    mesh = axes.pcolormesh(edges, borders, degrees, cmap=colours, vmin=0, vmax=1, rasterized=True)
    axes.hlines(borders[1:-1], first, last, colors="white", linewidth=1.6)
    ends = [first + (last - first) * part for part in retention.fractions]
    rim = withStroke(linewidth=5, foreground="white")  # so that the line shows on any colour
    line = axes.stairs(ends, borders, orientation="horizontal", baseline=None, color=BLUE, linewidth=2.4)
    line.set(label="retained length", path_effects=[rim], clip_on=False, zorder=3)
    axes.set(xlim=(first, last), ylim=(borders[-1], borders[0]), yticks=range(1, encoders + 1))  # encoder 1 on top
    axes.set_ylabel("encoder", color=MUTED)
    axes.set_xticks(range(0, 101, 20) if retention.is_relative else _rank_ticks(size))
    axes.xaxis.set_major_formatter("{x:g} %" if retention.is_relative else "{x:g}")
    unit = ", as a share of the input's own length" if retention.is_relative else f" (1 is CLS, N = {size})"
    axes.set_xlabel(f"rank by significance score{unit}", color=MUTED, labelpad=7)
    axes.tick_params(length=0, pad=6, labelcolor=INK)
    axes.spines[:].set_visible(False)
    return mesh


def _draw_bars(axes: Axes, rows: float, degrees: list[list[float]], retention: RetentionConfiguration) -> None:
    """Draw the retained share of each encoder as a bar, and both numbers beside it."""
    places = range(1, len(retention) + 1)
    axes.barh(places, 1.0, height=0.56, color=TRACK)
    axes.barh(places, retention.fractions, height=0.56, color=BLUE)
    axes.set_xlim(0, 1)
    axes.axis("off")
    whole = "" if retention.is_relative else f" of {retention.max_length}"
    _above(axes, rows, ABOVE, f"retained{whole}", x=1.46, ha="right", color=BLUE)
    _above(axes, rows, ABOVE, "mass", x=1.98, ha="right", color=MUTED)
    for j, (retained, mass) in zip(places, _numbers(degrees, retention), strict=True):
        axes.text(1.46, j, retained, ha="right", va="center_baseline", color=BLUE, weight="bold")
        axes.text(1.98, j, mass, ha="right", va="center_baseline", color=MUTED)


def _draw_head(axes: Axes, rows: float, mesh: QuadMesh, retention: RetentionConfiguration, title: str) -> None:
    """Above the ranks: what colour and line mean, what is retained in all, and as much of the title as fits."""
    strip = axes.inset_axes((0.193, 1 + ABOVE / rows, 0.271, 0.12 / rows))
    axes.figure.colorbar(mesh, cax=strip, orientation="horizontal", ticks=[]).outline.set_visible(False)
    strip.text(-0.06, 0, "r:  eliminated 0", ha="right", color=MUTED, transform=strip.transAxes)
    strip.text(1.05, 0, "1 retained", color=MUTED, transform=strip.transAxes)
    corner, close = (1, 1 + (ABOVE - 0.03) / rows), {"borderpad": 0, "borderaxespad": 0, "frameon": False}
    axes.legend(loc="lower right", bbox_to_anchor=corner, handlelength=2.6, labelcolor=MUTED, **close)
    part = sum(retention.fractions) / len(retention)
    summary = f"Retention parameters r; over all encoders {_percent(part)} of the word-vectors are retained"
    _above(axes, rows, TOP - 0.64, summary, color=MUTED)
    words = visible(title[:MOST_TITLE]) if title else ""
    name = _above(axes, rows, TOP - 0.38, words, size=14, weight="bold", color=INK)
    while words and name.get_window_extent().width > (WIDTH - 2 * LEFT) * DPI:
        words = words[:-1]
        name.set_text(words + "…")


def _above(axes: Axes, rows: float, inches: float, words: str, x: float = 0, **style: Any) -> Text:
    """Write above axes of so many inches."""
    return axes.text(x, 1 + inches / rows, words, transform=axes.transAxes, **style)


def _numbers(degrees: Sequence[Sequence[float]], retention: RetentionConfiguration) -> list[tuple[str, str]]:
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
    return ">99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def _rank_ticks(size: int) -> list[int]:
    """Rank 1, N, and about eight round ranks between that leave room for N.

    >>> _rank_ticks(128)
    [1, 16, 32, 48, 64, 80, 96, 112, 128]
    """
    step = max(1, 2 ** round(math.log2(size / 8)))
    return sorted({1, *(rank for rank in range(step, size, step) if step < size - rank + step / 2), size})


def bench_picture(figures: dict[str, Any]) -> bytes:
    """Draw the figures of `bench`, every arm and the cost against length and batch size if measured; returns a PNG."""
    arms = sorted(figures["arms"], key=lambda arm: -float(arm["inputs_per_second"]))[:MOST_ARMS]
    curves = [(name, figures[name]) for name in ("by_length", "by_batch") if name in figures]
    heights = [0.24 * len(arms) + 1, 3.6][: 1 + bool(curves)]
    with drawing(10, 0.4 + sum(heights), dpi=140, layout="constrained") as figure:
        grid = figure.add_gridspec(len(heights), 2, height_ratios=heights)
        _bars(figure.add_subplot(grid[0, :]), arms, figures)
        for column, (name, points) in enumerate(curves):
            marks = _curve(figure.add_subplot(grid[1, column]), name.removeprefix("by_"), points)
            if column == 0:  # both have the same engines
                figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=8)
        for axes in figure.axes:
            plain(axes)
        return png(figure)


def _bars(axes: Axes, arms: list[dict[str, Any]], figures: dict[str, Any]) -> None:
    """Inputs per second, the fastest on top."""
    for model, colour in COLOURS.items():
        own = {at: float(arm["inputs_per_second"]) for at, arm in enumerate(arms) if arm["model"] == model}
        if own:
            bars = axes.barh(list(own), list(own.values()), color=colour, height=0.72, label=model)
            axes.bar_label(bars, [f" {rate:,.0f}" for rate in own.values()], fontsize=8, color=MUTED)
    names = [f"{arm['engine']} {arm['precision']}, {arm['feed']}, batch {arm['batch']}" for arm in arms]
    axes.set_yticks(range(len(arms)), names)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    title = f"Inputs per second: {figures['texts']} texts of {figures['mean_length']:.0f} words on average"
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    if figures["warning"]:
        axes.set_xlabel(figures["warning"], loc="left", fontsize=8, color=MUTED)


def _curve(axes: Axes, dial: str, points: list[dict[str, Any]]) -> list[Line2D]:
    """Milliseconds per input against length or batch size, axes logarithmic; returns the engines' marks."""
    from matplotlib.lines import Line2D

    lines: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for point in points:
        of_engine = lines.setdefault((point["engine"], point["precision"]), {})
        of_engine.setdefault(point["model"], {})[int(point[dial])] = float(point["ms_per_input"])
    marks = []
    for mark, ((engine, precision), models) in zip(MARKS * len(lines), lines.items(), strict=False):
        for model, line in models.items():
            axes.plot(list(line), list(line.values()), marker=mark, markersize=4, color=COLOURS[model])
        marks.append(Line2D([], [], color=MUTED, marker=mark, markersize=4, label=f"{engine} {precision}"))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_xticks(sorted({int(point[dial]) for point in points}))
    axes.xaxis.set_major_formatter("{x:g}")
    by_length = dial == "length"
    axes.set_xlabel("words of an input" if by_length else "inputs in a batch", color=MUTED)
    fixed = f"in batches of {points[0]['batch']}" if by_length else f"of {points[0]['length']} words"
    axes.set_title(f"Milliseconds per input, {fixed}", loc="left", fontsize=10, color=INK)
    return marks

"""A benchmark as a picture: every arm, and the cost against length and batch size where it was measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from powerbert.report.style import BLUE, INK, MUTED, new_figure, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

COLOURS = {"eliminated": BLUE, "full": "#b9b2a3", "truncated": "#e3a857"}
MARKS = "osD^vP*X"
MOST_ARMS = 40
"""Arms that are drawn, the fastest; all of them are in the table and the JSON."""


def bench_picture(figures: dict[str, Any]) -> bytes:
    """Draw the figures of `bench`; returns a PNG."""
    arms = sorted(figures["arms"], key=lambda arm: -float(arm["inputs_per_second"]))[:MOST_ARMS]
    curves = [(name, figures[name]) for name in ("by_length", "by_batch") if name in figures]
    height = 1.4 + 0.24 * len(arms) + (3.6 if curves else 0)
    figure = new_figure(10, height, dpi=140, layout="constrained")
    grid = figure.add_gridspec(2 if curves else 1, 2, height_ratios=[0.24 * len(arms) + 1, 3.6][: 1 + bool(curves)])
    _bars(figure.add_subplot(grid[0, :]), arms, figures)
    for column, (name, points) in enumerate(curves):
        marks = _curve(figure.add_subplot(grid[1, column]), name.removeprefix("by_"), points)
        if column == 0:  # both have the same engines
            figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=8)
    return png(figure)


def _bars(axes: Axes, arms: list[dict[str, Any]], figures: dict[str, Any]) -> None:
    """Inputs per second, the fastest on top."""
    names = [f"{arm['engine']} {arm['precision']}, {arm['feed']}, batch {arm['batch']}" for arm in arms]
    rates = [float(arm["inputs_per_second"]) for arm in arms]
    axes.barh(range(len(arms)), rates, color=[COLOURS[arm["model"]] for arm in arms], height=0.72)
    axes.set_yticks(range(len(arms)), names, fontsize=8, color=INK)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    for at, rate in enumerate(rates):
        axes.text(rate, at, f" {rate:,.0f}", va="center", fontsize=8, color=MUTED)
    for model, colour in COLOURS.items():
        if any(arm["model"] == model for arm in arms):
            axes.barh([0], [0], color=colour, label=model)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    axes.set_title(
        f"Inputs per second: {figures['texts']} texts of {figures['mean_length']:.0f} words on average",
        loc="left",
        fontsize=11,
        color=INK,
    )
    if figures["warning"]:
        axes.set_xlabel(figures["warning"], loc="left", fontsize=8, color=MUTED)
    _clean(axes)


def _curve(axes: Axes, dial: str, points: list[dict[str, Any]]) -> list[Line2D]:
    """Milliseconds per input against length or batch size, axes logarithmic; returns the engines' marks."""
    from matplotlib.lines import Line2D

    pairs = dict.fromkeys((point["engine"], point["precision"]) for point in points)
    marks = []
    for mark, (engine, precision) in zip(MARKS * len(pairs), pairs, strict=False):
        for model in ("full", "eliminated"):
            line = list(_line(points, engine, precision, model, dial))
            if line:
                axes.plot(*zip(*line, strict=True), marker=mark, markersize=4, color=COLOURS[model])
        marks.append(Line2D([], [], color=MUTED, marker=mark, markersize=4, label=f"{engine} {precision}"))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    values = sorted({int(point[dial]) for point in points})
    axes.set_xticks(values, [str(value) for value in values])
    of, fixed = {
        "length": ("words of an input", f"in batches of {points[0]['batch']}"),
        "batch": ("inputs in a batch", f"of {points[0]['length']} words"),
    }[dial]
    axes.set_xlabel(of, color=MUTED)
    axes.set_title(f"Milliseconds per input, {fixed}", loc="left", fontsize=10, color=INK)
    _clean(axes)
    return marks


def _line(
    points: list[dict[str, Any]], engine: str, precision: str, model: str, dial: str
) -> Iterable[tuple[int, float]]:
    for point in points:
        if (point["engine"], point["precision"], point["model"]) == (engine, precision, model):
            yield int(point[dial]), float(point["ms_per_input"])


def _clean(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=MUTED, labelsize=8)

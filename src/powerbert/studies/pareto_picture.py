"""The picture of `pareto`: metric against time, a panel for each precision, bands over the seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from powerbert.report.style import BLUE, INK, LARGE, MARKS, MUTED, SMALL, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL, HEIGHT, LEGEND = 5.2, 4.6, 2.4  # inches
COLOURS_OF_METHODS = (
    BLUE,
    "#56b4e9",
    "#d55e00",
    "#e69f00",
    "#009e73",
    "#66a61e",
    "#cc79a7",
    "#6a6353",
    "#999933",
    "#882255",
)
"""Told apart by the colour-blind, as far as ten can be; each baseline has a mark of its own as well."""
_MARKS = MARKS[1:] + "<>"


def pareto_size(figures: dict[str, Any]) -> tuple[float, float]:
    """Inches of the picture."""
    return PANEL * len({_where(point) for point in figures["points"]}) + LEGEND, HEIGHT


def draw_pareto(figure: Figure, figures: dict[str, Any]) -> None:
    """A panel for each engine and precision, with one legend for all."""
    places = list(dict.fromkeys(map(_where, figures["points"])))
    methods = list(dict.fromkeys(point["method"] for point in figures["points"]))
    panels = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
    for axes, place in zip(panels, places, strict=True):
        points = [point for point in figures["points"] if _where(point) == place]
        for number, method in enumerate(methods):
            own = sorted((one for one in points if one["method"] == method), key=lambda one: float(one["ms"]))
            _curve_of(axes, method, own, number)
        axes.set_title(place, loc="left", fontsize=LARGE, color=INK)
        axes.set_xlabel("milliseconds per input", color=MUTED)
        axes.set_xlim(left=0)
        plain(axes)
    panels[0].set_ylabel(f"{figures['task']}: {figures['metric']} x 100", color=MUTED)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=SMALL)


def _where(point: dict[str, Any]) -> str:
    return f"{point['precision']}, {point['engine']}"


def _curve_of(axes: Axes, method: str, points: list[dict[str, Any]], number: int) -> None:
    """A line through the means of a method, and a band from the least to the best of its seeds.

    The first of all is the fine-tuned model: a cross, and a dotted line at its metric, as in the paper.
    """
    times, means = ([factor * float(one[name]) for one in points] for name, factor in (("ms", 1), ("mean", 100)))
    if number == 0:
        axes.axhline(means[0], color=MUTED, linestyle=":", linewidth=1)
        axes.plot(times, means, "x", color=INK, markersize=9, markeredgewidth=2, label=method)
        return
    ours, colour = method.startswith("PoWER-BERT"), COLOURS_OF_METHODS[(number - 1) % len(COLOURS_OF_METHODS)]
    low, high = ([100 * edge(one["values"]) for one in points] for edge in (min, max))
    size, width, mark = (6, 2.4, MARKS[0]) if ours else (5, 1.2, _MARKS[number % len(_MARKS)])
    axes.plot(times, means, color=colour, marker=mark, markersize=size, linewidth=width, label=method)
    axes.fill_between(times, low, high, color=colour, alpha=0.12, linewidth=0)

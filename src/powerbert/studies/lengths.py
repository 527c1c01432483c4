"""The paper's N of a set, how long its inputs really are, and what leaving out PAD alone gives.

Paper: Maximum Input Sequence Length
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy
from rich.table import Table

from powerbert.modeling.apply import base_of
from powerbert.modeling.families import family_of
from powerbert.report.style import AMBER, BLUE, INK, RUST, TRACK, label, legend
from powerbert.report.tables import plain_table
from powerbert.studies.study import StudyOutcome, Subject
from powerbert.tasks.encoding import LENGTHS, choose_max_length, covering_length, measure_lengths

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLOSE, FEW = 0.75, 0.1  # an input is close to N from this share of it on; fewer than this share of all are few
_BARS = 64


def study_lengths(subject: Subject) -> StudyOutcome:
    """Measure the word-vectors of each input, cut to 512, and apply the rule."""
    found = measure_lengths(subject.split, subject.task, subject.tokenizer, seed=subject.seed)
    base = base_of(subject.model)
    figures = length_figures(found, family_of(base).longest(base.config), subject.task.max_length)
    paper, rule = figures["paper_n"], figures["n"]
    agrees = figures["close"] < FEW and paper in (None, rule)
    seen = f"N is {rule} by the rule" + ("" if paper is None else f" and {paper} in the paper")
    seen += f"; {100 * figures['close']:.1f} % of the inputs have {CLOSE * (paper or rule):.0f} word-vectors or more; "
    seen += "in the paper few are close to N"
    return StudyOutcome(figures, agrees, seen, _table(figures), lambda figure: _draw(figure, figures))


def length_figures(lengths: Sequence[int], limit: int, paper: int | None) -> dict[str, Any]:
    """The rule and the statistics.

    limit: the longest input of the model. paper: N of the paper for this task, of which the gain is then told.
    """
    found, rule = numpy.asarray(lengths), choose_max_length(lengths, limit)
    longest = paper or rule
    percentiles = numpy.percentile(found, (50, 90, 99), method="inverted_cdf").astype(int).tolist()
    cut = numpy.minimum(found, longest)
    return {
        "inputs": len(found),
        "mean": float(found.mean()),
        "deviation": float(found.std()),
        "shortest": int(found.min()),
        "longest": int(found.max()),
        "percentiles": dict(zip(("50", "90", "99"), percentiles, strict=True)),
        "covering": covering_length(lengths),
        "n": rule,
        "paper_n": paper,
        "longer": float((found > longest).mean()),
        "close": float((found >= CLOSE * longest).mean()),
        "without_pad": float(longest / cut.mean()),
        "counts": numpy.bincount(found).tolist(),
    }


def _table(figures: dict[str, Any]) -> Table:
    table = plain_table(f"word-vectors of {figures['inputs']:,} inputs", [""], [""], show_header=False, padding=(0, 1))
    for name in ("mean", "deviation"):
        table.add_row(name, f"{figures[name]:.1f}")
    table.add_row("shortest, longest", f"{figures['shortest']}, {figures['longest']}")
    table.add_row("median, 90 %, 99 %", ", ".join(map(str, figures["percentiles"].values())))
    table.add_row("N': at most 1 % are longer", str(figures["covering"]))
    table.add_row(f"N by the rule, of {', '.join(map(str, LENGTHS))}", str(figures["n"]))
    if figures["paper_n"] is not None:
        table.add_row("N in the paper", str(figures["paper_n"]))
    table.add_row("longer than N", f"{100 * figures['longer']:.1f} %")
    table.add_row("leaving out PAD alone: N / mean of what is read", f"{figures['without_pad']:.2f}x")
    return table


def _draw(figure: Figure, figures: dict[str, Any]) -> None:
    """Draw how many inputs have each length, and where N stands: what is right of the bars is PAD."""
    axes, counts = figure.add_subplot(), figures["counts"]
    longest = figures["paper_n"] or figures["n"]
    right = max(longest, figures["covering"])
    step = max(1, round(right / _BARS))
    heights = [100 * sum(counts[at : at + step]) / figures["inputs"] for at in range(0, len(counts), step)]
    axes.bar([at * step for at in range(len(heights))], heights, width=0.9 * step, align="edge", color=BLUE)
    lines = {f"mean {figures['mean']:.1f}": (figures["mean"], AMBER, "-"), f"N = {longest}": (longest, RUST, "-")}
    lines[f"N' = {figures['covering']}: at most 1 % are longer"] = (figures["covering"], INK, "--")
    for name, (place, colour, dashes) in sorted(lines.items(), key=lambda line: line[1][0]):
        axes.axvline(place, color=colour, linestyle=dashes, linewidth=2, label=name)
    axes.set_xlim(0, 1.04 * right)
    axes.grid(axis="y", color=TRACK)
    axes.set_axisbelow(True)
    legend(figure)
    title = f"{figures['without_pad']:.1f} times fewer word-vectors without PAD"
    upwards = "inputs (%)" if step == 1 else f"inputs (% in steps of {step})"
    label(axes, title, "word-vectors of an input", upwards)

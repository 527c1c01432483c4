"""How well a model answers when its head reads another position in the place of CLS, without any training for it.

Paper: Motivation

Positions are relative, in tenths of an input's own length, so that every input has all of them and PAD none.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

import numpy
import torch
from numpy.typing import NDArray
from rich.table import Table
from torch import Tensor

from powerbert.elimination.extract import extract
from powerbert.modeling.apply import base_of
from powerbert.modeling.forward import run
from powerbert.modeling.reading import read_head
from powerbert.report.style import BLUE, RUST, TRACK, label, legend
from powerbert.report.tables import plain_table
from powerbert.studies.study import StudyOutcome, Subject
from powerbert.tasks.metrics import bootstrap_interval, metric
from powerbert.training.data import answers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = 10  # relative positions beside CLS; the last one is the last word-vector
MINIMAL = 2.0  # points: a mean drop up to here is called small
PAPERS_DROP: dict[str, Any] = {"task": "SST-2", "metric": "accuracy", "cls": 92.43, "mean_drop": 1.2, "deviation": 0.23}


def study_cls_position(subject: Subject) -> StudyOutcome:
    """The task's metric at each position, and the mean drop over all but CLS."""
    subject.check_cls()
    labels, score = subject.labels, metric(subject.task.metric)
    said = answers_by_position(subject).T
    found = [100 * score(each, labels) for each in said]
    figures: dict[str, Any] = {"inputs": len(labels), "metric": subject.task.metric, "cls": found[0]}
    figures["positions"] = {str(100 * part // PARTS): value for part, value in enumerate(found) if part}
    figures["cls_interval"] = [100 * end for end in bootstrap_interval(subject.task.metric, said[0], labels, seed=0)]
    drops = [found[0] - value for value in found[1:]]
    figures |= {"mean_drop": fmean(drops), "deviation": pstdev(drops), "paper": PAPERS_DROP}
    agrees = figures["mean_drop"] <= MINIMAL
    seen = "mean drop {mean_drop:.2f} points, deviation {deviation:.2f}, of {cls:.1f}; the paper's ".format(**figures)
    seen += "{mean_drop:.2f}, deviation {deviation:.2f}, of {cls:.1f}".format(**PAPERS_DROP)
    return StudyOutcome(figures, agrees, seen, _table(figures), lambda figure: _draw(figure, figures))


@torch.no_grad()
def answers_by_position(subject: Subject) -> NDArray[Any]:
    """What the head says, reading CLS and then each relative position: (inputs, 1 + parts)."""
    base, found = base_of(subject.model), numpy.empty((len(subject.rows), 1 + PARTS))
    every_row = replace(subject.full, cls_only=False)  # or the last encoder would compute CLS alone
    with subject.watching(len(subject.rows), "inputs") as done:
        for numbers, batch in subject.batches():
            arranged, final, _ = run(base, every_row, batch)
            rows = extract(final, relative_positions(arranged.lengths)).flatten(0, 1)
            said = answers(read_head(subject.model, rows).numpy(), subject.task)
            found[numbers] = said.reshape(len(numbers), -1)
            done(len(numbers))
    return found


def relative_positions(lengths: Tensor) -> Tensor:
    """CLS, then the positions at each tenth of the other n - 1, rounded up: (batch,) -> (batch, 1 + parts)."""
    parts = torch.arange(PARTS + 1, device=lengths.device)
    return -(-parts * (lengths[:, None] - 1) // PARTS)


def _table(figures: dict[str, Any]) -> Table:
    title = f"read from another position than CLS, {figures['inputs']:,} inputs"
    table = plain_table(title, ["position"], [figures["metric"], "drop (points)"], padding=(0, 1))
    table.add_row("CLS", f"{figures['cls']:.2f}", "")
    for place, value in figures["positions"].items():
        table.add_row(f"at {place} % of the input", f"{value:.2f}", f"{figures['cls'] - value:.2f}")
    table.add_row("mean of these", "", f"{figures['mean_drop']:.2f} ± {figures['deviation']:.2f}")
    return table


def _draw(figure: Figure, figures: dict[str, Any]) -> None:
    """Draw the metric at each position, beside that of CLS."""
    axes, values = figure.add_subplot(), [*figures["positions"].values()]
    places = [int(place) for place in figures["positions"]]
    axes.plot(places, values, color=BLUE, marker="o", label="read from this position")
    axes.axhline(figures["cls"], color=RUST, linewidth=1.6, label="read from CLS")
    axes.axhspan(*figures["cls_interval"], color=TRACK, zorder=0, label="95 % interval of CLS")
    axes.set_xticks(places)
    axes.xaxis.set_major_formatter("{x:g} %")
    axes.grid(axis="y", color=TRACK)
    legend(figure)
    title = (
        f"Read from other positions than CLS: mean drop {figures['mean_drop']:.2f} ± {figures['deviation']:.2f} points"
    )
    label(
        axes, title, "relative position in the input", f"{figures['metric']} of {figures['inputs']:,} inputs (points)"
    )

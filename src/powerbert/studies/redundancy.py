"""How alike the word-vectors of each encoder are: the mean cosine similarity of all pairs of an input.

Paper: Diffusion of Information
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
import torch
from numpy.typing import NDArray
from rich.table import Table
from torch import Tensor
from torch.nn.functional import normalize

from powerbert.modeling.apply import base_of
from powerbert.report.style import AMBER, BLUE, SMALL, TRACK, label
from powerbert.report.tables import ShareBar, plain_table
from powerbert.studies.study import CLEAR, StudyOutcome, Subject, trend

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def study_redundancy(subject: Subject) -> StudyOutcome:
    """Mean and deviation over the inputs, for each encoder."""
    found = measured_similarities(subject)
    mean, deviation = found.mean(axis=0), found.std(axis=0)
    figures: dict[str, Any] = {"inputs": len(found), "embeddings": float(mean[0])}
    figures["similarity"], figures["deviation"] = mean[1:].tolist(), deviation[1:].tolist()
    values = figures["similarity"]
    figures["trend"] = trend(values)
    agrees = figures["trend"] >= CLEAR and values[-1] > values[0]
    seen = f"similarity {values[0]:.2f} at encoder 1, {values[-1]:.2f} at encoder {len(values)}, rank correlation with "
    seen += f"the encoder {figures['trend']:.2f}; the paper's rises with the encoder"
    return StudyOutcome(figures, agrees, seen, _table(figures), lambda figure: _draw(figure, figures))


@torch.no_grad()
def measured_similarities(subject: Subject) -> NDArray[Any]:
    """Of each input, after the embeddings and after each encoder: (inputs, L + 1)."""
    base, found = base_of(subject.model), numpy.empty((len(subject.rows), subject.encoders + 1))
    with subject.watching(len(subject.rows), "inputs") as done:
        for numbers, batch in subject.batches():
            real = batch["attention_mask"].bool()
            states = base(**batch, output_hidden_states=True).hidden_states
            found[numbers] = torch.stack([pair_similarity(each, real) for each in states], dim=1).numpy()
            done(len(numbers))
    return found


def pair_similarity(states: Tensor, real: Tensor) -> Tensor:
    """Mean cosine over all pairs of an input's real word-vectors.

    states: (batch, length, hidden); real: (batch, length) bool, at least two in each input. Returns (batch,).
    """
    # The pairs of n unit vectors sum up to (|sum|^2 - n) / 2: no pair is ever formed.
    unit = normalize(states.double(), dim=-1).masked_fill(~real[..., None], 0)
    length = real.sum(dim=1)
    return (unit.sum(dim=1).square().sum(dim=1) - length) / (length * (length - 1))


def _table(figures: dict[str, Any]) -> Table:
    title = f"cosine similarity of word-vectors, {figures['inputs']:,} inputs, PAD left out"
    table = plain_table(title, [], ["encoder", "mean", "deviation"], [""], padding=(0, 1))
    for j, (mean, deviation) in enumerate(zip(figures["similarity"], figures["deviation"], strict=True), 1):
        table.add_row(str(j), f"{mean:.3f}", f"{deviation:.3f}", ShareBar(max(0.0, mean)))
    return table


def _draw(figure: Figure, figures: dict[str, Any]) -> None:
    """Draw the paper's bars, and how far inputs differ."""
    axes, values = figure.add_subplot(), figures["similarity"]
    places = range(1, len(values) + 1)
    spread = {"ecolor": AMBER, "elinewidth": 1.6, "capsize": 3, "capthick": 1.6}
    axes.bar(places, values, color=BLUE, width=0.74, yerr=figures["deviation"], error_kw=spread)
    for j, value in zip(places, values, strict=True):  # at the foot, where no whisker is
        axes.text(j, 0.02, f"{value:.2f}", ha="center", fontsize=SMALL, color="white")
    axes.set(xticks=places, ylim=(min(0.0, *values), 1.0))
    axes.grid(axis="y", color=TRACK)
    axes.set_axisbelow(True)
    title = f"Word-vectors grow alike: {figures['inputs']:,} inputs" if values[-1] > values[0] else "Similarity"
    label(axes, title, "encoder", "cosine similarity, mean of all pairs (± deviation)")

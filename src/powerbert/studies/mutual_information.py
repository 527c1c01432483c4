"""What eliminating one word-vector does to the answers: mutual information with and without it.

Paper: Validation of the Scoring Function

An encoder that eliminates a word-vector changes nothing in the others before its end: the feed-forward network works
row by row. So the full model runs once, encoder j's output loses a row, and only the encoders after j run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
import torch
from numpy.typing import NDArray
from rich.table import Table
from torch import Tensor
from typing_extensions import override

from powerbert.elimination.extract import extract
from powerbert.elimination.selection import order
from powerbert.errors import DataError, PowerBertError
from powerbert.modeling import ops
from powerbert.modeling.apply import base_of
from powerbert.modeling.encoder import Encoder
from powerbert.modeling.forward import run
from powerbert.modeling.layout import Padded, Words
from powerbert.modeling.reading import read_head
from powerbert.modeling.retain import PapersOrder
from powerbert.report.style import INK, MARKS, PALE, SERIES, TRACK, label, legend
from powerbert.report.tables import plain_table
from powerbert.studies.study import CLEAR, StudyOutcome, Subject, trend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANKS = 16
_SHOWN = 5  # ranks of the table
_FRONT = (0.0, 1 / 6, 5 / 12, 2 / 3)  # of the encoders: 1, 3, 6 and 9 of 12, which the paper's figure has


def study_mutual_information(subject: Subject, ranks: int = RANKS, encoders: Sequence[int] = ()) -> StudyOutcome:
    """MI of the answers with and without the k-th most significant word-vector at encoder j, for k = 1..ranks.

    Inputs have all those ranks beside CLS, or they are left out. encoders: by default all.
    """
    encoders = _checked(subject, ranks, encoders)
    chosen = [i for i, row in enumerate(subject.rows) if len(row["input_ids"]) > ranks]
    if not chosen:
        got = f"the longest of {len(subject.rows):,} inputs has {max(len(row['input_ids']) for row in subject.rows)}"
        rule = f"an input has {ranks} word-vectors beside CLS"
        raise DataError("no input is long enough", got=got, rule=rule, remedy="give a smaller --ranks")
    before = full_answers(subject, chosen)
    entropy = mutual_information(before, before)
    if not entropy:  # known before what takes long
        got = f"{subject.label_name(before[0])} for all {len(chosen):,} inputs"
        raise DataError("the model answers one label", got=got, rule="an answer that never changes tells nothing")
    after = answers_without(subject, chosen, ranks, encoders)
    figures: dict[str, Any] = {"inputs": len(chosen), "ranks": ranks, "entropy": entropy}
    figures["information"] = {
        str(j): [mutual_information(before, said) for said in per_rank]
        for j, per_rank in zip(encoders, after, strict=True)
    }
    agrees, seen = _finding(figures, subject.encoders)
    return StudyOutcome(figures, agrees, seen, _table(figures), lambda figure: _draw(figure, figures))


def _checked(subject: Subject, ranks: int, encoders: Sequence[int]) -> Sequence[int]:
    """The encoders that are studied; refuses what is out of range."""
    subject.check_cls()
    if subject.task.kind == "regression":
        what, rule = "mutual information is of labels", "the study needs classes"
        raise DataError(what, got="a regression", rule=rule)
    if not 2 <= ranks < subject.longest:
        rule = f"from 2 to {subject.longest - 1}, for N is {subject.longest} and CLS is never eliminated"
        raise PowerBertError("--ranks is out of range", got=ranks, rule=rule)
    for j in encoders:
        if not 1 <= j <= subject.encoders:
            raise PowerBertError("there is no such encoder", got=j, rule=f"encoders are 1 to {subject.encoders}")
    asked = sorted(set(encoders)) or range(1, subject.encoders + 1)
    if sum(j < subject.encoders for j in asked) < 2:
        rule = f"a trend needs two, and encoder {subject.encoders}, the last, changes nothing that the head reads"
        raise PowerBertError("there are too few encoders", got=[*asked], rule=rule)
    return asked


def mutual_information(first: NDArray[Any], second: NDArray[Any]) -> float:
    """MI(X; Y) of two lists of labels, in nats; of a list with itself it is its entropy."""
    (left, x), (right, y) = (numpy.unique(side, return_inverse=True) for side in (first, second))
    joint = numpy.bincount(x * len(right) + y, minlength=len(left) * len(right)).reshape(len(left), -1) / len(x)
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    there = joint > 0
    return max(0.0, float((joint[there] * numpy.log(joint[there] / apart[there])).sum()))


@dataclass(frozen=True)
class WithScores(PapersOrder):
    """Eliminate nothing, and remember the scores of every encoder."""

    scores_of: list[Tensor] = field(default_factory=list)  # (batch, length) each

    @override
    def late(self, j: int, words: Words, scores: Tensor | None) -> Words:
        assert scores is not None  # every row is computed
        self.scores_of.append(scores)
        return words


class FullPass(NamedTuple):
    """A batch through the full model."""

    states: list[Tensor]  # after the embeddings and after each encoder: (batch, length, hidden)
    orders: list[Tensor]  # of each encoder, rows from most to least significant, CLS first: (batch, length)
    lengths: Tensor  # (batch,) real rows
    context: Any  # what the family knows of positions


def full_pass(subject: Subject, batch: dict[str, Tensor]) -> FullPass:
    """Run all encoders once, and score the word-vectors of each."""
    base, retain = base_of(subject.model), WithScores()
    arranged, _, record = run(base, replace(subject.full, retain=retain), batch, states=True)
    assert record is not None  # states were asked for
    orders = [order(scores, arranged.lengths) for scores in retain.scores_of]
    context = subject.full.family.context(base, arranged.inputs, record.states[0])
    return FullPass(record.states, orders, arranged.lengths, context)


@torch.no_grad()
def full_answers(subject: Subject, chosen: Sequence[int]) -> NDArray[Any]:
    """Labels of the full model: (inputs,)."""
    said: dict[int, int] = {}
    for numbers, batch in subject.batches(chosen):
        logits = read_head(subject.model, full_pass(subject, batch).states[-1][:, 0])
        said.update(zip(numbers, logits.argmax(dim=1).tolist(), strict=True))
    return numpy.array([said[number] for number in chosen])


@torch.no_grad()
def answers_without(subject: Subject, chosen: Sequence[int], ranks: int, encoders: Sequence[int]) -> NDArray[Any]:
    """Labels without the word-vector of each rank at each encoder: (encoders, ranks, inputs)."""
    place = {number: at for at, number in enumerate(chosen)}
    after = numpy.empty((len(encoders), ranks, len(chosen)), dtype=numpy.int64)
    with subject.watching(len(chosen) * len(encoders), "inputs at an encoder") as done:
        for numbers, batch in subject.batches(chosen):
            own, passed = [place[number] for number in numbers], full_pass(subject, batch)
            for at, j in enumerate(encoders):
                for k in range(1, ranks + 1):
                    logits = read_head(subject.model, cls_without(subject, passed, j, k))
                    after[at, k - 1, own] = logits.argmax(dim=1).numpy()
                done(len(numbers))
    return after


def cls_without(subject: Subject, passed: FullPass, j: int, k: int) -> Tensor:
    """The final CLS (batch, hidden) if encoder j eliminates the word-vector of rank k, where CLS has rank 0."""
    base, full, gone = base_of(subject.model), subject.full, passed.orders[j - 1][:, k, None]
    rows = torch.arange(passed.states[j].shape[1] - 1).expand(len(gone), -1)
    rows = rows + (rows >= gone)  # all but the one that goes
    stages = ops.stages(full.retention, passed.lengths - 1, rows.shape[1])
    stages[-1] = ops.Stage(torch.ones_like(passed.lengths), width=1, eliminates=True, padded=False, cls=True)
    padded = bool((passed.lengths < passed.lengths.max()).any())
    words: Words = Padded(extract(passed.states[j], rows), rows, passed.lengths - 1, padded, stages)
    for i, module in enumerate(full.family.encoders(base)[j:], j + 1):
        words = Encoder(full, i, module, passed.context)(words)
    return words.cls()[:, 0]


def _finding(figures: dict[str, Any], last: int) -> tuple[bool, str]:
    """Whether MI rises with k, on the average over the encoders, and is nearer to the entropy in later ones.

    The last encoder is left out of it: its head reads CLS alone, so that whatever it eliminates changes nothing. The
    trend of the mean curve stands beside it and decides nothing: it was looked at after the first results were seen.
    """
    judged = {j: values for j, values in figures["information"].items() if int(j) < last}
    figures["rises_by_encoder"] = {j: trend(values) for j, values in judged.items()}
    by_rank = fmean(figures["rises_by_encoder"].values())
    together = trend([fmean(values) for values in zip(*judged.values(), strict=True)])
    lost = {j: figures["entropy"] - fmean(values) for j, values in judged.items()}
    by_encoder = trend([*lost.values()])
    figures |= {"rises_with_rank": by_rank, "mean_rises_with_rank": together}
    figures |= {"lost": lost, "lost_with_encoder": by_encoder}
    seen = (
        f"rank correlation of MI with k {by_rank:.2f} on the average over the encoders ({together:.2f} of their mean "
    )
    seen += f"curve), of what MI lacks to the entropy with the encoder {by_encoder:.2f}; "
    seen += "the paper's MI rises with k, and nears the entropy faster in later encoders"
    return by_rank >= CLEAR and by_encoder <= -CLEAR, seen


def _table(figures: dict[str, Any]) -> Table:
    ranks = sorted({1 + round(at * (figures["ranks"] - 1) / (_SHOWN - 1)) for at in range(_SHOWN)})
    title = f"MI in nats of {figures['inputs']:,} answers, one word-vector eliminated; entropy {figures['entropy']:.3f}"
    table = plain_table(title, [], ["encoder", *(f"k = {k}" for k in ranks), "mean"], padding=(0, 1))
    for j, values in figures["information"].items():
        table.add_row(j, *(f"{values[k - 1]:.3f}" for k in ranks), f"{fmean(values):.3f}")
    return table


def _draw(figure: Figure, figures: dict[str, Any]) -> None:
    """Draw MI against k: four encoders as the paper's figure has, the others behind them."""
    axes, ranks = figure.add_subplot(), range(1, figures["ranks"] + 1)
    lines = {int(j): values for j, values in figures["information"].items()}
    front = [*lines] if len(lines) <= len(_FRONT) else [[*lines][int(share * len(lines) + 1e-9)] for share in _FRONT]
    for j, values in lines.items():
        if j not in front:
            axes.plot(ranks, values, color=PALE, linewidth=0.9, zorder=1)
    for colour, mark, j in zip(SERIES, MARKS, front, strict=False):
        axes.plot(ranks, lines[j], color=colour, marker=mark, markersize=4.5, label=f"encoder {j}")
    if len(lines) > len(front):
        axes.plot([], [], color=PALE, linewidth=0.9, label="other encoders")
    axes.axhline(figures["entropy"], color=INK, linestyle="--", linewidth=1.2, label="entropy of the full model")
    axes.grid(axis="y", color=TRACK)
    axes.set_xticks([k for k in ranks if k == 1 or k % max(1, len(ranks) // 8) == 0])
    legend(figure)
    title = f"Answers with and without one word-vector: {figures['inputs']:,} inputs"
    label(axes, title, "k: the eliminated word-vector is the k-th most significant", "mutual information (nats)")

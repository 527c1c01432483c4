"""A few inputs, and what survives of them at each encoder.

Paper: Anecdotal Examples
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.rule import Rule

from powerbert.errors import DataError
from powerbert.modeling.apply import apply, remove
from powerbert.modeling.trace import Trace, trace
from powerbert.report.fade_terminal import Fade
from powerbert.report.style import BLUE, INK, LARGE, MUTED, PALE, SMALL
from powerbert.report.words import Word, readable, runs, trace_json, verdict
from powerbert.retention import RetentionConfiguration
from powerbert.studies.study import StudyOutcome, Subject
from powerbert.tasks.encoding import texts_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LENGTH = 12  # word-vectors of the paper's two sentences: inputs near to it are shown
THIRDS = (0.5833, 0.3333, 0.1666)  # 7, 4 and 2 of 12: what its configuration retains in each third of the encoders
_FUNCTION_WORDS = """
a an the this that these those and or but if of in on at to for from by with as is are was were be been it its he she
they we you i his her their our your do does did has have had not no so than then there here which who what 's n't s t
"""

COLUMNS = 84  # characters of a line of words
_WIDTH, _LINE, _SIDE, _LETTER = 8.0, 0.2, 1.45, 0.602 * SMALL / 72  # inches: all, a line, what is before it, a letter
_TOP, _SPACED, _APART = 0.5, 1.25 * _LINE, 2.8 * _LINE  # above all, from line to line, of an example beside its words


@dataclass(frozen=True)
class TracedInput:
    """One input."""

    truth: str
    before: str  # the answer of the full model
    trace: Trace

    @property
    def title(self) -> str:
        """What is predicted, and what is true."""
        return f"{' '.join(verdict(self.trace)).strip()}, truth: {self.truth}"

    def to_json(self) -> dict[str, Any]:
        """Plain figures for JSON."""
        return {"texts": self.trace.texts, "truth": self.truth, "full": self.before} | trace_json(self.trace)


def study_examples(subject: Subject, retention: RetentionConfiguration | None = None, inputs: int = 2) -> StudyOutcome:
    """Trace so many inputs; without a configuration, the folder's own, else the paper's in thirds."""
    found = traced_inputs(subject, retention or subject.retention or papers_thirds(subject.encoders), inputs)
    figures: dict[str, Any] = {"examples": [one.to_json() for one in found]}
    figures |= first_eliminated(one.trace for one in found)
    same = figures["same_answers"] = sum(one.before == verdict(one.trace)[0] for one in found)
    agrees = figures["function_words_eliminated"] > figures["function_words"] and same == len(found)
    seen = f"{100 * figures['function_words_eliminated']:.0f} % of what goes first are stop words and punctuation, "
    seen += f"{100 * figures['function_words']:.0f} % of all words are; {same} of {len(found)} answers stay; "
    seen += "in the paper's sentences these go first, and the answers stay"
    table = Group(*(Group(Rule(one.title, style="dim"), Fade(one.trace), "") for one in found))
    return StudyOutcome(figures, agrees, seen, table, lambda figure: _draw(figure, found), (_WIDTH, _height(found)))


def papers_thirds(encoders: int) -> RetentionConfiguration:
    """The paper's (7,7,7,7,4,4,4,4,2,2,2,2) of 12 word-vectors, as shares and for any number of encoders."""
    return RetentionConfiguration.relative([THIRDS[3 * j // encoders] for j in range(encoders)])


def traced_inputs(subject: Subject, retention: RetentionConfiguration, inputs: int) -> list[TracedInput]:
    """What each encoder retains of the chosen rows, and what the full model answers to them."""
    texts, full, found = texts_of(subject.split.dataset[:]), RetentionConfiguration.full(subject.encoders), []
    for i in chosen_rows(subject, inputs):
        text = texts[i]
        parts = (text,) if isinstance(text, str) else text
        before, after = (trace(apply(subject.model, each), subject.tokenizer, *parts) for each in (full, retention))
        found.append(TracedInput(subject.label_name(subject.labels[i]), verdict(before)[0], after))
    remove(subject.model)
    return found


def chosen_rows(subject: Subject, inputs: int) -> list[int]:
    """Rows of about the paper's length, the nearest first, from each label in turn."""
    if inputs > len(subject.split):
        rule = f"{subject.split.source} has {len(subject.split):,} rows"
        raise DataError(
            "there are fewer inputs than asked for", got=inputs, rule=rule, remedy="give a smaller --inputs"
        )
    labels = [0] * len(subject.split) if subject.task.kind == "regression" else subject.labels.tolist()
    lengths = subject.encoded["length"][:]
    near = sorted(range(len(lengths)), key=lambda i: abs(lengths[i] - LENGTH))
    by_label = [[i for i in near if labels[i] == own] for own in sorted(set(labels))]
    return [i for turn in zip_longest(*by_label) for i in turn if i is not None][:inputs]


def first_eliminated(traces: Iterable[Trace]) -> dict[str, float]:
    """The share of stop words and punctuation among all words, and among those that go first of all."""
    everything, first = list[bool](), list[bool]()
    for traced in traces:
        words = [word for word in readable(traced) if not word.special]
        everything += map(_is_function_word, words)
        soonest = min(word.last for word in words)
        first += [_is_function_word(word) for word in words if word.last == soonest]
    shares = {"function_words": everything, "function_words_eliminated": first}
    return {name: sum(of) / len(of) for name, of in shares.items()}


def _is_function_word(word: Word) -> bool:
    return word.text.casefold() in _FUNCTION_WORDS.split() or not any(letter.isalnum() for letter in word.text)


def _places(words: Sequence[Word]) -> list[tuple[int, int]]:
    """Line and column of each word, in letters, broken so that no line is longer than it may be."""
    places, line, column = list[tuple[int, int]](), 0, 0
    for word in words:
        column += 0 if word.joins or not column else 1
        if column and column + len(word.text) > COLUMNS:
            line, column = line + 1, 0
        places.append((line, column))
        column += len(word.text)
    return places


def _rows(traced: Trace) -> list[tuple[str, tuple[int, ...]]]:
    """The input, and what encoders retain, those together that retain the same."""
    everything = tuple(range(len(traced.tokens)))
    return [("input", everything), *((f"encoder {name}", words) for name, words in runs(traced.retained))]


def _height(found: Sequence[TracedInput]) -> float:
    lines = sum((1 + _places(readable(one.trace))[-1][0]) * len(_rows(one.trace)) for one in found)
    return _TOP + _SPACED * lines + _APART * len(found)


def _draw(figure: Figure, found: Sequence[TracedInput]) -> None:
    """Draw words from left to right, encoders downwards: filled is retained, pale is eliminated; in inches."""
    figure.set_layout_engine("none")
    axes, top = figure.add_axes((0, 0, 1, 1)), _TOP
    axes.set(xlim=(0, _WIDTH), ylim=(_height(found), 0))
    axes.axis("off")
    axes.text(0.15, 0.6 * _TOP, "What survives at each encoder", fontsize=LARGE, weight="bold", color=INK)
    for one in found:
        axes.text(0.15, top + 1.2 * _LINE, f"predicted: {one.title}", fontsize=SMALL, color=MUTED)
        top += 2 * _LINE
        words = readable(one.trace)
        places = _places(words)
        for name, retained in _rows(one.trace):
            side = f"{name} ({len(retained)})"
            axes.text(_SIDE - 0.12, top + 0.7 * _LINE, side, fontsize=SMALL, color=INK, ha="right")
            for i, (word, (line, column)) in enumerate(zip(words, places, strict=True)):
                _word(axes, _SIDE + _LETTER * column, top + _SPACED * line, word, retained=i in retained)
            top += _SPACED * (1 + places[-1][0])
        top += _APART - 2 * _LINE


def _word(axes: Axes, left: float, top: float, word: Word, *, retained: bool) -> None:
    from matplotlib.patches import Rectangle

    if retained:
        rim = 0.0 if word.joins else 0.02  # none where it touches the piece before it
        size = (_LETTER * len(word.text) + rim, _LINE)
        axes.add_patch(Rectangle((left - rim, top), *size, facecolor=BLUE, edgecolor="white", linewidth=0.5))
    colour = "white" if retained else PALE
    axes.text(left, top + 0.74 * _LINE, word.text, fontsize=SMALL, family="DejaVu Sans Mono", color=colour)

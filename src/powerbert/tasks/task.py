"""What a task is: its columns and labels, its metric, how the authors trained it; and a split of its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from powerbert.errors import DataError

if TYPE_CHECKING:
    from datasets import Dataset

Kind = Literal["classification", "regression", "multiple-choice"]

SHORTEST = 8  # of N: no tokenizer adds more than four special tokens to a pair, and some text is left
CHOICES = 4  # options of a RACE question
ROWS_AT_ONCE = 1000  # that are taken from a dataset in one go
METRIC_NAMES = dict.fromkeys(("accuracy", "f1", "matthews", "macro_f1"), "classes") | {"spearman": "numbers"}
"""The metrics of `metrics.py`, which is not imported for a flag's sake -> what they score."""


@dataclass(frozen=True)
class HyperParameters:
    """What the authors tuned per task, in the names of their table (Adam)."""

    lr: float  # of the encoder's own weights
    lr_soft_extract: float  # of the retention parameters r
    lambda_: float  # weight of the regularizer; nearly inert under Adam (`docs/deviations.md`)
    batch_size: int  # inputs per step; for multiple choice, questions per step
    published: bool = True  # in the authors' release; else our choice within the paper's ranges


DEFAULT_HYPER_PARAMETERS = HyperParameters(3e-5, 1e-3, 3e-4, 32, published=False)  # the middle of the paper's ranges
DEFAULT_FILES = {"train": ("train",), "dev": ("dev", "validation"), "test": ("test",)}  # split -> stems, the hub's last


@dataclass(frozen=True)
class Task:
    """A task, as `registry` has or makes it; of several names for a column or file the first that exists is taken."""

    name: str
    kind: Kind
    columns: Mapping[str, tuple[str, ...]] = field(hash=False)  # normalised column -> the names that files give it
    metric: str
    label_columns: tuple[str, ...] = ("label",)  # the names that files give the label
    labels: tuple[str, ...] | None = None  # by index; None for regression, or until they are read from the data
    label_aliases: Mapping[str, int] = field(default_factory=dict, hash=False)  # casefolded spelling -> index
    exact_labels: bool = False  # as where they were discovered in the training data; else also the index, and any case
    label_range: tuple[float, float] | None = None  # of a regression; None if any finite number will do
    max_length: int | None = None  # N; None: the paper's rule on the training data (`encoding.choose_max_length`)
    hyper_parameters: HyperParameters = DEFAULT_HYPER_PARAMETERS
    files: Mapping[str, tuple[str, ...]] = field(default_factory=DEFAULT_FILES.copy, hash=False)
    folders: tuple[str, ...] = ()  # the names of the task's folder inside a folder of all tasks
    headerless: tuple[str, ...] = ()  # the columns of a TSV file that has no header (GLUE's CoLA)
    skip_incomplete: bool = False  # skip rows without a text, with a note: the official file has some (QQP)
    hub: str = ""  # `name` or `name:configuration` on the Hugging Face hub

    @property
    def is_own(self) -> bool:
        """Whether the labels are still to be discovered in the training data."""
        return self.labels is None and self.kind == "classification"

    @property
    def is_pair(self) -> bool:
        """Whether an input is two texts."""
        return "text_pair" in self.columns

    @property
    def num_labels(self) -> int:
        """Outputs of the head: one per class, one for regression, one per choice scored alone."""
        if self.kind != "classification":
            return 1
        if self.labels is None:
            raise DataError(f"the classes of task {self.name} are not known yet", remedy="read the training data first")
        return len(self.labels)

    def with_labels(self, labels: Sequence[str]) -> Task:
        """The same task with the class names that were found in the training data."""
        return replace(self, labels=tuple(labels), metric=metric_for(self.kind, self.metric, labels), exact_labels=True)


def metric_for(kind: Kind, name: str | None, labels: Sequence[str] | None) -> str:
    """The metric of that name, or the usual one; refuses a metric of classes for numbers and the reverse.

    F1 is that of class 1 where there are two classes, and macro F1, under that name, where there are more.
    """
    scored = "numbers" if kind == "regression" else "classes"
    fitting = [known for known, what in METRIC_NAMES.items() if what == scored]
    name = name or fitting[0]
    if name not in METRIC_NAMES:
        raise DataError("unknown metric", got=name, rule=f"metrics are {', '.join(METRIC_NAMES)}")
    if name not in fitting:
        rule = f"a {kind} is scored by {' or '.join(fitting)}"
        remedy = "name another with --metric" if kind == "regression" else "for numbers use --regression"
        raise DataError(f"{name} does not score {scored}", rule=rule, remedy=remedy)
    return "macro_f1" if name == "f1" and labels is not None and len(labels) > 2 else name


def check_max_length(max_length: int | None) -> None:
    """Refuse an N that leaves no room for text."""
    if max_length is not None and max_length < SHORTEST:
        raise DataError("--max-length is too small", got=max_length, rule=f"N is at least {SHORTEST}")


def same_labels(own: Sequence[str], asked: Sequence[str]) -> bool:
    """Whether two lists name the same classes in order; case counts only where two names differ by it."""
    folded = [name.casefold() for name in own]
    alike = folded == [name.casefold() for name in asked] and len({*folded}) == len(folded)
    return alike or list(own) == list(asked)


@dataclass(frozen=True)
class Split:
    """Rows of a task, and where they came from."""

    dataset: Dataset
    source: str = "the dataset"  # the file, folder or name that the rows were read from
    unit: str = "row"  # what the numbers in column `row` count: "line" or "row"
    notes: tuple[str, ...] = ()  # such as blank lines that were skipped or the part that was taken
    skipped: int = 0  # rows and blank lines of the source that were left out

    def __len__(self) -> int:
        return len(self.dataset)

    def part(self, rows: int | None, seed: int) -> Split:
        """So many rows (all, if fewer), shuffled, for files come in order; a seed's smaller parts begin larger ones."""
        if rows is None:
            return self
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise DataError("a part has at least one row", got=rows, rule="rows is a whole number from 1")
        shuffled = self.dataset.shuffle(seed, keep_in_memory=True)
        part = shuffled.select(range(min(rows, len(self))), keep_in_memory=True)
        note = f"{len(part):,} of {len(self):,} rows, shuffled with seed {seed}"
        return replace(self, dataset=part, notes=(*self.notes, note))

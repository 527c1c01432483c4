"""What a task is: where its text and labels are, how it is scored, and how the authors trained it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from powerbert.errors import DataError

Kind = Literal["classification", "regression", "multiple-choice"]

CHOICES = 4  # options of a RACE question


@dataclass(frozen=True)
class HyperParameters:
    """What the authors tuned per task, in the names of their table (Adam)."""

    lr: float
    """Learning rate of the encoder's own weights."""
    lr_soft_extract: float
    """Learning rate of the retention parameters r."""
    lambda_: float
    """Weight of the regularizer; `facts.md` tells why it is nearly inert under Adam."""
    batch_size: int
    """Inputs per step; for multiple choice, questions per step."""
    published: bool = True
    """Whether the authors' release lists them; if not, they are our choice within the paper's ranges."""


DEFAULT_HYPER_PARAMETERS = HyperParameters(3e-5, 1e-3, 3e-4, 32, published=False)
"""For a user's own task: the middle of the paper's ranges."""


@dataclass(frozen=True)
class Task:
    """A task; take one from `registry.find_task` or make one with `registry.own_task`."""

    name: str
    kind: Kind
    columns: Mapping[str, tuple[str, ...]] = field(hash=False)
    """Normalised column -> the names under which files call it, first match wins."""
    metric: str
    label_columns: tuple[str, ...] = ("label",)
    """The names under which files call the label, first match wins."""
    labels: tuple[str, ...] | None = None
    """Class names in order of their index; None for regression, or until they are read from the data."""
    label_aliases: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Other spellings of a class, casefolded -> index."""
    exact_labels: bool = False
    """Whether only the exact names are accepted, as where they were discovered in the training data;
    else also the index, and any case."""
    label_range: tuple[float, float] | None = None
    """Least and greatest label of a regression task, None if any finite number will do."""
    max_length: int | None = None
    """N; None means: the paper's rule on the training data (`lengths.choose_max_length`)."""
    hyper_parameters: HyperParameters = DEFAULT_HYPER_PARAMETERS
    files: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"train": ("train",), "dev": ("dev", "validation"), "test": ("test",)},
        hash=False,
    )
    """Split -> the file names it may have, without extension; the last is the hub's."""
    folders: tuple[str, ...] = ()
    """The names of the task's folder inside a folder of all tasks."""
    headerless: tuple[str, ...] = ()
    """The columns of a TSV file that has no header (GLUE's CoLA)."""
    skip_incomplete: bool = False
    """Skip rows without a text, with a warning, because the official file has some (QQP)."""
    hub: str = ""
    """`name` or `name:configuration` on the Hugging Face hub."""

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
            raise DataError(
                f"the classes of task {self.name} are not known yet", remedy="read the training data first"
            )
        return len(self.labels)

    def with_labels(self, labels: Sequence[str]) -> Task:
        """The same task with the class names that were found in the training data."""
        return replace(self, labels=tuple(labels), exact_labels=True)

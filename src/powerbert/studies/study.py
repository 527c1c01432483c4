"""What is studied, what comes out of it, and the three files that it leaves: figures, and a picture in two formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
import torch
from datasets import Dataset
from numpy.typing import NDArray
from rich.console import RenderableType
from torch import Tensor

from powerbert.errors import DataError, PowerBertError, UnsupportedModelError
from powerbert.folders.atomic import write_file
from powerbert.folders.manifest import folder_digest, own_files
from powerbert.modeling.apply import apply, attached, encoders_of, remove
from powerbert.modeling.limits import check_batch, limits_of
from powerbert.modeling.retain import Elimination
from powerbert.report.style import WIDE, drawing, png, svg
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.encoding import encode_split
from powerbert.tasks.metrics import metric
from powerbert.tasks.task import Split, Task
from powerbert.text.batches import BUDGET, collate, flattened, plan_batches
from powerbert.text.tokenise import Row
from powerbert.training.runner import run_record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLEAR = 0.5  # rank correlation from which on a study calls a trend one

Watching = Callable[[int, str], AbstractContextManager[Callable[[int], object]]]
"""(how many in all, of what) -> within a `with`, what is called with the number of those that are done."""


@contextmanager
def quiet(total: int, unit: str) -> Iterator[Callable[[int], object]]:
    """Show nothing while a study goes on."""
    yield lambda done: None


@dataclass(frozen=True)
class Subject:
    """A model, and the rows that it is studied on."""

    folder: Path
    model: Any  # in eval mode, without elimination
    tokenizer: Any
    task: Task
    split: Split
    longest: int  # N: longer inputs are cut
    output: Path
    seed: int = 0
    retention: RetentionConfiguration | None = None  # what the folder carries
    watching: Watching = quiet

    @cached_property
    def encoders(self) -> int:
        """L."""
        return encoders_of(self.model)

    @cached_property
    def encoded(self) -> Dataset:
        """The rows, tokenised."""
        return encode_split(self.split, self.task, self.tokenizer, self.longest)

    @cached_property
    def rows(self) -> list[Row]:
        """Each input alone, without PAD; of a question every choice is one."""
        return list(flattened(list(self.encoded)))  # type: ignore[arg-type]

    @cached_property
    def labels(self) -> NDArray[Any]:
        """Of each row; a set with one label is refused, for it measures nothing."""
        labels = numpy.asarray(self.encoded["labels"][:])
        if len(set(labels.tolist())) < 2:
            rule = "a metric needs at least two labels"
            what = f"all {len(labels):,} rows of {self.split.source} have one label"
            raise DataError(what, got=self.label_name(labels[0]), rule=rule)
        return labels

    def label_name(self, label: float) -> str:
        """A class by its name, a number as it is."""
        return f"{label:g}" if self.task.kind == "regression" else (self.task.labels or ())[int(label)]

    @cached_property
    def full(self) -> Elimination:
        """An elimination that eliminates nothing, to run the loop of this project with."""
        found = attached(apply(self.model, RetentionConfiguration.full(self.encoders)))
        remove(self.model)
        return found

    def check_cls(self) -> None:
        """Refuse a model of which no word-vector can stand in for CLS, or that answers by several inputs at once."""
        if self.task.kind == "multiple-choice":
            raise UnsupportedModelError("this study asks about one input at a time", got=self.task.name)
        if not self.full.cls_only:
            got, rule = type(self.model).__name__, "this study needs a head that reads CLS alone"
            raise UnsupportedModelError("the head reads every position", got=got, rule=rule)

    def batches(self, chosen: Sequence[int] | None = None) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
        """Rows, all or those that are chosen, in batches of like length: their numbers, and a padded batch.

        A batch holds so many word-vectors, not inputs: long inputs take no more memory than short ones.
        """
        numbers = range(len(self.rows)) if chosen is None else chosen
        limits, pad = limits_of(self.model, self.tokenizer), self.tokenizer.pad_token_id
        for planned in plan_batches([len(self.rows[i]["input_ids"]) for i in numbers], BUDGET):
            own = [numbers[i] for i in planned]
            padded = check_batch(collate([self.rows[i] for i in own], pad), limits)
            yield own, {name: torch.from_numpy(words) for name, words in padded.items()}


@dataclass(frozen=True)
class StudyOutcome:
    """What a study found."""

    figures: dict[str, Any]  # for JSON, and all that the picture is drawn of
    agrees: bool  # whether it is what the paper found
    seen: str  # in a few words, beside the paper's own
    table: RenderableType
    draw: Callable[[Figure], None]
    size: tuple[float, float] = WIDE  # inches

    @property
    def finding(self) -> str:
        """The last line for a person."""
        return f"{'agrees' if self.agrees else 'disagrees'} with the paper: {self.seen}"


def trend(values: Sequence[float]) -> float:
    """Spearman's rank correlation of values with their order: 1 if they always rise, -1 if they always fall."""
    return metric("spearman")(values, range(len(values)))


def check_output(output: Path, name: str) -> None:
    """Refuse a place where a study would replace what is not its own."""
    remedy = "choose another --output"
    if output.exists() and not output.is_dir():
        raise PowerBertError(f"{output} is a file", rule="the files of a study go to a folder", remedy=remedy)
    if own_files(output):
        raise PowerBertError(f"{output} holds a model", rule="the files of a study go beside it", remedy=remedy)
    there = [path for path in _files(output, name) if path.exists()]
    if there and not _is_study(there[0], name):
        what = f"{there[0]} is not of the study {name}"
        raise PowerBertError(what, rule="nothing is written over anything else", remedy=remedy)


def write_study(
    name: str, subject: Subject, outcome: StudyOutcome, threads: int, options: dict[str, Any]
) -> list[Path]:
    """Write NAME.json, NAME.png and NAME.svg; the JSON tells what was run, on what, and by which command.

    options: what else decides the figures.
    """
    settings = {
        "study": name,
        "model": subject.folder.name,
        "model_digest": folder_digest(subject.folder),
        "task": subject.task.name,
        "data": Path(subject.split.source).name,
        "rows": len(subject.split),
        "max_length": subject.longest,
        "seed": subject.seed,
    }
    found = {"agrees": outcome.agrees, "finding": outcome.finding, "figures": outcome.figures}
    record = run_record(settings | options, "fp32", threads) | found
    files = _files(subject.output, name)
    subject.output.mkdir(parents=True, exist_ok=True)
    with drawing(*outcome.size, layout="constrained") as figure:
        outcome.draw(figure)
        contents = (json.dumps(record, indent=1).encode() + b"\n", png(figure), svg(figure))
    for path, content in zip(files, contents, strict=True):
        write_file(path, content)
    return files


def _files(output: Path, name: str) -> list[Path]:
    return [output / f"{name}.{kind}" for kind in ("json", "png", "svg")]


def _is_study(path: Path, name: str) -> bool:
    """Whether a file is the record of an earlier run of this study."""
    try:
        return json.loads(path.read_bytes())["settings"]["study"] == name
    except (ValueError, KeyError, TypeError):
        return False

"""The data that a command works on, from its flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from powerbert.cli.output import note
from powerbert.errors import DataError, ModelFolderError

if TYPE_CHECKING:
    from powerbert.tasks.task import Split, Task
    from powerbert.training.data import Data


@dataclass(frozen=True)
class Columns:
    """What the texts are."""

    task: Annotated[
        str | None,
        "CoLA, RTE, QQP, MRPC, SST-2, MNLI-m, MNLI-mm, QNLI, STS-B, IMDB or RACE; "
        "leave out for your own columns.",
        "NAME",
    ] = None
    text: Annotated[str | None, "Column of the text, for a task of your own.", "COL"] = None
    text_pair: Annotated[str | None, "Column of the second text, if there is one.", "COL"] = None
    label: Annotated[str | None, "Column of the label; by default label.", "COL"] = None
    regression: Annotated[bool, "The labels are numbers to predict, not classes."] = False
    metric: Annotated[str | None, "accuracy, f1, matthews or spearman; by default the task's.", "NAME"] = None
    max_length: Annotated[
        int | None, "N, the longest input; by default the task's, else the paper's rule.", "N"
    ] = None

    def find(self, labels: tuple[str, ...] | None = None) -> Task:
        """The paper's task of that name, or one of the user's own columns."""
        from powerbert.tasks.registry import find_task, own_task

        own = [self.text, self.text_pair, self.label]
        if self.task is not None:
            if any(own) or self.regression or self.metric:
                raise DataError(
                    "--task brings its own columns, labels and metric",
                    got=self.task,
                    remedy="leave out --text, --text-pair, --label, --regression and --metric, or --task",
                )
            return find_task(self.task)
        if self.text is None:
            raise DataError("which text?", remedy="give --task NAME, or --text COL for your own files")
        return own_task(
            self.text,
            self.text_pair,
            self.label or "label",
            kind="regression" if self.regression else "classification",
            labels=labels,
            metric=self.metric,
        )


@dataclass(frozen=True)
class TrainingData(Columns):
    """What a model is trained and evaluated on."""

    data: Annotated[str | None, "Folder with the files of --task, or the word hub.", "FOLDER"] = None
    train: Annotated[str | None, "Training data: JSONL, CSV, TSV (also .gz) or Parquet.", "FILE"] = None
    dev: Annotated[str | None, "Data to evaluate on, in the same formats.", "FILE"] = None
    rows: Annotated[int | None, "Train on a part of this many rows, drawn with --seed.", "ROWS"] = None
    dev_rows: Annotated[int | None, "Evaluate on a part of this many rows, drawn with seed 0.", "ROWS"] = None

    def read(self, seed: int) -> Data:
        """Read and check both splits; say what a person should know about them."""
        from powerbert.tasks.readers import read_splits, task_data
        from powerbert.training.data import Data

        task = self.find()
        splits: Mapping[str, Split]
        if self.train is not None and self.dev is not None and self.data is None:
            task, splits = read_splits({"train": self.train, "dev": self.dev}, task)
        elif self.task is not None and self.data is not None and self.train is self.dev is None:
            splits = task_data(self.data, task)
        else:
            raise DataError(
                "where is the data?", remedy="give --task NAME --data FOLDER, or --train FILE --dev FILE"
            )
        parts = {
            "train": part(splits["train"], self.rows, seed),
            "dev": part(splits["dev"], self.dev_rows, 0),
        }
        data = Data.of(task, parts)
        for line in (*data.findings.lines(), *data.findings.notes):
            note(line)
        for line in data.findings.warnings:
            note(f"warning: {line}")
        return data


def part(split: Split, rows: int | None, seed: int) -> Split:
    """The split, or a seeded part of it."""
    return split if rows is None else split.part(rows, seed)


def labels_of(model: Any) -> tuple[str, ...] | None:
    """The class names that a model carries; None for one that predicts a number or scores choices."""
    if model.config.num_labels < 2:
        return None
    return tuple(model.config.id2label[i] for i in range(model.config.num_labels))


def existing_folder(folder: str) -> Path:
    """The folder of a model, absolute, so that a later step finds it from anywhere."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise ModelFolderError(f"{folder} is not a folder", remedy="give the folder of a model")
    return path.resolve()

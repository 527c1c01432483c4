"""The paper's eleven tasks by name, and the user's own.

Paper: Datasets
Paper: Hyper-parameters and Evaluation
"""

from __future__ import annotations

from collections.abc import Sequence

from powerbert.errors import DataError
from powerbert.tasks.metrics import METRICS
from powerbert.tasks.task import HyperParameters, Kind, Task

NLI = ("entailment", "not_entailment")
SENTIMENT = ("negative", "positive")

# Files call a column by our normalised name, as the project's data folder does (text_a, text_b), or as
# GLUE's own files and the hub do.
SINGLE = {"text": ("text", "sentence")}
PAIR = {"text": ("text_a", "text", "sentence1"), "text_pair": ("text_b", "text_pair", "sentence2")}


def _splits(suffix: str) -> dict[str, tuple[str, ...]]:
    return {
        "train": ("train",),
        "dev": (f"dev_{suffix}", f"validation_{suffix}"),
        "test": (f"test_{suffix}",),
    }


def _mnli(name: str, suffix: str, hyper_parameters: HyperParameters) -> Task:
    """MNLI-m and MNLI-mm share the training file and differ in the dev and test files."""
    return Task(
        name,
        "classification",
        {
            "text": ("text_a", "text", "premise", "sentence1"),
            "text_pair": ("text_b", "text_pair", "hypothesis", "sentence2"),
        },
        "accuracy",
        label_columns=("label", "gold_label"),
        labels=("entailment", "neutral", "contradiction"),
        max_length=128,
        hyper_parameters=hyper_parameters,
        files=_splits(suffix),
        folders=("MNLI", name),
        hub="nyu-mll/glue:mnli",
    )


TASKS: tuple[Task, ...] = (
    Task(
        "CoLA",
        "classification",
        SINGLE,
        "matthews",
        labels=("unacceptable", "acceptable"),
        max_length=64,
        hyper_parameters=HyperParameters(2e-5, 1.5e-3, 7e-3, 32),
        folders=("CoLA",),
        headerless=("source", "label", "star", "sentence"),
        hub="nyu-mll/glue:cola",
    ),
    Task(
        "RTE",
        "classification",
        PAIR,
        "accuracy",
        labels=NLI,
        max_length=256,
        hyper_parameters=HyperParameters(3e-5, 3e-3, 1e-3, 16),
        folders=("RTE",),
        hub="nyu-mll/glue:rte",
    ),
    Task(
        "QQP",
        "classification",
        {"text": ("text_a", "text", "question1"), "text_pair": ("text_b", "text_pair", "question2")},
        "f1",
        label_columns=("label", "is_duplicate"),
        labels=("not_duplicate", "duplicate"),
        max_length=128,
        hyper_parameters=HyperParameters(3e-5, 1e-4, 3e-4, 64),
        folders=("QQP",),
        # GLUE's own QQP files hold rows without a question; every published reader skips them.
        skip_incomplete=True,
        hub="nyu-mll/glue:qqp",
    ),
    Task(
        "MRPC",
        "classification",
        {
            "text": ("text_a", "text", "sentence1", "#1 String"),
            "text_pair": ("text_b", "text_pair", "sentence2", "#2 String"),
        },
        "f1",
        label_columns=("label", "Quality"),
        labels=("not_equivalent", "equivalent"),
        max_length=128,
        hyper_parameters=HyperParameters(6e-5, 3e-3, 3e-3, 64),
        folders=("MRPC",),
        hub="nyu-mll/glue:mrpc",
    ),
    Task(
        "SST-2",
        "classification",
        SINGLE,
        "accuracy",
        labels=SENTIMENT,
        max_length=64,
        hyper_parameters=HyperParameters(3e-5, 5e-4, 2e-4, 64),
        folders=("SST-2",),
        hub="nyu-mll/glue:sst2",
    ),
    _mnli("MNLI-m", "matched", HyperParameters(3e-5, 2e-4, 1e-4, 64)),
    _mnli("MNLI-mm", "mismatched", HyperParameters(3e-5, 1e-4, 1e-4, 64)),
    Task(
        "QNLI",
        "classification",
        {"text": ("text_a", "text", "question"), "text_pair": ("text_b", "text_pair", "sentence")},
        "accuracy",
        labels=NLI,
        max_length=128,
        hyper_parameters=HyperParameters(3e-5, 2e-4, 1.5e-4, 16),
        folders=("QNLI",),
        hub="nyu-mll/glue:qnli",
    ),
    Task(
        "STS-B",
        "regression",
        PAIR,
        "spearman",
        label_columns=("label", "score"),
        label_range=(0.0, 5.0),
        max_length=64,
        hyper_parameters=HyperParameters(3e-5, 3e-3, 1e-3, 64),
        folders=("STS-B",),
        hub="nyu-mll/glue:stsb",
    ),
    Task(
        "IMDB",
        "classification",
        {"text": ("text",)},
        "accuracy",
        labels=SENTIMENT,
        label_aliases={"neg": 0, "pos": 1},
        max_length=512,
        # Not in the release's table: SST-2's, with a batch that fits N = 512.
        hyper_parameters=HyperParameters(3e-5, 5e-4, 2e-4, 16, published=False),
        # aclImdb has no dev set: its test reviews stand in unless a dev file exists.
        files={"train": ("train",), "dev": ("dev", "validation", "test"), "test": ("test",)},
        folders=("IMDB", "aclImdb"),
        hub="stanfordnlp/imdb",
    ),
    Task(
        "RACE",
        "multiple-choice",
        {"article": ("article",), "question": ("question",), "options": ("options",)},
        "accuracy",
        label_columns=("answer", "label"),
        labels=("A", "B", "C", "D"),
        max_length=512,
        # Not in the release's table: MNLI-m's, with the lowest rate and a batch of 8 questions (32 inputs).
        hyper_parameters=HyperParameters(2e-5, 2e-4, 1e-4, 8, published=False),
        folders=("RACE",),
        hub="ehovy/race:all",
    ),
)


def find_task(name: str) -> Task:
    """Return one of the paper's tasks; case and hyphens do not matter (`sst2` is SST-2)."""
    if isinstance(name, str):
        for task in TASKS:
            if _plain(task.name) == _plain(name):
                return task
    raise DataError(
        "unknown task",
        got=name,
        rule=f"the tasks are {', '.join(task.name for task in TASKS)}",
        remedy="for your own files give --train, --dev, --text and --label",
    )


def own_task(
    text: str,
    text_pair: str | None = None,
    label: str = "label",
    *,
    kind: Kind = "classification",
    labels: Sequence[str] | None = None,
    label_range: tuple[float, float] | None = None,
    metric: str | None = None,
    max_length: int | None = None,
    name: str = "own",
) -> Task:
    """Make a task of a user's own columns; class names are discovered in the training data.

    `labels` fixes the class names beforehand, as for a model that already has a head.
    """
    if kind not in ("classification", "regression"):
        raise DataError(
            "a task of your own is classification or regression", got=kind, remedy="use task RACE"
        )
    named = [column for column in (text, text_pair, label) if column is not None]
    if not all(isinstance(column, str) and column for column in named):
        raise DataError("a column name is empty", got=named, rule="--text, --text-pair, --label name columns")
    if len(set(named)) != len(named):
        raise DataError("one column is named twice", got=named, rule="each role needs a column of its own")
    metric = metric or ("accuracy" if kind == "classification" else "spearman")
    if metric not in METRICS:
        raise DataError("unknown metric", got=metric, rule=f"metrics are {', '.join(METRICS)}")
    columns: dict[str, tuple[str, ...]] = {"text": (text,)}
    if text_pair is not None:
        columns["text_pair"] = (text_pair,)
    return Task(
        name,
        kind,
        columns,
        metric,
        label_columns=(label,),
        labels=None if labels is None or kind == "regression" else tuple(labels),
        label_range=label_range,
        max_length=max_length,
    )


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "").strip()

"""The paper's eleven tasks by name, the user's own, and the files in which GLUE wants its answers.

Paper: Datasets
Paper: Hyper-parameters and Evaluation
"""

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from powerbert.errors import DataError
from powerbert.tasks.task import DEFAULT_FILES, HyperParameters, Kind, Task, metric_for

GLUE = "nyu-mll/glue:"
NLI = ("entailment", "not_entailment")
SENTIMENT = ("negative", "positive")
SINGLE: dict[str, tuple[str, ...]] = {"text": ("text", "sentence")}
SENTENCES = ("sentence1", "sentence2")

_Columns = Mapping[str, tuple[str, ...]]
_Tuned = tuple[float, float, float, int]


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "").strip()


def _pair(*names: tuple[str, str]) -> _Columns:
    """Columns of a pair: two names that are common, then those of GLUE's own files and the hub."""
    first, second = zip(("text_a", "text_b"), ("text", "text_pair"), *names, strict=True)
    return {"text": first, "text_pair": second}


def _glue(name: str, columns: _Columns, metric: str, max_length: int, tuned: _Tuned, **more: Any) -> Task:
    """A task of GLUE with the release's hyper-parameters; one without classes is a regression."""
    kind: Kind = "classification" if "labels" in more else "regression"
    more = {"folders": (name,), "hub": GLUE + _plain(name)} | more
    return Task(name, kind, columns, metric, max_length=max_length, hyper_parameters=HyperParameters(*tuned), **more)


def _mnli(name: str, suffix: str, tuned: _Tuned) -> Task:
    """MNLI-m and MNLI-mm share the training file and differ in the dev and test files."""
    more: dict[str, Any] = {"label_columns": ("label", "gold_label"), "folders": ("MNLI", name), "hub": f"{GLUE}mnli"}
    more["files"] = DEFAULT_FILES | {"dev": (f"dev_{suffix}", f"validation_{suffix}"), "test": (f"test_{suffix}",)}
    more["labels"] = ("entailment", "neutral", "contradiction")
    return _glue(name, _pair(("premise", "hypothesis"), SENTENCES), "accuracy", 128, tuned, **more)


TASKS: tuple[Task, ...] = (
    _glue("CoLA", SINGLE, "matthews", 64, (2e-5, 1.5e-3, 7e-3, 32), labels=("unacceptable", "acceptable"),
          headerless=("source", "label", "star", "sentence")),
    _glue("RTE", _pair(SENTENCES), "accuracy", 256, (3e-5, 3e-3, 1e-3, 16), labels=NLI),
    _glue("QQP", _pair(("question1", "question2")), "f1", 128, (3e-5, 1e-4, 3e-4, 64),
          labels=("not_duplicate", "duplicate"), label_columns=("label", "is_duplicate"),
          skip_incomplete=True),  # GLUE's own files have rows without a question, which every reader skips
    _glue("MRPC", _pair(SENTENCES, ("#1 String", "#2 String")), "f1", 128, (6e-5, 3e-3, 3e-3, 64),
          labels=("not_equivalent", "equivalent"), label_columns=("label", "Quality")),
    _glue("SST-2", SINGLE, "accuracy", 64, (3e-5, 5e-4, 2e-4, 64), labels=SENTIMENT),
    _mnli("MNLI-m", "matched", (3e-5, 2e-4, 1e-4, 64)),
    _mnli("MNLI-mm", "mismatched", (3e-5, 1e-4, 1e-4, 64)),
    _glue("QNLI", _pair(("question", "sentence")), "accuracy", 128, (3e-5, 2e-4, 1.5e-4, 16), labels=NLI),
    _glue("STS-B", _pair(SENTENCES), "spearman", 64, (3e-5, 3e-3, 1e-3, 64),
          label_columns=("label", "score"), label_range=(0.0, 5.0)),
    # Not in the release's table: IMDB trains as SST-2, with a batch that fits N = 512; RACE as MNLI-m, with the
    # lowest rate and a batch of 8 questions (32 inputs).
    Task("IMDB", "classification", {"text": ("text",)}, "accuracy", labels=SENTIMENT,
         label_aliases={"neg": 0, "pos": 1}, max_length=512, folders=("IMDB", "aclImdb"), hub="stanfordnlp/imdb",
         # aclImdb has no dev set: its test reviews stand in unless a dev file exists.
         files=DEFAULT_FILES | {"dev": ("dev", "validation", "test")},
         hyper_parameters=HyperParameters(3e-5, 5e-4, 2e-4, 16, published=False)),
    Task("RACE", "multiple-choice", {name: (name,) for name in ("article", "question", "options")}, "accuracy",
         label_columns=("answer", "label"), labels=("A", "B", "C", "D"), max_length=512, folders=("RACE",),
         hub="ehovy/race:all", hyper_parameters=HyperParameters(2e-5, 2e-4, 1e-4, 8, published=False)),
)  # fmt: skip


def find_task(name: str) -> Task:
    """Return one of the paper's tasks; case and hyphens do not matter (`sst2` is SST-2)."""
    for task in TASKS:
        if isinstance(name, str) and _plain(task.name) == _plain(name):
            return task
    remedy = "for your own files give --train, --dev, --text and --label"
    raise DataError("unknown task", got=name, rule=f"the tasks are {', '.join(t.name for t in TASKS)}", remedy=remedy)


def own_task(
    text: str,
    text_pair: str | None = None,
    label: str = "label",
    *,
    kind: Kind = "classification",
    labels: Sequence[str] | None = None,
    metric: str | None = None,
    name: str = "own",
) -> Task:
    """A task of a user's own columns; class names are those of a model, `labels`, or found in the training data."""
    if kind not in ("classification", "regression"):
        raise DataError("a task of your own is classification or regression", got=kind, remedy="use task RACE")
    named = [column for column in (text, text_pair, label) if column is not None]
    if not all(isinstance(column, str) and column for column in named):
        raise DataError("a column name is empty", got=named, rule="--text, --text-pair, --label name columns")
    if len(set(named)) != len(named):
        raise DataError("one column is named twice", got=named, rule="each role needs a column of its own")
    columns = {"text": (text,)} | ({} if text_pair is None else {"text_pair": (text_pair,)})
    names = None if labels is None or kind == "regression" else tuple(labels)
    return Task(name, kind, columns, metric_for(kind, metric, names), (label,), names)


def submission(task: Task, answers: Sequence[Any]) -> tuple[str, str]:
    """Name and content of the TSV file that gluebenchmark.com takes: columns `index` and `prediction`.

    Answers are class indices, or values, in the official order; the format is of nyu-mll/GLUE-baselines, `src/main.py`.
    """
    if not task.hub.startswith(GLUE):
        rule = f"GLUE's tasks are {', '.join(known.name for known in TASKS if known.hub.startswith(GLUE))}"
        what, remedy = f"there is no GLUE submission for task {task.name}", "write plain predictions instead"
        raise DataError(what, rule=rule, remedy=remedy)
    if len(answers) == 0:
        raise DataError("a submission needs answers", remedy=f"predict the official test file of {task.name}")
    lines = [f"{index}\t{_written(task, index, answer)}" for index, answer in enumerate(answers)]
    return f"{task.name}.tsv", "\n".join(["index\tprediction", *lines, ""])


def _written(task: Task, index: int, answer: Any) -> str:
    """A class by its index, of the NLI tasks by name; a value in three decimals, clipped to its range, never -0.000."""
    labels, (least, greatest) = task.labels or (), task.label_range or (-math.inf, math.inf)
    what = f"the answer of index {index} is not a"
    try:
        chosen: float = operator.index(answer) if labels else float(answer)
    except (TypeError, ValueError):
        chosen = math.nan
    if not labels:
        if not math.isfinite(chosen):
            raise DataError(f"{what} finite number", got=answer, remedy="check the model's outputs for NaN")
        return f"{min(max(least, chosen), greatest):.3f}"
    if not 0 <= chosen < len(labels):
        rule = f"an answer is a class index, 0 to {len(labels) - 1} ({', '.join(labels)})"
        raise DataError(f"{what} class of {task.name}", got=answer, rule=rule)
    return labels[int(chosen)] if NLI[0] in labels else str(chosen)

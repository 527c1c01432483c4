"""What the report shows beside the verdict: agreement by length, where the time goes, words that survive, costs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy

from powerbert.acceleration.cost import CostTable
from powerbert.acceleration.judge import Answers
from powerbert.modeling.apply import retention_of
from powerbert.modeling.storage import load
from powerbert.modeling.trace import trace
from powerbert.report.words import readable
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.task import Task
from powerbert.text.tokenise import Text
from powerbert.training.runner import read_run

BINS = 5
EXAMPLES, LONGEST_SHOWN = 6, 400  # inputs that are shown, and characters of them


def agreement_by_length(task: Task, lengths: Sequence[int], before: Answers, after: Answers) -> list[dict[str, Any]]:
    """Share of equal answers in fifths of the inputs, by their length; numbers are hardly ever equal."""
    if task.kind == "regression":
        return []
    order = numpy.argsort(lengths, kind="stable")
    found = []
    for part in numpy.array_split(order, min(BINS, len(order))):
        own = [lengths[i] for i in part]
        same = float((before[part] == after[part]).mean())
        found.append({"from": min(own), "to": max(own), "rows": len(own), "agreement": same})
    return found


def time_of(costs: CostTable, retention: RetentionConfiguration, length: int) -> dict[str, Any]:
    """Milliseconds of each encoder for an input of a length, before and after."""
    full = costs.per_encoder(RetentionConfiguration.full(len(retention)), length)
    after = costs.per_encoder(retention, length)
    after += [0.0] * (len(full) - len(after))
    shown = {"before": full, "after": after}
    return {name: [1e3 * one for one in each] for name, each in shown.items()} | {"rest": 1e3 * costs.rest}


def examples(
    folder: Path, task: Task, texts: Sequence[Text], before: Answers, after: Answers, labels: Answers
) -> list[dict[str, Any]]:
    """A few short inputs with the words that survive; first those whose label changed."""
    if task.kind != "classification" or not task.labels:
        return []
    model, tokenizer = load(folder)
    if retention_of(model) is None:
        return []
    short = [i for i, text in enumerate(texts) if len("".join(text)) <= LONGEST_SHOWN]
    chosen = sorted(short, key=lambda i: bool(before[i] == after[i]))[:EXAMPLES]
    found = []
    for i in chosen:
        text = texts[i]
        seen = trace(model, tokenizer, *((text,) if isinstance(text, str) else text))
        words = [asdict(word) for word in readable(seen)]
        labelled = [{"label": task.labels[int(side[i])], "score": None} for side in (before, after)]
        truth = task.labels[int(labels[i])]
        shown = {"words": words, "encoders": len(seen.retention), "before": labelled[0], "after": labelled[1]}
        found.append(shown | {"truth": truth})
    return found


def costs_of(trained: Mapping[Path, float], tokens: int, fine_tuning: float) -> list[dict[str, Any]]:
    """What each training cost: real tokens, seconds, and how many fine-tunings of `fine_tuning` epochs that is.

    trained: folders, and the share of the work that the configurations of each process. tokens: of one pass.
    """
    found = []
    for folder, share in trained.items():
        record = read_run(folder)
        epochs = 0.0 if record["result"]["skipped"] else float(record["settings"]["options"]["epochs"])
        worth = epochs * share / fine_tuning
        row = {"stage": folder.name, "tokens": round(epochs * tokens), "seconds": record["result"]["seconds"]}
        found.append(row | {"fine_tunings": worth})
    return found


def work_on(retention: RetentionConfiguration, lengths: Sequence[int]) -> float:
    """Share of the full model's word-vectors that inputs of these lengths still need."""
    return sum(retention.total(length) for length in lengths) / (len(retention) * sum(lengths))

"""Which rows train, which rows decide, and which rows judge without having decided anything."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy
from datasets import ClassLabel

from powerbert.acceleration.goal import LOSS, Goal
from powerbert.engines.answers import answer
from powerbert.engines.engine import Engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import DataError, PowerBertError, UnsupportedModelError
from powerbert.modeling.apply import remove
from powerbert.modeling.limits import SEQUENCE
from powerbert.modeling.storage import load
from powerbert.tasks.encoding import texts_of
from powerbert.tasks.readers import read_split
from powerbert.tasks.registry import own_task
from powerbert.tasks.sources import DataSource
from powerbert.tasks.task import Kind, Split, Task, check_max_length
from powerbert.text.batches import TEACHER
from powerbert.training.data import Data, answers
from powerbert.training.heads import check_head, label_names

LEAST_TRAINED, LEAST_JUDGED = 64, 32  # rows; fewer teach nothing, or say nothing
MOST_JUDGED = 2_000  # rows for each of the two judging parts, where they are taken from the training data
TENTH = 0.1  # of the training data goes to each of them, where there is no dev file

MULTI_LABEL = "multi_label_classification"

logger = logging.getLogger("powerbert.training")


@dataclass(frozen=True)
class Parts:
    """The data of one acceleration."""

    data: Data  # `train`, and as `dev` the rows on which everything is chosen
    verdict: Split  # rows that nothing was chosen on
    how: str  # where the parts come from, for a person

    @property
    def labelled(self) -> bool:
        """Whether the labels are the user's own, not the original model's answers."""
        return self.data.labelled


def divide(task: Task, splits: Mapping[str, Split], max_length: int | None, *, labelled: bool = True) -> Parts:
    """Half of dev chooses and half judges; without dev a tenth of the training data each. Seed 0 decides which."""
    train = _shuffled(splits["train"])
    if "dev" in splits:
        dev, half = _shuffled(splits["dev"]), len(splits["dev"]) // 2
        choosing, verdict, train = _rows(dev, 0, half), _rows(dev, half, len(dev)), splits["train"]
        how = "half of dev chooses, the other half judges"
    else:
        held = min(MOST_JUDGED, int(TENTH * len(train)))
        choosing, verdict = _rows(train, 0, held), _rows(train, held, 2 * held)
        train = _rows(train, 2 * held, len(train))
        how = f"there is no dev file: {held:,} rows of the data choose and {held:,} others judge; none of them trains"
    for split, least, what in ((train, LEAST_TRAINED, "train on"), (choosing, LEAST_JUDGED, "judge by")):
        if len(split) < least:
            got, remedy = f"{len(split)} rows", "give more rows, or a larger dev file"
            raise DataError(f"too little data to {what}", got=got, rule=f"at least {least}", remedy=remedy)
    logger.info(how)
    return Parts(Data.of(task, {"train": train, "dev": choosing}, max_length, labelled=labelled), verdict, how)


def parts_of_texts(model: Path, texts: DataSource, text: str, text_pair: str | None, max_length: int | None) -> Parts:
    """Texts alone: the original model's answers are their labels."""
    check_max_length(max_length)
    network, tokenizer = load(model)
    tokenizer.model_max_length = min(max_length or tokenizer.model_max_length, tokenizer.model_max_length)
    if not type(network).__name__.endswith(SEQUENCE) or network.config.problem_type == MULTI_LABEL:
        what, rule = f"{model} cannot teach", "without labels the model itself answers, with one label for each text"
        got = network.config.problem_type or type(network).__name__
        raise UnsupportedModelError(what, got=got, rule=rule, remedy="give a fine-tuned classifier, or labelled data")
    names = label_names(network)
    kind: Kind = "regression" if len(names) == 1 else "classification"
    task = own_task(text, text_pair, kind=kind, labels=names, name="answers of the original model")
    split = read_split(texts, task, labelled=False)
    with TorchEngine(remove(network), tokenizer) as engine:
        logger.info("asking the original model about %s texts", f"{len(split):,}")
        split = labelled_by(engine, split, task)
    return divide(task, {"train": split}, max_length, labelled=False)


def check_given(folder: Path, parts: Parts, goal: Goal) -> None:
    """Refuse a goal that the rows cannot judge, and a classifier of another task, whose head would be thrown away."""
    task = parts.data.task
    if goal.kind == LOSS and not parts.labelled:
        remedy = "give --max-disagreement 5%, or labelled data"
        raise PowerBertError("--max-loss needs labels", got="texts alone", remedy=remedy)
    if task.kind == "multiple-choice":
        raise UnsupportedModelError("accelerate serves sequence classifiers", got=task.name)
    model, _ = load(folder)
    if type(model).__name__.endswith(SEQUENCE):
        remedy = "give a model of this task, or a pretrained encoder, which is fine-tuned first"
        check_head(model, folder, task, remedy)


def labelled_by(engine: Engine, split: Split, task: Task) -> Split:
    """The split with the answers of a model: as labels, and as what is taught, so that nobody asks it again."""
    logits = numpy.stack(list(answer(engine, texts_of(split.dataset[:]))))  # (rows, labels)
    dataset = split.dataset.add_column(TEACHER, list(logits)).add_column("label", answers(logits, task).tolist())
    if task.kind == "regression":
        return replace(split, dataset=dataset)
    return replace(split, dataset=dataset.cast_column("label", ClassLabel(names=list(task.labels or ()))))


def _shuffled(split: Split) -> Split:
    """All rows in another order; no note says so, for the parts that are taken from them are told by themselves."""
    return replace(split.part(len(split), 0), notes=split.notes)


def _rows(split: Split, start: int, end: int) -> Split:
    return replace(split, dataset=split.dataset.select(range(start, end), keep_in_memory=True))

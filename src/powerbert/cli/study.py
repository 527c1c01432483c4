"""`powerbert study`: a figure of the paper, for a model and data of one's own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch

from powerbert.cli.answering import EvaluateFlags
from powerbert.cli.data import is_task_folder, open_model, read_rows, task_of, tell_findings
from powerbert.cli.flags import Columns, StudyFlags, asked_retention, flag_of
from powerbert.cli.opening import existing_folder
from powerbert.cli.output import bar, located, note, show, working, write_json
from powerbert.cli.training import prepare, uninterrupted
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import DataError, PowerBertError
from powerbert.folders.manifest import glance
from powerbert.machine.describe import choose_threads
from powerbert.modeling.apply import remove
from powerbert.modeling.limits import longest_input
from powerbert.modeling.packing import pack
from powerbert.modeling.storage import elimination_in, load
from powerbert.retention import RetentionConfiguration
from powerbert.studies.registry import Study, find_study, study_function
from powerbert.studies.study import StudyOutcome, Subject, check_output, write_study
from powerbert.tasks.readers import read_split, task_data
from powerbert.tasks.task import Split, Task
from powerbert.training.data import Data
from powerbert.training.options import RetrainOptions

FOR_ALL = {"seed", "threads"}  # options of re-training that have a meaning without any


def study(asked: StudyFlags, columns: Columns, options: RetrainOptions) -> None:
    """Run one study, show it and write its three files."""
    wanted, output = find_study(asked.name), located(asked.output, "--output")
    if not wanted.trains:
        _check_untrained(asked.name, options)
    check_output(output, asked.name)
    given = {name: value for name in wanted.reads if (value := getattr(asked, name)) is not None}
    if "encoders" in given:
        given["encoders"] = asked.listed_encoders()
    if "retention" in given:
        given["retention"] = asked_retention(asked.retention, columns.max_length)
    threads, _ = choose_threads(options.threads)
    torch.set_num_threads(threads)
    prepare()
    subject = _subject(asked, columns, wanted, output, options.seed)
    outcome = _outcome(asked, columns, subject, options, given)
    decided = {
        name: value.to_json() if isinstance(value, RetentionConfiguration) else value for name, value in given.items()
    }
    if wanted.trains:
        decided |= {"options": asdict(options), "train": Path(asked.train or asked.data).name}
    files = write_study(asked.name, subject, outcome, threads, decided)
    if asked.shows:
        show(outcome.table)
        show(outcome.finding)
    note(f"wrote {', '.join(map(str, files))}")
    write_json(asked.json, outcome.figures | {"agrees": outcome.agrees, "finding": outcome.finding})


def _check_untrained(name: str, options: RetrainOptions) -> None:
    """Refuse an option of re-training for a study that trains nothing, rather than ignore it."""
    usual = RetrainOptions()
    for field in fields(options):
        if field.name not in FOR_ALL and getattr(options, field.name) != getattr(usual, field.name):
            raise PowerBertError(f"{flag_of(field)} is not of {name}", rule="it trains nothing", remedy="leave it out")


def _subject(asked: StudyFlags, columns: Columns, wanted: Study, output: Path, seed: int) -> Subject:
    """The model without elimination, and the rows."""
    folder = existing_folder(asked.model)
    if wanted.headed:
        answering = EvaluateFlags(model=asked.model, engine=TorchEngine.name, data=asked.data, split=asked.split)
        engine, task = open_model(answering, columns, asked.data)
        assert isinstance(engine, TorchEngine)  # as was asked for
        model, tokenizer, longest = engine.model, engine.tokenizer, engine.limits.longest
    else:
        with working("loading the model"):
            model, tokenizer = load(folder)
        task = task_of(columns, data=asked.data)
        tokenizer.model_max_length = columns.max_length or tokenizer.model_max_length
        longest = longest_input(model, tokenizer)
    carried = elimination_in(folder, glance(folder))
    if carried is not None and "retention" not in wanted.reads:
        note(f"{asked.model} carries a retention configuration: the full model is studied, without it")
    model = pack(remove(model).eval())
    split = _rows(asked, columns, task, wanted, seed)
    return Subject(folder, model, tokenizer, task, split, longest, output, seed, carried and carried[0], _watching)


def _rows(asked: StudyFlags, columns: Columns, task: Task, wanted: Study, seed: int) -> Split:
    """The rows of --data; a part of them if one was asked for, or if the study takes no more."""
    answering = EvaluateFlags(model=asked.model, data=asked.data, split=asked.split)
    split = read_rows(answering, columns, task, "dev", labelled=wanted.labelled)
    if asked.rows is not None and asked.rows > len(split):
        rule = f"{split.source} has {len(split):,} rows"
        raise DataError(
            "there are fewer inputs than asked for", got=asked.rows, rule=rule, remedy="give a smaller --rows"
        )
    return split.part(asked.rows or wanted.drawn, seed)


def _outcome(
    asked: StudyFlags, columns: Columns, subject: Subject, options: RetrainOptions, given: dict[str, Any]
) -> StudyOutcome:
    """Run the study; one that trains reads its training data first."""
    function = study_function(asked.name)
    if not find_study(asked.name).trains:
        return function(subject, **given)
    data = _training_data(asked, columns, subject)
    tell_findings(data)
    own = {name: value for name, value in given.items() if name not in ("train", "train_rows")}
    return uninterrupted(function, subject, data, **own, options=options)


def _training_data(asked: StudyFlags, columns: Columns, subject: Subject) -> Data:
    """Training rows, with the labels of the model, beside those of the subject, on which the study judges."""
    if asked.train is not None:
        train = read_split(asked.train, subject.task)
    elif is_task_folder(asked.data, columns):
        train = task_data(asked.data, subject.task, ("train",))["train"]
    else:
        remedy = "give --train FILE beside --data FILE, or --task NAME --data FOLDER"
        raise DataError("where is the training data?", remedy=remedy)
    splits = {"train": train.part(asked.train_rows, subject.seed), "dev": subject.split}
    return Data.of(subject.task, splits, columns.max_length)


@contextmanager
def _watching(total: int, unit: str) -> Iterator[Callable[[int], object]]:
    with bar(total, unit) as shown:
        yield shown.update

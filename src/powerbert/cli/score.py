"""`powerbert score`, also called `predict`: answers beside the rows of files of any size, and for GLUE."""

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from powerbert import __version__
from powerbert.cli.answering import ScoreFlags
from powerbert.cli.data import is_task_folder, open_model, read_rows, task_of
from powerbert.cli.flags import Columns
from powerbert.cli.opening import existing_folder, say_engine
from powerbert.cli.output import STANDARD_OUTPUT, bar, check_file, located, note, write_json, write_output, writing
from powerbert.errors import DataError, PowerBertError
from powerbert.folders.manifest import folder_digest, glance
from powerbert.machine.describe import choose_threads
from powerbert.scoring.answering import Answered, Answerer, Verdicts, answered_here
from powerbert.scoring.on_ray import answered_on_ray, cluster
from powerbert.scoring.rows import InputFiles, InputRow, Window, find_inputs, in_windows
from powerbert.scoring.run import score_windows, sound_windows
from powerbert.scoring.staging import Counts, Passage, Staging, begun, check_target, staged, staging_folder
from powerbert.scoring.write import FORMS, Form
from powerbert.tasks.files import EXTENSIONS, PIPED, RawRow, has_pairs, named_format
from powerbert.tasks.registry import submission
from powerbert.tasks.sources import HUB
from powerbert.tasks.task import Task
from powerbert.training.data import answers


@dataclass(frozen=True)
class Work:
    """What is answered."""

    windows: Callable[[int], Iterator[Window]]  # after so many
    about: int | None  # rows there are, where that is known
    inputs: InputFiles | None = None  # of files, by which a stopped run knows them again


def score(asked: ScoreFlags, columns: Columns) -> None:
    """Answer every row, and write it with its answer."""
    if asked.glue is not None and not Path(asked.glue).is_dir():
        raise PowerBertError("--glue is not a folder", got=asked.glue, remedy="create it first")
    target = _target(asked)
    name = _format(asked, target)
    inputs, part = None, _is_part_of_a_task(asked, columns)
    if columns.task is None and columns.text is None:
        columns = _default_columns(asked, columns)
    if not part:
        inputs = _inputs(asked, columns, target)
    elif asked.ray is not None:
        raise PowerBertError("--ray reads files", remedy="give IN without --split, --rows and --glue, or leave it out")
    with nullcontext() if asked.ray is None else cluster(asked.ray) as ray:
        asked = replace(asked, threads=_threads(asked, target))
        answerer = open_answerer(asked, columns)
        say_engine(answerer.engine)
        work = _task_rows(asked, columns, answerer.task) if inputs is None else _file_rows(inputs, answerer.task)
        errors = asked.on_error == "record"
        verdicts = Verdicts(answerer.engine, answerer.task, every=asked.all, prefix=asked.prefix, errors=errors)
        form = FORMS[name](verdicts.columns)
        with _place(asked, target, name, answerer, work) as place:
            if ray is None or work.inputs is None:
                answered = partial(answered_here, answerer)
            else:
                opened, room = partial(open_answerer, asked, columns), (asked.ray_cpus, asked.ray_workers)
                answered = partial(answered_on_ray, ray, work.inputs, opened, place.windows, *room)
            _run(asked, answerer.task, work, verdicts, form, place, answered)


predict = score


def open_answerer(asked: ScoreFlags, columns: Columns) -> Answerer:
    """The model, here or in a worker."""
    engine, task = open_model(asked, columns)
    gc.freeze()  # else libraries and model are searched for garbage again and again while rows come and go
    return Answerer(engine, task, asked.batch_size)


def _run(
    asked: ScoreFlags,
    task: Task,
    work: Work,
    verdicts: Verdicts,
    form: Form,
    place: Staging | Passage,
    answered: Callable[..., Iterator[Answered]],
) -> None:
    """Answer what is left, put the result in its place, and say how it went."""
    before, start, collected = place.counts, time.perf_counter(), list[Any]()
    if place.windows:
        note(f"goes on after {before.read:,} rows that were answered earlier")
        place.remind(form)
    with bar(work.about, "rows", before.read) as shown:

        def add(part: bytes, counts: Counts) -> None:
            place.add(part, counts)
            shown.update(counts.read - shown.n)

        windows = sound_windows(work.windows(place.windows), verdicts, asked.on_error)
        found = answered(windows, shown.update)
        if asked.glue is not None:
            found = _collecting(found, task, collected)
        counts = score_windows(found, verdicts, form, add, before, asked.on_error)
    place.finish(form)
    seconds = time.perf_counter() - start
    rate = (counts.answered - before.answered) / seconds
    left = "".join(f", {n:,} {what}" for what, n in asdict(counts).items() if what in ("skipped", "recorded") and n)
    note(f"answered {counts.answered:,} rows in {seconds:,.1f} s, {rate:,.0f} rows/s{left}")
    write_json(asked.json, asdict(counts) | {"seconds": round(seconds, 3), "rows_per_second": round(rate, 1)})
    if asked.glue is not None:
        name, content = submission(task, collected)
        write_output(str(Path(asked.glue) / name), content, "--glue")
        note(f"wrote {Path(asked.glue) / name}")


def _collecting(answered: Iterator[Answered], task: Task, into: list[Any]) -> Iterator[Answered]:
    for window, logits in answered:
        into += answers(logits, task).tolist()
        yield window, logits


# ---- what is answered --------------------------------------------------------------------


def _is_part_of_a_task(asked: ScoreFlags, columns: Columns) -> bool:
    """Whether a split is read as a whole: a task's, one of the hub, or what GLUE and a drawn part need."""
    whole = (asked.rows, asked.glue, asked.split) == (None, None, None)
    given = asked.rows_in or ""
    return not whole or given.startswith(HUB) or is_task_folder(given, columns)


def _default_columns(asked: ScoreFlags, columns: Columns) -> Columns:
    """The columns of texts that were not named: `text`, and of one pair per line also `text_pair`."""
    given = asked.rows_in or ""
    first = None if given.startswith(HUB) or os.path.isdir(given) else find_inputs(given)[0]
    if first is None or first == PIPED or (asked.input_format or named_format(first.name)) != "txt":
        return replace(columns, text="text")
    return replace(columns, text="text", text_pair="text_pair" if has_pairs(first) else None)


def _inputs(asked: ScoreFlags, columns: Columns, target: Path | None) -> InputFiles:
    """The files that are read."""
    paths = find_inputs(asked.rows_in or "")
    if target is not None:
        paths = tuple(path for path in paths if staging_folder(target) not in path.parents)
        if not paths:
            what, rule = "IN is what a stopped run has left", "that is no input of it"
            raise PowerBertError(what, got=asked.rows_in, rule=rule, remedy="give other files")
        if target in paths:
            rule = "nothing is written over what is read"
            raise PowerBertError("OUT is one of the inputs", got=str(target), rule=rule, remedy="give another name")
    if asked.ray is not None and paths == (PIPED,):
        raise PowerBertError("--ray reads files", got="standard input", remedy="give a file that all machines see")
    return InputFiles(paths, task_of(columns), asked.input_format, asked.window)


def _file_rows(inputs: InputFiles, task: Task) -> Work:
    inputs = replace(inputs, task=task)
    return Work(inputs.windows, inputs.about(), None if inputs.paths == (PIPED,) else inputs)


def _task_rows(asked: ScoreFlags, columns: Columns, task: Task) -> Work:
    """The rows of a split, each with its line or row in the source."""
    split = read_rows(replace(asked, source=None, data=asked.rows_in), columns, task, "test", labelled=False)
    if asked.glue is not None:  # refuse before the work what GLUE would not take
        submission(task, [0])  # a task that GLUE does not know
        if split.skipped:
            raise DataError("a submission has one answer per row of the test file", got=split.notes[0])

    def rows() -> Iterator[InputRow]:
        for row in split.dataset:
            texts = {name: row[name] for name in task.columns}
            place = f"{split.source}, {split.unit} {row['row']}"
            yield InputRow(RawRow(row["row"], {"row": row["row"], **texts}, place), texts)

    return Work(lambda done: in_windows(rows(), asked.window, done), len(split))


# ---- where it goes -----------------------------------------------------------------------


def _target(asked: ScoreFlags) -> Path | None:
    """The file that is made; None for standard output, a device or a pipe, and where only GLUE's is asked for."""
    given = asked.rows_out
    if given is None or given == STANDARD_OUTPUT:
        return None
    check_file(given, "OUT")
    target = Path(given).resolve()
    if target.exists() and not target.is_file():
        return None
    located(str(staging_folder(target)), "OUT")  # its name is longer
    check_target(target)
    return target


def _format(asked: ScoreFlags, target: Path | None) -> str:
    """The format of OUT: as asked for, else as its name says."""
    name = asked.format or ("jsonl" if target is None else named_format(target.name))
    if name not in FORMS:
        rule, remedy = f"files are {EXTENSIONS.replace('.txt ', '')}", "give such a name, or --format"
        raise PowerBertError("OUT has an unknown extension", got=asked.rows_out, rule=rule, remedy=remedy)
    if name == "parquet" and target is None:
        raise PowerBertError("Parquet is not written to a stream", got=asked.rows_out, remedy="give the name of a file")
    return name


@contextmanager
def _place(
    asked: ScoreFlags, target: Path | None, name: str, answerer: Answerer, work: Work
) -> Iterator[Staging | Passage]:
    """Where windows go: beside OUT until all are done, or straight to a stream."""
    if target is None:
        with writing(os.devnull if asked.rows_out is None else asked.rows_out, "OUT") as file:
            yield Passage(file.buffer)
        return
    settings, rows = _settings(asked, name, answerer, work.inputs), work.inputs
    try:
        with staged(target, settings, resumable=rows is not None) as place:
            yield place
    except BaseException:
        if known := begun(target):
            then = "goes on after them, another one needs it removed" if rows is not None else "begins anew"
            what = f"the answers to the first {known['counts']['read']:,} rows are in {staging_folder(target)}"
            note(f"{what}: the same command {then}")
        raise


def _settings(asked: ScoreFlags, name: str, answerer: Answerer, inputs: InputFiles | None) -> dict[str, Any]:
    """What decides the result, under names that a person knows."""
    engine, task, folder = answerer.engine, answerer.task, existing_folder(asked.model)
    return {
        "version": __version__,
        "model": [folder_digest(folder), glance(folder).graphs],
        "engine": f"{engine.name} {engine.precision}",
        "retention": None if engine.retention is None else str(engine.retention),
        "N": engine.limits.longest,
        "--threads": asked.threads,
        "task": [task.name, {role: list(names) for role, names in task.columns.items()}],
        "input": None if inputs is None else inputs.known_again(),
        "--input-format": asked.input_format,
        "--format": name,
        "--window": asked.window,
        "--batch-size": asked.batch_size,
        "--all": asked.all,
        "--prefix": asked.prefix,
        "--on-error record": asked.on_error == "record",
    }


def _threads(asked: ScoreFlags, target: Path | None) -> int:
    """As asked for, else as the run began, else those of a worker on Ray, else what is free here."""
    earlier = {} if target is None else begun(target).get("settings", {})
    if asked.threads is None and isinstance(known := earlier.get("--threads"), int):
        return known
    return choose_threads(asked.ray_cpus if asked.threads is None and asked.ray is not None else asked.threads)[0]

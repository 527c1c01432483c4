"""`powerbert bench`, the honest benchmark, and `doctor`: what this machine can run, and what to choose."""

import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from rich.console import Group

from powerbert.bench.arms import FEEDS, STOCK, Arm, Stock, Workbench
from powerbert.bench.run import choose_arms, curves, installed, measure_arms, paper_protocol, usable
from powerbert.cli.data import read_rows, task_of
from powerbert.cli.flags import BenchFlags, Columns, Figures
from powerbert.cli.opening import existing_folder
from powerbert.cli.output import note, progress, show, working, write_json, write_output
from powerbert.engines.open import ENGINES
from powerbert.errors import PowerBertError
from powerbert.export.write import RUNTIMES
from powerbert.machine.describe import Watch, choose_threads, duration, machine
from powerbert.machine.measure import peaks
from powerbert.machine.verdicts import BY_BATCH, ISA, PAIRS, examine, fastest, hold_isa, probe, remember
from powerbert.modeling.limits import trained_length
from powerbert.report import tables
from powerbert.report.pictures import bench_picture
from powerbert.tasks.encoding import texts_of
from powerbert.tasks.files import has_pairs, text_source
from powerbert.tasks.registry import own_task
from powerbert.text.tokenise import Text

PADDED_TO = 128  # N, unless the user says so or the model was trained at one
LONGEST = 512  # words of the longest inputs of the curves
LISTENING = 0.5  # seconds for which `doctor` does nothing, to hear whether others work


def bench(asked: BenchFlags, columns: Columns) -> None:
    """Measure elimination against the best that the machine does without it."""
    folder, engines = existing_folder(asked.model), _engines(asked)
    feeds = _listed(asked.feeds, "feed", FEEDS) or (list(FEEDS) if asked.thorough else [])  # none: each engine's own
    texts, longest = _texts(asked, columns), columns.max_length or trained_length(folder) or PADDED_TO
    threads, why = choose_threads()
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as temporary:
        with working("loading the model"):
            workbench = Workbench(folder, Path(temporary), texts, longest, threads)
        if asked.paper and workbench.retention is None:
            what, got = "--paper compares with a model that eliminates", f"{asked.model} has no retention configuration"
            raise PowerBertError(what, got=got, remedy="give the folder of a search or a re-training")
        arms = choose_arms(engines, asked.batch_sizes(), feeds, workbench.retention is not None)
        if not arms:
            raise PowerBertError("there is nothing to measure", remedy="give other --engines, --precisions or --feeds")
        rounds = asked.rounds or (5 if asked.thorough else 3)
        takes = duration(workbench.estimate(arms, rounds))
        note(f"{len(arms)} arms on {threads} thread{'s' * (threads > 1)} ({why}): about {takes} in all, if it is quiet")
        figures = _measured(asked, workbench, arms, engines, rounds)
    if asked.shows:
        show(tables.headline_table(figures))
        if asked.curves and workbench.retention is not None:
            show(tables.efficiency_table(figures))
    if figures["warning"]:
        note(f"warning: {figures['warning']}")
    if asked.plot is not None:
        write_output(asked.plot, bench_picture(figures), "--plot")
        note(f"wrote {asked.plot}")
    write_json(asked.json, figures)


def _measured(
    asked: BenchFlags, workbench: Workbench, arms: list[Arm], engines: list[tuple[str, str]], rounds: int
) -> dict[str, Any]:
    """All that was asked for; figures for JSON."""
    graphs = {(arm.engine, arm.precision, arm.model == "eliminated"): arm for arm in arms if arm.engine in RUNTIMES}
    for arm in progress(graphs.values()):
        workbench.engine(arm)
    what = f"{len(arms)} arms in {rounds} rounds of {len(workbench.texts)} texts"
    figures = measure_arms(workbench, arms, rounds, partial(progress, what=what), memory=asked.thorough)
    if asked.shows:
        show(tables.arms_table(figures))
        if asked.curves or asked.paper:
            write_json(asked.json, figures)  # what follows takes long and may be interrupted
    if asked.curves:
        longest = min(LONGEST, *(workbench.engine(arm).limits.longest for arm in arms))
        shown = partial(progress, what="cost against length and batch size")
        figures |= curves(workbench, engines, rounds, longest, shown)
    if asked.paper:
        shown = partial(progress, what=f"{asked.paper} runs as the paper measures")
        figures["paper"] = paper_protocol(workbench, asked.paper, shown)
    return figures


def _texts(asked: BenchFlags, columns: Columns) -> list[Text]:
    """At most --inputs texts of the file."""
    if asked.data is not None:
        task = task_of(columns, data=asked.data)
        if task.kind == "multiple-choice":
            raise PowerBertError("bench measures sequence classifiers", got=task.name)
        return texts_of(read_rows(asked, columns, task, "dev", labelled=False).dataset[:])
    path = Path(asked.texts or "")
    source = text_source(path, own_task("text", "text_pair" if has_pairs(path) else None), "txt")
    rows = [row.sound().values for row in islice(source.rows, asked.inputs)]
    if not rows:
        raise PowerBertError("--texts has no line", got=asked.texts, remedy="give one input per line")
    return texts_of({name: [row[name] for row in rows] for name in source.columns})


def _engines(asked: BenchFlags) -> list[tuple[str, str]]:
    """Engines with each precision they have; those that were named have to be installed."""
    known = {STOCK: Stock.precisions} | {name: engine.precisions for name, engine in ENGINES.items()}
    names = _listed(asked.engines, "engine", known) or installed()
    listed = [one.strip() for one in (asked.precisions or "").split(",") if one.strip()]
    wanted = listed or ["fp32", "int8", *BY_BATCH]
    pairs = [(name, one) for name in names for one in wanted if one in known[name]]
    if not pairs or not {*wanted} <= {one for own in known.values() for one in own}:
        rule = "; ".join(f"{name} has {' and '.join(known[name])}" for name in names)
        raise PowerBertError("no engine has this precision", got=asked.precisions, rule=rule)
    with working("trying engines and precisions"):
        pairs, left_out = usable(pairs)
        pairs = [pair for pair in pairs if listed or pair[1] not in BY_BATCH or not probe(*pair).is_slower]
    for line in left_out:
        note(line)
    return pairs


def _listed(asked: str | None, what: str, known: Iterable[str]) -> list[str]:
    names = [name.strip() for name in asked.split(",")] if asked else []
    if unknown := [name for name in names if name not in known]:
        raise PowerBertError(f"unknown {what}", got=unknown[0], rule="one of " + ", ".join(known))
    return names


def doctor(asked: Figures) -> None:
    """Say what this machine can run: machine, verdicts, peaks and the recommended choice."""
    with working("listening whether the machine is busy"):
        watch = Watch()
        time.sleep(LISTENING)
        warning = watch.warning()
        threads, why = choose_threads()
    described = machine()  # before a cap is set
    verdicts = []
    for engine, precision in PAIRS:
        with working(f"trying {engine} in {precision}"):
            verdicts.append(examine(engine, precision))
    remember(verdicts)
    cap = next((verdict.cap for verdict in verdicts if verdict.cap is not None), None)
    with working("measuring the peak of matrix products"):
        if cap is not None:
            hold_isa(cap)  # before the first product: then the peak is that of what can be had
        torch.set_num_threads(threads)
        peak = peaks(precision for _, precision in PAIRS)
    best = {"fastest": fastest(verdicts), "same_answers": fastest(verdicts, "fp32")}
    figures = {
        "machine": described,
        "engines": [asdict(verdict) for verdict in verdicts],
        "threads": threads,
        "threads_because": why,
        "peak_gflops": peak,
        "environment": {} if cap is None else {ISA: cap},
        "recommended": {name: one and {"engine": one.engine, "precision": one.precision} for name, one in best.items()},
        "warning": warning,
    }
    if asked.shows:
        show(Group(tables.machine_table(figures), tables.engines_table(figures), *tables.choice_lines(figures)))
    if warning:
        note(f"warning: {warning}")
    write_json(asked.json, figures)

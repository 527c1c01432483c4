"""`powerbert bench`: the honest benchmark."""

from __future__ import annotations

import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from powerbert.bench.arms import EXPORTED, FEEDS, STOCK, Arm, Stock, Workbench
from powerbert.bench.curves import curves, paper_protocol
from powerbert.bench.run import choose_arms, measure_arms
from powerbert.cli.data import existing_folder, read_rows, task_of
from powerbert.cli.groups import BenchFlags, Columns
from powerbert.cli.output import note, progress, show, working, write_bytes, write_json
from powerbert.engines.open import ENGINES
from powerbert.errors import PowerBertError
from powerbert.machine.describe import choose_threads, duration
from powerbert.machine.verdicts import hold_isa, probe
from powerbert.report.pictures import bench_picture
from powerbert.report.tables import arms_table, efficiency_table, headline_table
from powerbert.tasks.encoding import texts_of
from powerbert.text.tokenise import Text

PADDED_TO = 128
"""N, unless the user says so."""
LONGEST = 512
"""Words of the longest inputs of the curves."""


def bench(asked: BenchFlags, columns: Columns) -> None:
    """Measure elimination against the best that the machine does without it."""
    folder, feeds, engines = existing_folder(asked.model), _feeds(asked), _engines(asked)
    texts = _texts(asked, columns)
    threads, why = choose_threads()
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as temporary:
        with working("loading the model"):
            workbench = Workbench(folder, Path(temporary), texts, columns.max_length or PADDED_TO, threads)
        if asked.paper and workbench.retention is None:
            raise PowerBertError(
                "--paper compares with a model that eliminates",
                got=f"{asked.model} without a retention configuration",
                remedy="give the folder of a search or a re-training",
            )
        arms = choose_arms(engines, asked.batch_sizes(), feeds, workbench.retention is not None)
        rounds = asked.rounds or (5 if asked.thorough else 3)
        takes = duration(workbench.estimate(arms, rounds))
        note(f"{len(arms)} arms on {threads} thread{'s' * (threads > 1)} ({why}): about {takes} in all, if it is quiet")
        figures = _measure(asked, workbench, arms, engines, rounds)
    if asked.shows:
        show(headline_table(figures))
        if asked.curves and workbench.retention is not None:
            show(efficiency_table(figures))
    if figures["warning"]:
        note(f"warning: {figures['warning']}")
    if asked.plot is not None:
        write_bytes(asked.plot, bench_picture(figures), "--plot")
        note(f"wrote {asked.plot}")
    if asked.json is not None:
        write_json(asked.json, figures)


def _measure(
    asked: BenchFlags, workbench: Workbench, arms: list[Arm], engines: list[tuple[str, str]], rounds: int
) -> dict[str, Any]:
    """All that was asked for; figures for JSON."""
    graphs = {(arm.engine, arm.precision, arm.model == "eliminated"): arm for arm in arms if arm.engine in EXPORTED}
    for arm in progress(graphs.values()):
        workbench.engine(arm)
    what = f"{len(arms)} arms in {rounds} rounds of {len(workbench.texts)} texts"
    figures = measure_arms(workbench, arms, rounds, partial(progress, what=what), memory=asked.thorough)
    if asked.shows:
        show(arms_table(figures))
    if asked.json is not None and asked.shows and (asked.curves or asked.paper):
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
    try:
        lines = Path(asked.texts or "").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PowerBertError("--texts cannot be read", got=asked.texts, rule=str(error)) from error
    texts: list[Text] = []
    for line in [line for line in lines if line.strip()][: asked.inputs]:
        first, tab, second = line.partition("\t")
        texts.append((first, second) if tab else line)
    if not texts:
        raise PowerBertError("--texts has no line", got=asked.texts, remedy="give one input per line")
    return texts


def _engines(asked: BenchFlags) -> list[tuple[str, str]]:
    """Engines with each precision they have; those that were named have to be installed."""
    known = {STOCK: Stock.precisions} | {name: engine.precisions for name, engine in ENGINES.items()}
    installed = [name for name in known if name not in EXPORTED or find_spec(EXPORTED[name])]
    names = asked.engines.split(",") if asked.engines else installed
    if unknown := [name for name in names if name not in known]:
        raise PowerBertError("unknown engine", got=unknown[0], rule="one of " + ", ".join(known))
    precisions = asked.precisions.split(",")
    pairs = [(name, precision) for name in names for precision in precisions if precision in known[name]]
    if not pairs:
        raise PowerBertError("no engine has this precision", got=asked.precisions)
    return [pair for pair in pairs if _runs(*pair)]


def _runs(engine: str, precision: str) -> bool:
    """Whether this machine survives it; what does not is named and left out."""
    if precision == "fp32":
        return True
    with working(f"trying {engine} in {precision}"):
        verdict = probe(engine, precision)
    if verdict.runs and (verdict.cap is None or hold_isa(verdict.cap)):
        return True
    note(f"left out: {engine} in {precision} {verdict.state} ({verdict.detail})")
    return False


def _feeds(asked: BenchFlags) -> list[str]:
    """The feeds that were named, or none: then each engine has its own."""
    feeds = asked.feeds.split(",") if asked.feeds else list(FEEDS) if asked.thorough else []
    if unknown := [feed for feed in feeds if feed not in FEEDS]:
        raise PowerBertError("unknown feed", got=unknown[0], rule="one of " + ", ".join(FEEDS))
    return feeds

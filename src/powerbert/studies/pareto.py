"""Metric against time of all methods: trained alike, over seeds, and timed in turn in one run.

Paper: Comparison to Prior Methods
"""

import json
import logging
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from powerbert.bench.run import usable
from powerbert.engines.answers import tokenise_for
from powerbert.engines.engine import Engine
from powerbert.engines.open import ENGINES
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import MachineError, PowerBertError, UnsupportedModelError
from powerbert.export.write import export
from powerbert.folders.atomic import write_file
from powerbert.folders.manifest import folder_digest, read_manifest
from powerbert.machine.describe import Watch, choose_threads, machine
from powerbert.machine.measure import interleave, ratio
from powerbert.machine.verdicts import PAIRS, fastest, probe
from powerbert.modeling.apply import retention_of
from powerbert.modeling.dial import dial_in
from powerbert.modeling.storage import load
from powerbert.report.tables import plain_table
from powerbert.studies.contenders import IN_STUDENT, METHODS, OURS, Contender, Sizes, Trainings
from powerbert.studies.pareto_picture import draw_pareto, pareto_size
from powerbert.studies.study import StudyOutcome, Subject
from powerbert.tasks.encoding import encode_split, texts_of
from powerbert.text.batches import collate, length_order
from powerbert.text.tokenise import Text
from powerbert.training.data import Data, Evaluation, evaluate_with
from powerbert.training.options import Options, RetrainOptions
from powerbert.training.runner import Folder, command_line
from powerbert.training.steps import finetune

TUNED = "fine-tuned"
PARETO = "pareto.json"
TIMED_AT_ONCE = 32  # inputs of a batch that is timed
SCALING_ROWS = 256  # texts of the training data from which int8 takes its scales

_Key = tuple[int, str, str]  # number of a contender, engine, precision
logger = logging.getLogger("powerbert.training")


@dataclass(frozen=True)
class ParetoPlan:
    """What is compared, and how it is measured."""

    methods: tuple[str, ...] = tuple(METHODS)
    sizes: Sizes = field(default_factory=Sizes)
    seeds: tuple[int, ...] = (0,)
    engines: tuple[tuple[str, str], ...] = ()  # with their precisions; none: torch in fp32, and the fastest int8
    inputs: int = 256  # texts of dev that are timed
    rounds: int = 5

    def __post_init__(self) -> None:
        if unknown := [name for name in self.methods if name not in METHODS]:
            raise PowerBertError("unknown method", got=unknown[0], rule="one of " + ", ".join(METHODS))
        if not self.seeds or len({*self.seeds}) < len(self.seeds):
            raise PowerBertError("seeds are one or more different numbers", got=self.seeds)
        if min(self.inputs, self.rounds) < 1:
            raise PowerBertError("inputs and rounds are at least 1", got=(self.inputs, self.rounds))


def study_pareto(
    subject: Subject,
    data: Data,
    methods: str | None = None,
    seeds: str = "0",
    options: RetrainOptions | None = None,
    *,
    progress: bool = False,
) -> StudyOutcome:
    """Compare all methods, or some, from one fine-tuned model, over seeds of the trainings after it."""
    if subject.retention is not None:
        rule, remedy = "all methods start from one fine-tuned model", "give the folder that finetune wrote"
        raise UnsupportedModelError(f"{subject.folder} already eliminates", rule=rule, remedy=remedy)
    if not all(word.strip().isdecimal() for word in seeds.split(",")):
        raise PowerBertError("--seeds is a list of numbers", got=seeds, remedy="write for instance 0,1,2")
    chosen = tuple(name.strip() for name in methods.split(",")) if methods else tuple(METHODS)
    plan = ParetoPlan(chosen, seeds=tuple(map(int, seeds.split(","))))
    figures = pareto(subject.folder, data, subject.output / "pareto", plan, options=options, progress=progress)
    agrees, seen = _finding(figures)
    return StudyOutcome(
        figures, agrees, seen, _table(figures), lambda figure: draw_pareto(figure, figures), pareto_size(figures)
    )


def pareto(
    model: Folder,
    data: Data,
    output: Folder,
    plan: ParetoPlan | None = None,
    *,
    fine_tuning: Options | None = None,
    options: RetrainOptions | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Train and time our curve and every baseline; writes `pareto.json` to `output`, and returns figures.

    The same call goes on with a run that was stopped, and returns what it wrote if it is complete.

    model: a pretrained encoder, which is fine-tuned for each seed; or a fine-tuned model, which is the same for all.
    fine_tuning, options: of the fine-tuning and of every training after it; seeds are those of the plan.
    """
    if data.task.kind == "multiple-choice":
        raise UnsupportedModelError("pareto compares sequence classifiers", got=data.task.name)
    plan, output = plan or ParetoPlan(), Path(output)
    options, fine_tuning = options or RetrainOptions(), fine_tuning or Options()
    settings: dict[str, Any] = {"plan": asdict(plan), "options": asdict(options), "fine_tuning": asdict(fine_tuning)}
    settings |= {"model_digest": folder_digest(model), "data": data.digest, "max_length": data.max_length}
    settings = json.loads(json.dumps(settings))
    if (done := _already(output / PARETO, settings)) is not None:
        return done
    engines = _engines(plan)  # before any training: what does not run here is told at once
    found: dict[int, list[Contender]] = {}
    for seed in plan.seeds:
        home, own = output / f"seed-{seed}", replace(options, seed=seed)
        fine = finetune(model, data, home / TUNED, replace(fine_tuning, seed=seed), progress=progress).folder
        trainings = Trainings(fine, data, home, plan.sizes, own, progress=progress)
        found[seed] = [Contender(TUNED, TUNED, fine), *(one for name in plan.methods for one in trainings.of(name))]
    figures = {"settings": settings, "command": command_line()} | measured(found, engines, data, output, plan)
    write_file(output / PARETO, json.dumps(figures, indent=1).encode())
    return figures


def _already(path: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The figures of an earlier run of the same; others are measured anew, of trainings that are there."""
    figures = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return figures if figures.get("settings") == settings else None


def _engines(plan: ParetoPlan) -> list[tuple[str, str]]:
    """Those of the plan that run here; without any, torch in fp32, which computes no PAD, and the fastest int8."""
    small = None if plan.engines else fastest((probe(*pair) for pair in PAIRS), "int8")
    best = [] if small is None else [(small.engine, "int8")]
    found, notes = usable(plan.engines or [(TorchEngine.name, "fp32"), *best])
    for line in notes:
        logger.warning(line)
    if not found:
        raise MachineError("none of the engines runs here", got=plan.engines, remedy="give others")
    return found


def measured(
    found: dict[int, list[Contender]], engines: Sequence[tuple[str, str]], data: Data, output: Path, plan: ParetoPlan
) -> dict[str, Any]:
    """Score the models of all seeds, and time those of the first: weights do not change speed. Figures for JSON."""
    threads, why = choose_threads()
    torch.set_num_threads(threads)
    texts, scaling = (texts_of(data.splits[name].dataset[:]) for name in ("dev", "train"))
    first, texts = plan.seeds[0], texts[: plan.inputs]
    scores: dict[_Key, list[Evaluation]] = {}
    arms: dict[_Key, Callable[[], object]] = {}
    for engine, precision in engines:
        for seed, contenders in found.items():
            opened = Opened(output / f"seed-{seed}" / "graphs", engine, precision, scaling[:SCALING_ROWS], threads)
            for number, one in enumerate(contenders):
                logger.info("scoring %s, %s, in %s %s, seed %d", one.method, one.point, engine, precision, seed)
                own, key = opened.engine(one), (number, engine, precision)
                dev = encode_split(data.splits["dev"], data.task, own.tokenizer, own.limits.longest)
                scores.setdefault(key, []).append(evaluate_with(own, dev, data.task))
                if seed == first:
                    arms[key] = run_of(own, texts)
    watch = Watch()
    logger.info("timing %d arms in turn, %d rounds of %d texts", len(arms), plan.rounds, len(texts))
    timings = interleave(arms, plan.rounds)
    here = {"machine": machine() | {"threads": threads, "threads_because": why}, "warning": watch.warning()}
    points = []
    for key, timing in timings.items():
        number, engine, precision = key
        full, one = (0, engine, precision), found[first][number]
        point = {"method": one.method, "point": one.point, "engine": engine, "precision": precision}
        time = {"ms": 1e3 * timing.median / len(texts), "spread": timing.spread}
        speed_up = {"times_as_fast": ratio(timings[full], timing)}
        points.append(point | _scored(scores[key], scores[full]) | time | speed_up)
    head = {"task": data.task.name, "metric": data.task.metric, "seeds": [*plan.seeds], "inputs": len(texts)}
    return head | here | {"points": points, "compared": compared(points)}


def _scored(own: Sequence[Evaluation], full: Sequence[Evaluation]) -> dict[str, Any]:
    """The metric of each seed, and the word-vectors processed, as a share of those of the fine-tuned model."""
    values = [each.value for each in own]
    works = [each.word_vectors / other.word_vectors_full for each, other in zip(own, full, strict=True)]
    return {"values": values, "mean": statistics.mean(values), "work": statistics.mean(works)}


class Opened:
    """The models of one seed in one engine; a graph is exported once, and a folder is opened once."""

    def __init__(self, home: Path, engine: str, precision: str, scaling: Sequence[Text], threads: int) -> None:
        self.home, self.name, self.precision, self.scaling, self.threads = home, engine, precision, scaling, threads
        self.engines: dict[Path, Engine] = {}

    def engine(self, one: Contender) -> Engine:
        """A contender, ready to answer."""
        if one.folder not in self.engines:
            self.engines[one.folder] = self._open(one.folder)
        return self.engines[one.folder].at(one.budget)

    def _open(self, folder: Path) -> Engine:
        if self.name == TorchEngine.name:
            return TorchEngine.load(folder, None, self.threads)
        target = self.home / f"{folder.name}-{self.name}-{self.precision}"
        if not target.is_dir():
            manifest = read_manifest(folder)
            model, tokenizer = load(folder, manifest=manifest)
            dial = dial_in(folder, manifest, retention_of(model))
            export(model, tokenizer, target, self.name, self.precision, calibration=self.scaling, dial=dial)
        return ENGINES[self.name].load(target, self.precision, self.threads)


def run_of(engine: Engine, texts: Sequence[Text]) -> Callable[[], object]:
    """A function that answers all texts once, in batches of like length."""
    rows, pad = tokenise_for(engine, texts).rows, engine.tokenizer.pad_token_id
    rows = [rows[i] for i in length_order([len(row["input_ids"]) for row in rows])]
    batches = [collate(rows[at : at + TIMED_AT_ONCE], pad) for at in range(0, len(rows), TIMED_AT_ONCE)]

    def once() -> None:
        for batch in batches:
            engine.run(batch)

    return once


def compared(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of every point of a baseline how far we are ahead, with our own curve alone and with elimination in a student.

    ahead: of our points that take no longer, the best metric minus its own. faster: of our points that are as good, how
    many times as fast the fastest is. None where we have no such point.
    """
    rows = []
    for ours in ((OURS,), (OURS, IN_STUDENT)):
        for other in points:
            if other["method"] in (TUNED, OURS, IN_STUDENT):
                continue
            same = {name: other[name] for name in ("engine", "precision")}
            own = [one for one in points if one["method"] in ours and same.items() <= one.items()]
            as_fast = [one["mean"] - other["mean"] for one in own if one["ms"] <= other["ms"]]
            as_good = [other["ms"] / one["ms"] for one in own if one["mean"] >= other["mean"]]
            found = {"ahead": max(as_fast, default=None), "faster": max(as_good, default=None)}
            rows.append({"ours": [*ours], "method": other["method"], "point": other["point"]} | same | found)
    return rows


def _finding(figures: dict[str, Any]) -> tuple[bool, str]:
    """Whether, in every precision, we have a point that is as fast and as good for each point of a baseline."""
    rows = [row for row in figures["compared"] if len(row["ours"]) == 2]
    leads = [100 * row["ahead"] for row in rows if row["ahead"] is not None]
    won = sum(lead >= 0 for lead in leads)
    seen = f"for {won} of {len(rows)} points of the baselines we have one that is as fast and as good"
    seen += f", by up to {max(leads):.1f} points" if leads else ""
    return won == len(rows), seen + "; the paper's, up to 16 points on CoLA and 6 on RTE"


def _table(figures: dict[str, Any]) -> Table:
    """Every point, and by how much we are ahead of it at equal time and at equal metric."""
    compared = {
        (row["method"], row["point"], row["precision"]): row for row in figures["compared"] if len(row["ours"]) == 2
    }
    title = f"{figures['task']}, {figures['metric']} x 100; ahead: at equal time; faster: at equal metric"
    columns = ["metric", "work", "ms", "times as fast", "we are ahead", "faster"]
    table = plain_table(title, ["method", "point", "precision"], columns, padding=(0, 1))
    for point in figures["points"]:
        names = point["method"], point["point"], point["precision"]
        row = compared.get(names, {})
        cells = [f"{100 * point['mean']:.1f}", f"{point['work']:.0%}", f"{point['ms']:.2f}"]
        cells += [f"{point['times_as_fast']:.2f}"]
        cells += ["" if row.get("ahead") is None else f"{100 * row['ahead']:+.1f}"]
        cells += ["" if row.get("faster") is None else f"{row['faster']:.2f}"]
        table.add_row(*names, *cells)
    return table

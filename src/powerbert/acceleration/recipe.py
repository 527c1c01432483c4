"""`accelerate` from top to bottom: fine-tune, re-train once for a ladder of configurations, choose, measure, judge.

Every training is a folder in OUTPUT.partial and is not done twice; one that was stopped goes on where it was.
Everything is chosen on one part of the data and judged on another.
"""

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy

from powerbert import __version__
from powerbert.acceleration.choose import Tried, cheapest, expectations, shape_in_time
from powerbert.acceleration.cost import CostTable, measure_costs
from powerbert.acceleration.engine import Fastest, fastest_engine, inputs_at_once, times_over
from powerbert.acceleration.evidence import agreement_by_length, costs_of, examples, time_of, work_on
from powerbert.acceleration.goal import LATENCY, SPEEDUP, Goal
from powerbert.acceleration.judge import HARDLY, NOTHING, Comparison, compare, pronounce
from powerbert.acceleration.parts import Parts, check_given
from powerbert.acceleration.plan import plan
from powerbert.engines.engine import Engine
from powerbert.engines.open import open_engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.export.write import export
from powerbert.folders.atomic import only_run, remembered
from powerbert.folders.manifest import folder_digest
from powerbert.machine.describe import machine
from powerbert.modeling.apply import apply, encoders_of
from powerbert.modeling.limits import RUN
from powerbert.modeling.storage import load, save
from powerbert.report.acceleration_html import acceleration_page
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.encoding import encode_split, texts_of
from powerbert.tasks.metrics import metric
from powerbert.text.tokenise import Text
from powerbert.training.data import answers_with, encode_data
from powerbert.training.heads import model_for
from powerbert.training.ladder import all_rungs, depths_of, dial_of
from powerbert.training.options import AccelerateOptions
from powerbert.training.runner import Folder, StepResult, command_line
from powerbert.training.shapes import work
from powerbert.training.steps import finetune, retrain

REPORT, REPORT_PAGE = "report.json", "report.html"
MEASUREMENTS, COSTS = "measured.json", "costs"  # a file, and the name in it of the table of costs
LADDER = "ladder-of-{}"  # the folder of the re-training for rungs of so many encoders
SCALED_BY = 256  # texts of the training data from which int8 takes its scales

logger = logging.getLogger("powerbert.training")


class Acceleration:
    """One acceleration under way; `run` does all of it."""

    def __init__(
        self, model: Folder, parts: Parts, goal: Goal, output: Folder, options: AccelerateOptions, *, progress: bool
    ) -> None:
        check_given(Path(model), parts, goal)
        self.model, self.parts, self.goal, self.output = Path(model), parts, goal, Path(output).resolve()
        self.data, self.options, self.progress = parts.data, options, progress
        self.fine_tuning = options.fine_tuning(len(self.data.splits["train"]))
        self.work = self.output.with_name(self.output.name + ".partial")
        self.ladders: list[list[Tried]] = []  # what the rungs of each kept
        self.chosen: Tried | None = None
        self.engines: dict[Path, Fastest] = {}  # by the folder that was measured

    def run(self) -> dict[str, Any]:
        """All stages; returns the figures of the report."""
        self.prepare()
        if not self.goal.limits_loss:
            return self.finish(self.in_time(self.climbed(self.rungs_in_time())))
        for depth in depths_of(self.encoders):
            ladder = self.climbed(all_rungs(self.encoders, depth))
            self.chosen = cheapest(self.tried, self.goal)
            if self.chosen is not None:
                return self.finish(self.at(ladder, self.chosen))
            logger.info("no configuration of %d encoders keeps the goal on the rows that choose", depth)
        logger.warning(NOTHING)
        return self.finish(self.original)

    def climbed(self, rungs: list[RetentionConfiguration]) -> StepResult:
        """Re-train once for a ladder of configurations, and ask each of them about the rows that choose."""
        self.rungs, self.tried = rungs, list[Tried]()
        self.ladders.append(self.tried)
        shares = [100 * work(each.fractions) for each in rungs]
        told = len(rungs), rungs[0].depth, shares[0], shares[-1]
        logger.info("re-training once for %d configurations of %d encoders, %.0f to %.0f %% of the work", *told)
        ladder = self.retrained()
        self.trained[ladder.folder] = float(numpy.mean(shares)) / 100
        engine = self.answering(ladder)
        for share, each in zip(shares, rungs, strict=True):
            self.attempt(f"{share:.0f}% in {each.depth} encoders", engine, each)
        return ladder

    def in_time(self, ladder: StepResult) -> StepResult:
        """The mildest rung that is as fast as stated by the clock; the fastest of all, if none is."""
        quick = [one for one in self.tried if one.work <= self.enough + 1e-3]
        for one in quick or self.tried[-1:]:
            self.chosen, found = one, self.at(ladder, one)
            if self.over(found.folder) <= 1.0:
                break
        return found

    def at(self, ladder: StepResult, own: Tried) -> StepResult:
        """The folder of the ladder with one of its configurations, and with all of them on its dial."""
        folder = self.work / f"{ladder.folder.name}-at-{100 * own.work:.0f}"
        if not folder.is_dir():
            network, tokenizer = load(ladder.folder)
            network.config.problem_type = self.problem_type  # training sets it, and a score would become another
            own_run = {RUN: (ladder.folder / RUN).read_bytes()}
            save(apply(network, own.retention), tokenizer, folder, extra=own_run, dial=dial_of(self.rungs))
        return replace(ladder, folder=folder, retention=own.retention)

    def rungs_in_time(self) -> list[RetentionConfiguration]:
        """The rungs around the one that is as fast as stated, in depth and in length."""
        full = self.costs.seconds(RetentionConfiguration.full(self.encoders), self.lengths)
        limit = full / self.goal.value if self.goal.kind == SPEEDUP else self.goal.value / 1e3
        shape = shape_in_time(self.estimated, limit, self.encoders, self.timed)
        logger.info("%d encoders with %.0f %% of the work are as fast as stated", shape.depth, 100 * shape.budget)
        self.enough = shape.budget  # the largest share of the work that was measured to be as fast as stated
        return shape.rungs(self.encoders)

    def estimated(self, retention: RetentionConfiguration) -> float:
        """Mean seconds of an input of those that choose, by the table of costs."""
        return self.costs.seconds(retention, self.lengths)

    def timed(self, turn: int, rungs: list[RetentionConfiguration]) -> list[float]:
        """By what factor each of some rungs takes longer than stated, in one graph that serves them all."""
        folder = self.work / f"timed-{turn}"

        def measure() -> list[float]:
            network, tokenizer = load(self.original.folder)
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
            dial = {str(number): each for number, each in enumerate(rungs)}
            save(apply(network, rungs[0]), tokenizer, folder, dial=dial)
            return times_over(folder, self.graphs(folder), self.texts("dev"), self.longest, self.goal, self.costs)

        return self.once(folder.name, measure)

    def over(self, folder: Path) -> float:
        """By what factor a model takes longer than stated in the engine that is its fastest."""

        def measure() -> list[float]:
            fastest = self.measured_engine(folder)
            over = self.goal.value / fastest.times, 1e3 * fastest.seconds() / self.goal.value
            return [over[self.goal.kind == LATENCY]]

        return self.once(folder.name, measure)[0]

    def once(self, name: str, measure: Callable[[], list[float]]) -> list[float]:
        """What a measurement gave the first time: a stopped run goes on with it, or it would choose something else."""
        found: list[float] = remembered(self.work / MEASUREMENTS, name, measure)
        logger.info("%s takes %s of the time that is stated", name, ", ".join(f"{each:.2f}" for each in found))
        return found

    def measured_engine(self, folder: Path) -> Fastest:
        """The fastest engine of a model; each model is measured once."""
        if folder not in self.engines:
            logger.info("the fastest engine for %s", folder.name)
            most = 0.0 if self.chosen is None else self.chosen.comparison.spent(self.goal)
            given = (self.texts("dev"), self.texts("train", SCALED_BY), self.longest, self.goal, most, self.compared)
            self.engines[folder] = fastest_engine(folder, self.graphs(folder), *given)
        return self.engines[folder]

    def graphs(self, folder: Path) -> Path:
        """Where the graphs of a folder are written; those of a run that was killed are gone."""
        home = self.work / f"graphs-{folder.name}"
        shutil.rmtree(home, ignore_errors=True)
        return home

    def texts(self, name: str, most: int | None = None) -> list[Text]:
        """The first texts of a split, or all."""
        return texts_of(self.data.splits[name].dataset[:most])

    def already(self) -> dict[str, Any] | None:
        """The figures of an earlier run that is complete; an output of anything else is refused."""
        path = self.output / REPORT
        figures = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
        if figures is None:
            if self.output.exists() and any(self.output.iterdir()):
                raise PowerBertError(f"{self.output} is not empty", remedy="choose another --output")
            return None
        if figures.get("settings") != self.settings:
            remedy = "choose another --output, or delete the folder"
            raise PowerBertError(f"{self.output} holds another acceleration", remedy=remedy)
        logger.info("%s is already complete", self.output)
        return dict(figures)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What decides the result."""
        decided = {"goal": asdict(self.goal), "options": asdict(self.options), "model": folder_digest(self.model)}
        return decided | {"data": self.data.digest, "task": self.data.task.name, "labelled": self.parts.labelled}

    def prepare(self) -> None:
        """The original model with its head, its answers to the rows that choose, and what an encoder costs."""
        network, tokenizer, headed = model_for(self.model, self.data.task, self.options.seed)
        if encoders_of(network) < 2:
            raise UnsupportedModelError("there is nothing to eliminate", got="1 encoder", rule="at least 2")
        encoded = encode_data(self.data, network, tokenizer)
        for line in plan(encoded, network, tokenizer, self.options, headed=headed):
            logger.info(line)
        self.original = self.step("fine-tuned", finetune, self.model, options=self.fine_tuning)
        self.trained = {self.original.folder: 1.0}  # with the share of the work that each training processed
        network, self.tokenizer = load(self.original.folder)
        self.encoders, self.task, self.longest = encoders_of(network), encoded.task, encoded.max_length
        self.choosing, self.tokens = encoded.splits["dev"], sum(encoded.splits["train"]["length"][:])
        self.lengths = self.choosing["length"][:]
        self.labels = numpy.asarray(self.choosing["labels"][:])
        with TorchEngine(network, self.tokenizer) as engine:
            self.before = answers_with(engine, self.choosing, self.task)
            if compare(self.task.metric, self.before, self.before, self.labels).is_weak:
                logger.warning(HARDLY)
        # Numbers are taught as logits; where a score is something else, the labels judge and the answers teach.
        plain = self.task.kind != "regression" or engine.function() == "none"
        self.problem_type, self.taught = network.config.problem_type, self.parts.labelled and plain
        self.costs = self.measured(network)

    def measured(self, network: Any) -> CostTable:
        """The table of costs; a stopped run goes on with the one that it began with."""

        def measure() -> CostTable:
            logger.info("measuring what an encoder costs here, by length")
            rows = 1 if self.goal.kind == LATENCY else inputs_at_once([self.longest])
            return measure_costs(network, self.tokenizer, self.longest, rows, self.texts("train", SCALED_BY))

        return CostTable.from_json(remembered(self.work / MEASUREMENTS, COSTS, measure))

    def step(self, name: str, step: Callable[..., StepResult], model: Folder, **more: Any) -> StepResult:
        """Run a training step in a folder of its own."""
        return step(model, self.data, self.work / name, progress=self.progress, **more)

    def retrained(self) -> StepResult:
        """Re-train once for all rungs, taught by the original model."""
        options = self.options.retraining(labelled=self.taught)
        own = {"retention": self.rungs[len(self.rungs) // 2], "ladder": self.rungs, "teacher": self.original.folder}
        return self.step(LADDER.format(self.rungs[0].depth), retrain, self.original.folder, options=options, **own)

    def answering(self, ladder: StepResult) -> Engine:
        """The re-trained model in the engine and precision that are the fastest here by the table of costs.

        The rung is chosen on the answers that will be given: int8 may lose what fp32 keeps.
        """
        engine, precision = self.costs.engine, self.costs.precision
        network, tokenizer = load(ladder.folder)
        if engine == TorchEngine.name:
            return TorchEngine(network, tokenizer)
        logger.info("exporting all configurations to %s in %s", engine, precision)
        folder, texts = self.graphs(ladder.folder), self.texts("train", SCALED_BY)
        export(network, tokenizer, folder, engine, precision, calibration=texts, dial=dial_of(self.rungs))
        return open_engine(folder, engine, precision)

    def attempt(self, name: str, engine: Engine, retention: RetentionConfiguration) -> None:
        """Ask the re-trained model with a configuration about the rows that choose."""
        found = self.compared(engine.retaining(retention))
        logger.info("%s: %.2f points lost, %.1f %% other answers", name, found.loss, found.differing)
        self.tried.append(Tried(name, retention, found, self.estimated(retention)))

    def compared(self, engine: Engine) -> Comparison:
        """An engine against the original model, on the rows that choose."""
        return compare(self.task.metric, self.before, answers_with(engine, self.choosing, self.task), self.labels)

    def finish(self, final: StepResult) -> dict[str, Any]:
        """Find the fastest engine, judge on rows that nothing was chosen on, write the folder."""
        fastest = self.measured_engine(final.folder)
        network, tokenizer = load(final.folder)
        figures = self.judged(final, fastest)
        extra = {REPORT: json.dumps(figures, indent=1).encode(), REPORT_PAGE: acceleration_page(figures).encode()}
        extra[RUN] = (final.folder / RUN).read_bytes()  # with N, by which texts are cut as they were in training
        name = f"{fastest.arm.engine}-{fastest.arm.precision}"
        graph = {} if fastest.graph is None else {name: fastest.graph}
        dial = {} if final.retention is None else dial_of(self.rungs)
        save(network, tokenizer, self.output, extra=extra, graphs=graph, engine=next(iter(graph), None), dial=dial)
        return figures

    def judged(self, final: StepResult, fastest: Fastest) -> dict[str, Any]:
        """The figures of the report; the rows that judge are looked at here, and nowhere before."""
        rows = encode_split(self.parts.verdict, self.task, self.tokenizer, self.longest)
        with TorchEngine(*load(self.original.folder)) as engine:
            before = answers_with(engine, rows, self.task)
        folder = fastest.graph or final.folder
        after = answers_with(open_engine(folder, None, fastest.arm.precision), rows, self.task)
        labels, texts = numpy.asarray(rows["labels"][:]), texts_of(self.parts.verdict.dataset[:])
        comparison = compare(self.task.metric, before, after, labels)
        retention = final.retention or RetentionConfiguration.full(self.encoders)
        ms = {name: 1e3 * fastest.seconds(name) for name in ("full", "eliminated")}
        slower = fastest.seconds() / self.estimated(retention)  # than the table of costs says
        eliminated = final.retention is not None
        verdict = pronounce(self.goal, comparison, fastest.times, ms["eliminated"], eliminated=eliminated)
        return {
            "version": __version__,
            "settings": self.settings,
            "seed": self.options.seed,
            "machine": machine(),
            "goal": asdict(self.goal) | {"text": self.goal.text(self.task.metric)},
            "verdict": verdict | {"labelled": self.parts.labelled},
            "original": {"value": comparison.before, "interval": [*comparison.before_interval], "work": 1.0}
            | {"ms": ms["full"]}
            | {name: fastest.full[name] for name in ("engine", "precision")},
            "accelerated": {"value": comparison.after, "interval": [*comparison.after_interval]}
            | {"work": work_on(retention, rows["length"][:]), "ms": ms["eliminated"], "engine": fastest.arm.engine}
            | {"precision": fastest.arm.precision, "retention": retention.to_json(), "folder": str(self.output)},
            "speed": fastest.figures["headline"],
            "parts": {name: len(split) for name, split in self.data.splits.items()}
            | {"verdict": len(rows), "how": self.parts.how},
            "tried": [
                one.to_json(one is self.chosen, slower) | {"expected": lost}
                for ladder in self.ladders
                for one, lost in expectations(ladder, self.goal)
            ],
            "tried_on": {"value": metric(self.task.metric)(self.before, self.labels), "ms": ms["full"]},
            "engines": fastest.notes,
            "time": time_of(self.costs, retention, round(float(numpy.mean(self.lengths)))),
            "by_length": agreement_by_length(self.task, rows["length"][:], before, after),
            "examples": examples(final.folder, self.task, texts, before, after, labels),
            "costs": costs_of(self.trained, self.tokens, self.fine_tuning.epochs),
            "commands": [command_line()],
        }


def run_acceleration(
    model: Folder,
    parts: Parts,
    goal: Goal,
    output: Folder,
    options: AccelerateOptions | None = None,
    *,
    progress: bool = False,
) -> dict[str, Any]:
    """Make a classifier faster within a goal; returns the figures of the report.

    The folder `output` opens with `powerbert.pipeline` in the engine that was the fastest, and holds
    `report.html` and `report.json`. The same call goes on with a run that was stopped.
    """
    under_way = Acceleration(model, parts, goal, output, options or AccelerateOptions(), progress=progress)
    if (done := under_way.already()) is not None:  # before the lock: nothing is left beside a folder that is done
        return done
    with only_run(under_way.work):
        figures = under_way.already() or under_way.run()  # another run may have ended in the meantime
    shutil.rmtree(under_way.work, ignore_errors=True)
    return figures

"""Choose a rung on half of dev and judge it on the other half, hundreds of times, by two rules.

    python benchmarks/choice.py --data ../shared/data --runs RUNS --tasks CoLA,RTE,MRPC,STS-B --json choice.json

RUNS is what `accelerate_tasks.py` wrote. *isotonic*: the fastest rung whose smoothed loss is within the goal.
*expected*: `accelerate`'s own, which also knows how much a few hundred rows leave in doubt. Both see the same halves;
the answers of every rung in torch fp32 are kept beside the run. No training.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
from accelerate_tasks import parts_of
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from powerbert.acceleration.choose import Tried, cheapest
from powerbert.acceleration.goal import Goal
from powerbert.acceleration.judge import compare
from powerbert.engines.torch_engine import TorchEngine
from powerbert.machine.describe import machine
from powerbert.modeling.apply import apply, retention_of
from powerbert.modeling.storage import load
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.encoding import encode_split
from powerbert.tasks.metrics import metric
from powerbert.tasks.registry import find_task
from powerbert.training.data import answers_with, encode_data
from powerbert.training.ladder import all_rungs
from powerbert.training.shapes import work

GOAL = Goal("max-loss", 1.0)
LABELS, FULL, ANSWERS = "labels", "full", "rungs.npz"
Answers = dict[str, NDArray[Any]]  # by the name of a rung, of the full model, and of the labels


def rungs_of(home: Path) -> dict[str, RetentionConfiguration]:
    """The ladder that a run was taken from, by its budgets."""
    own = retention_of(load(home / "fast")[0])
    assert own is not None, f"{home} eliminates nothing"
    return {f"{work(each.fractions):.2f}": each for each in all_rungs(len(own), own.depth)}


def answers_of(home: Path, task_name: str, seed: int, data: str) -> Answers:
    """What the fine-tuned model and every rung of the accelerated one say to all rows of dev; asked once."""
    path = home / ANSWERS
    if not path.is_file():
        parts = parts_of(task_name, seed, data)
        network, tokenizer = load(home / "fine-tuned")
        encoded = encode_data(parts.data, network, tokenizer)
        halves = [encoded.splits["dev"], encode_split(parts.verdict, encoded.task, tokenizer, encoded.max_length)]

        def said(model: Any) -> NDArray[Any]:
            with TorchEngine(model, tokenizer) as engine:
                return numpy.concatenate([answers_with(engine, half, encoded.task) for half in halves])

        found = {LABELS: numpy.concatenate([half["labels"][:] for half in halves]), FULL: said(network)}
        ladder, _ = load(home / "fast")
        found |= {name: said(apply(ladder, each)) for name, each in rungs_of(home).items()}
        numpy.savez(path, **found)
    with numpy.load(path) as read:
        return {name: read[name] for name in read.files}


def isotonic(tried: Sequence[Tried], goal: Goal) -> Tried | None:
    """The fastest rung whose loss, made to rise with the speed, is within the goal."""
    smooth = isotonic_regression([one.comparison.loss for one in tried]).x
    within = [one for one, lost in zip(tried, smooth, strict=True) if lost <= goal.value]
    return within[-1] if within else None


RULES: dict[str, Callable[[Sequence[Tried], Goal], Tried | None]] = {"isotonic": isotonic, "expected": cheapest}


def judged(found: Answers, name: str, rungs: dict[str, RetentionConfiguration], halvings: int) -> list[dict[str, Any]]:
    """Of each rule what its choices lose on the other half, and the work that they do, over random halves."""
    score, draw, rows = metric(name), numpy.random.default_rng(0), len(found[LABELS])
    kept: dict[str, list[tuple[float, float]]] = {rule: [] for rule in RULES}
    for _ in range(halvings):
        order = draw.permutation(rows)
        choosing, judging = (
            {key: said[half] for key, said in found.items()} for half in numpy.split(order, [rows // 2])
        )
        tried = [
            Tried(key, each, compare(name, choosing[FULL], choosing[key], choosing[LABELS]), work(each.fractions))
            for key, each in rungs.items()
        ]
        before = score(judging[FULL], judging[LABELS])
        for rule, choose in RULES.items():
            one = choose(tried, GOAL)
            after = before if one is None else score(judging[one.name], judging[LABELS])
            kept[rule].append((100 * (before - after), 1.0 if one is None else one.seconds))
    whole = {key: score(said, found[LABELS]) for key, said in found.items() if key != LABELS}
    lost = {key: 100 * (whole[FULL] - value) for key, value in whole.items() if key != FULL}
    means = {rule: numpy.array(pairs) for rule, pairs in kept.items()}
    return [
        {"rule": rule, "lost": float(pairs[:, 0].mean()), "deviation": float(pairs[:, 0].std())}
        | {"within": float((pairs[:, 0] <= GOAL.value).mean()), "saving": float((1 / pairs[:, 1]).mean())}
        | {"rows": rows, "whole": lost}
        for rule, pairs in means.items()
    ]


def main() -> None:
    """Ask, choose, judge; a line for each task and rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of the tasks")
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--tasks", default="CoLA,RTE,MRPC,STS-B")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--halvings", type=int, default=100)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    figures: dict[str, Any] = {"machine": machine()["processor"], "halvings": given.halvings, "tasks": {}}
    for name in given.tasks.split(","):
        home = given.runs / f"{name}-{given.seed}"
        found = answers_of(home, name, given.seed, given.data)
        figures["tasks"][name] = judged(found, find_task(name).metric, rungs_of(home), given.halvings)
        for row in figures["tasks"][name]:
            print(
                f"| {name}, {row['rows']:,} | " + "{rule} | {lost:+.2f} | {within:.0%} | {saving:.2f} |".format(**row)
            )
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

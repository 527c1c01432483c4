"""Compare ways to a retention configuration at one budget and under one cost of training, on rows that chose nothing.

    python benchmarks/ways.py --model ../shared/models/gte-small --data ../shared/data --task MRPC --rows 2500 \\
        --judged 1576 --output RUNS
    python benchmarks/ways.py --model MODEL --data reviews.csv --rows 4800 --judged 4000 --output RUNS

Every way starts from the same fine-tuned model, ends at the same share of the word-vectors and costs the same: a way
without a search re-trains for more epochs. A cost of 1 is an epoch of fine-tuning on the same rows. Everything
resumes: run the same command again.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import torch

from powerbert.acceleration.judge import compare
from powerbert.engines.answers import answer_rows
from powerbert.engines.torch_engine import TorchEngine
from powerbert.machine.describe import machine
from powerbert.modeling.apply import apply, encoders_of, retention_of
from powerbert.modeling.storage import load
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.encoding import encode_split
from powerbert.tasks.readers import read_splits, task_data
from powerbert.tasks.registry import find_task, own_task
from powerbert.tasks.task import Split
from powerbert.training import Data, Options, RetrainOptions, SearchOptions, finetune, retrain, search
from powerbert.training.data import answers, encode_data
from powerbert.training.ladder import all_rungs, rung
from powerbert.training.shapes import first_encoders, linear, work
from powerbert.training.teacher import answer_distance

CHOOSING = 500  # rows of which the best checkpoint is taken


@dataclass
class Study:
    """One task: its fine-tuned model, the budget, and what a way may cost."""

    data: Data
    judged: Split
    root: Path
    budget: float
    cost: float
    seed: int
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        own = {"seed": self.seed, "learning_rate": self.learning_rate}
        self.common: dict[str, Any] = own | {"precision": "auto"}  # as `accelerate` trains

    def start(self, model: Path) -> None:
        """Fine-tune the model that all ways start from, and ask it about the rows that judge."""
        options = Options(**self.common)
        self.fine = finetune(model, self.data, self.root / "fine-tuned", options, progress=True).folder
        network, tokenizer = load(self.fine)
        self.encoders = encoders_of(network)
        self.encoded = encode_data(self.data, network, tokenizer)
        self.rows = encode_split(self.judged, self.encoded.task, tokenizer, self.encoded.max_length)
        self.before = self.answered(network, tokenizer)

    def answered(self, network: Any, tokenizer: Any) -> Any:
        """Logits for the rows that judge."""
        with TorchEngine(network, tokenizer) as engine:
            return numpy.stack(answer_rows(engine, list(self.rows)))

    def retrained(
        self, name: str, retention: RetentionConfiguration, cost: float, start: Path | None = None, **more: Any
    ) -> Path:
        """Re-train with one configuration for what is left of the cost."""
        options = RetrainOptions(epochs=round(cost / work(retention.fractions), 2), **self.common | more)
        start = start or self.fine
        return retrain(
            start, self.data, self.root / name, options, retention=retention, teacher=self.fine, progress=True
        ).folder

    def figures(self, name: str, folder: Path, retention: RetentionConfiguration | None = None) -> dict[str, Any]:
        """How the folder of a way does on the rows that judge, with its own configuration or another."""
        network, tokenizer = load(folder)
        if retention is not None:
            apply(network, retention)
        found = retention_of(network)
        assert found is not None
        return self.compared(name, self.answered(network, tokenizer), found)

    def compared(self, name: str, logits: Any, retention: RetentionConfiguration) -> dict[str, Any]:
        """Answers to the rows that judge against the labels and against the fine-tuned model's."""
        sides = [answers(each, self.encoded.task) for each in (self.before, logits)]
        comparison = compare(self.encoded.task.metric, *sides, numpy.asarray(self.rows["labels"][:]))
        moved = answer_distance(*map(torch.from_numpy, (logits, self.before)), self.encoded.task, 1.0)
        own = {"work": work(retention.fractions), "retention": str(retention), "moved": float(moved)}
        return {"way": name} | comparison.to_json() | own


def falling(study: Study) -> Path:
    """A linear fall through all encoders; no search."""
    return study.retrained("linear", linear(study.encoders, study.budget), study.cost)


def left_out(study: Study) -> Path:
    """The rung of the budget, through the first three quarters of the encoders; no search."""
    return study.retrained("left-out", rung(study.encoders, study.budget), study.cost)


def depth(study: Study) -> Path:
    """The first k encoders with all their word-vectors: the arm to beat. It gets at least the budget."""
    k = -int(-study.budget * study.encoders // 1)
    return study.retrained("depth", first_encoders(study.encoders, k), study.cost)


def soft_extract(study: Study) -> Path:
    """The paper's search with lambda found for the budget: one epoch."""
    options = SearchOptions(epochs=1, budget=study.budget, **study.common)
    found = search(study.fine, study.data, study.root / "soft-extract-search", options, progress=True)
    assert found.retention is not None
    return study.retrained("soft-extract", found.retention, study.cost - 1, found.folder)


def ladder(study: Study) -> Path:
    """`accelerate`'s way: one training for all rungs; judged with the one of the budget."""
    rungs = all_rungs(study.encoders)
    mean = float(numpy.mean([work(each.fractions) for each in rungs]))
    options = RetrainOptions(epochs=round(study.cost / mean, 2), **study.common)
    more: dict[str, Any] = {"retention": rungs[len(rungs) // 2], "ladder": rungs, "progress": True}
    return retrain(study.fine, study.data, study.root / "ladder", options, **more).folder


def unlabelled(study: Study) -> Path:
    """As `left_out`, on the fine-tuned model's answers alone."""
    return study.retrained("unlabelled", rung(study.encoders, study.budget), study.cost, distillation=1.0)


def hidden(study: Study) -> Path:
    """As `left_out`, with the final CLS vector of the fine-tuned model to learn from as well."""
    return study.retrained("hidden", rung(study.encoders, study.budget), study.cost, hidden_weight=1.0)


WAYS: dict[str, Callable[[Study], Path]] = {
    "linear": falling,
    "ladder": ladder,
    "depth": depth,
    "soft-extract": soft_extract,
    "unlabelled": unlabelled,
    "left-out": left_out,
    "hidden": hidden,
}


def ways_of(given: argparse.Namespace) -> dict[str, Callable[[Study], Path]]:
    """The ways that are asked for: those of this module, or configurations of the caller's own."""
    if given.configurations is None:
        return {name: WAYS[name] for name in given.ways.split(",")}
    own = {text: RetentionConfiguration.parse(text) for text in given.configurations.split()}
    return {text: partial(written_down, retention=each) for text, each in own.items()}


def written_down(study: Study, retention: RetentionConfiguration) -> Path:
    """A configuration that somebody wrote down; no search."""
    return study.retrained(str(retention), retention, study.cost)


def main() -> None:
    """Run the ways that are asked for, and write a line of JSON for each."""
    own = {
        "--configurations": {
            "help": "of your own instead of ways, shares with spaces between them: 1.0,1.0,0.5,0.0 1.0,1.0,1.0,0.0"
        }
    }
    given = arguments(__doc__, WAYS, own)
    study = prepared(given)
    study.start(given.model)
    results = given.output / "ways.json"
    done = json.loads(results.read_text()) if results.is_file() else {"machine": machine(), "ways": {}}
    for name, way in ways_of(given).items():
        if name not in done["ways"]:
            folder = way(study)
            # One training for all budgets is judged with the configuration of this one.
            retention = rung(study.encoders, study.budget) if name == "ladder" else None
            done["ways"][name] = study.figures(name, folder, retention)
            results.write_text(json.dumps(done, indent=1))
        print(shown(done["ways"][name]), flush=True)


def arguments(doc: str | None, ways: Iterable[str], more: Mapping[str, Any] | None = None) -> argparse.Namespace:
    """What is asked for on the command line; more: flags of a benchmark's own."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", required=True, help="folder of the tasks, or a file with columns text and label")
    parser.add_argument("--task", default="MRPC")
    parser.add_argument("--rows", type=int, default=2500)
    parser.add_argument("--judged", type=int, default=1576, help="rows that judge, of the rest of the data")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=0.35)
    parser.add_argument("--cost", type=float, default=2.0, help="epochs of fine-tuning that a way may cost")
    parser.add_argument("--ways", default=",".join(ways))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--learning-rate", type=float, help="by default that of the task")
    parser.add_argument("--max-length", type=int, help="N; by default that of the task")
    for flag, about in (more or {}).items():
        parser.add_argument(flag, **about)
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("powerbert.training").setLevel(logging.INFO)
    return parser.parse_args()


def shown(row: dict[str, Any]) -> str:
    """A way as a line of Markdown."""
    low, high = row["interval"]
    loss = f"{row['loss']:+.2f} ({low:+.2f} to {high:+.2f})"
    return f"| {row['way']} | {100 * row['work']:.0f} % | {loss} | {row['moved']:.4f} | {row['agreement']:.3f} |"


def prepared(given: argparse.Namespace) -> Study:
    """Training rows, rows that choose and rows that judge, all drawn with seed 0 and disjoint."""
    if Path(given.data).is_file():
        task, splits = read_splits({"train": given.data}, own_task("text"))
    else:
        task = find_task(given.task)
        splits = dict(task_data(given.data, task))
    shuffled = splits["train"].part(len(splits["train"]), 0)

    def rows(start: int, end: int) -> Split:
        return replace(shuffled, dataset=shuffled.dataset.select(range(start, end)))

    trained, chosen = given.rows, given.rows + CHOOSING
    data = Data.of(task, {"train": rows(0, trained), "dev": rows(trained, chosen)}, max_length=given.max_length)
    end = min(len(shuffled), chosen + given.judged)
    return Study(data, rows(chosen, end), given.output, given.budget, given.cost, given.seed, given.learning_rate)


if __name__ == "__main__":
    main()

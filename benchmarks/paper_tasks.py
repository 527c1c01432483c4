"""Take an encoder through the three steps on the paper's tasks and write what they cost and retain.

    python benchmarks/paper_tasks.py --model ../shared/models/gte-small --data ../shared/data \\
        --output RUNS --tasks CoLA,RTE --seeds 0,1,2

For each task and seed: fine-tune; search; re-train; the configuration untrained.
Everything resumes: run the same command again. `--table` prints the table of what is there.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from powerbert.modeling.apply import apply
from powerbert.modeling.storage import load
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.readers import task_data
from powerbert.tasks.registry import find_task
from powerbert.training import Data, Options, RetrainOptions, SearchOptions, StepResult, finetune, retrain, search
from powerbert.training.data import encode_data, evaluate
from powerbert.training.shapes import scaled, work

RESULT = "result.json"
THIRD, HALF = 0.035, 0.045
"""lambda where a third, or half, of the word-vectors shall go."""


@dataclass(frozen=True)
class Recipe:
    """What is trained on, and for how long."""

    rows: int | None = None
    """A part of the training set, drawn with the run's seed; None is all of it."""
    dev_rows: int | None = None
    """A part of the dev set, drawn with seed 0 for all runs."""
    max_length: int | None = None
    epochs: tuple[float, float, float] = (3, 1, 3)
    """Of fine-tuning, the search and re-training."""
    learning_rate: float = 5e-5
    retrain_rate: float | None = None
    """Learning rate of re-training, where the common one forgets more than the few rows teach."""
    batch_size: int = 16
    regulariser: float = THIRD
    most: float = 0.65
    """Share of the word-vectors; a learned configuration that has more is scaled down to it."""


LARGE = (2, 0.5, 1)
RECIPES = {
    "CoLA": Recipe(epochs=(4, 1, 3), batch_size=32),
    "RTE": Recipe(epochs=(4, 1, 2), regulariser=HALF, most=0.48),
    "MRPC": Recipe(epochs=(3, 1, 3), regulariser=HALF, most=0.48),
    "STS-B": Recipe(epochs=(2, 1, 2)),
    "SST-2": Recipe(rows=20_000, epochs=LARGE, batch_size=32),
    "QQP": Recipe(rows=5_000, dev_rows=2_000, epochs=LARGE),
    "MNLI-m": Recipe(rows=5_000, dev_rows=2_000, epochs=LARGE),
    "QNLI": Recipe(rows=4_000, dev_rows=2_000, epochs=LARGE, regulariser=HALF, most=0.48),
    "IMDB": Recipe(
        rows=1_500,
        dev_rows=1_000,
        max_length=256,
        epochs=(1, 0.5, 1),
        retrain_rate=2e-5,
        batch_size=8,
        regulariser=HALF,
        most=0.48,
    ),
    "RACE": Recipe(
        rows=120,
        dev_rows=120,
        max_length=256,
        epochs=LARGE,
        batch_size=4,
        learning_rate=3e-5,
        regulariser=HALF,
        most=0.48,
    ),
}


def main() -> None:
    """Run the asked tasks and seeds one after the other, then print the table."""
    logging.basicConfig(format="%(message)s")
    logging.getLogger("powerbert.training").setLevel(logging.INFO)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--tasks", default=",".join(RECIPES))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--labels-alone", action="store_true", help="also re-train without distillation")
    parser.add_argument("--table", action="store_true", help="only print the table of what is there")
    given = parser.parse_args()
    if not given.table:
        for seed in map(int, given.seeds.split(",")):
            for name in given.tasks.split(","):
                one_task(given, name, seed)
    print("\n".join(tables(given.output)))


def one_task(given: argparse.Namespace, name: str, seed: int) -> None:
    """The three steps on one task with one seed; the figures go to result.json."""
    recipe, task = RECIPES[name], find_task(name)
    splits = task_data(given.data, task)
    if recipe.rows is not None:
        splits["train"] = splits["train"].part(recipe.rows, seed)
    if recipe.dev_rows is not None:
        splits["dev"] = splits["dev"].part(recipe.dev_rows, 0)
    data, root = Data.of(task, splits, recipe.max_length), given.output / name / f"seed-{seed}"
    common: dict[str, Any] = {
        "learning_rate": recipe.learning_rate,
        "batch_size": recipe.batch_size,
        "accumulation": 1,
        "seed": seed,
        "precision": "bf16",
    }
    print(f"{name}, seed {seed}", flush=True)
    e_fine, e_search, e_retrain = recipe.epochs
    fine = finetune(given.model, data, root / "fine-tuned", Options(epochs=e_fine, **common))
    options = SearchOptions(epochs=e_search, regulariser=recipe.regulariser, **common)
    found = search(fine.folder, data, root / "searched", options)
    assert found.retention is not None
    retention = found.retention
    if work(retention.fractions) > recipe.most:
        retention = scaled(retention, recipe.most)
    rate = recipe.retrain_rate or recipe.learning_rate
    lesson = RetrainOptions(epochs=e_retrain, **common | {"learning_rate": rate})
    results = {
        "fine-tuned": fine,
        "searched": found,
        "re-trained": retrain(found.folder, data, root / "re-trained", lesson, retention=retention),
    }
    if given.labels_alone:
        alone = replace(lesson, distillation=0.0)
        output = root / "labels-alone"
        results["labels alone"] = retrain(found.folder, data, output, alone, retention=retention)
    figures = {label: _figures(result) for label, result in results.items()}
    figures["untrained"] = {"evaluation": _untrained(fine, retention, data)}
    head = {"task": name, "seed": seed, "rows": {n: len(s) for n, s in splits.items()}}
    head |= {"retention": str(retention), "epochs": recipe.epochs, "max_length": recipe.max_length}
    (root / RESULT).write_text(json.dumps(head | {"results": figures}, indent=1))


def _untrained(fine: StepResult, retention: RetentionConfiguration, data: Data) -> dict[str, Any]:
    """The learned configuration on the fine-tuned weights, with no training for it at all."""
    model, tokenizer = load(fine.folder)
    encoded = encode_data(data, model, tokenizer)
    applied = apply(model, retention)
    return evaluate(applied, encoded.splits["dev"], encoded.task, tokenizer).to_json()


def _figures(result: StepResult) -> dict[str, Any]:
    record = json.loads((result.folder / "run.json").read_text())["result"]
    return {name: record[name] for name in ("evaluation", "seconds", "tokens_per_second")}


THREE_STEPS = ("fine-tuned", "re-trained", "labels alone", "searched", "untrained")


def tables(output: Path) -> Iterator[str]:
    """The three steps in Markdown, a row per task: means over the seeds, with the spread of several."""
    found = {
        name: [json.loads(path.read_text()) for path in sorted(output.glob(f"{name}/seed-*/{RESULT}"))]
        for name in RECIPES
    }
    found = {name: results for name, results in found.items() if results}
    heads = ("task", "seeds", *THREE_STEPS, "change", "word-vectors", "goal")
    yield from _table(heads, (_three_steps(name, results) for name, results in found.items()))
    for name, results in found.items():
        yield from (f"{name}, seed {r['seed']}: {r['retention']}" for r in results)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield from (f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))


def _three_steps(name: str, found: list[dict[str, Any]]) -> list[str]:
    columns = {label: _values(found, label) for label in THREE_STEPS}
    change = [b - a for a, b in zip(columns["fine-tuned"], columns["re-trained"], strict=True)]
    spent = statistics.mean(100 * r["results"]["re-trained"]["evaluation"]["work"] for r in found)
    gone = 50 if RECIPES[name].regulariser == HALF else 100 / 3
    met = statistics.mean(change) >= -1 and 100 - spent >= gone
    cells = [_cell(values) for values in (*columns.values(), change)]
    return [name, str(len(found)), *cells, f"{spent:.1f} %", "met" if met else "**missed**"]


def _values(found: list[dict[str, Any]], label: str) -> list[float]:
    return [100 * r["results"][label]["evaluation"]["value"] for r in found if label in r["results"]]


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


if __name__ == "__main__":
    main()

"""Run `accelerate --max-loss 1.0`, with no other choice, on the paper's tasks, and write a table of what comes of it.

    python benchmarks/accelerate_tasks.py --model ../shared/models/gte-small --data ../shared/data \\
        --output RUNS --tasks CoLA,RTE,MRPC,STS-B --seeds 0,1,2

Beside it a model is fine-tuned for as many epochs as the accelerated one had in all, so that neither is favoured;
both are scored on the half of dev that judges. Everything resumes: run the same command again. `--table` prints
what is there.
"""

from __future__ import annotations

import argparse
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from powerbert.acceleration.goal import Goal
from powerbert.acceleration.parts import divide
from powerbert.acceleration.recipe import REPORT, run_acceleration
from powerbert.modeling.storage import load
from powerbert.tasks.encoding import encode_split
from powerbert.tasks.readers import task_data
from powerbert.tasks.registry import find_task
from powerbert.training import Options, finetune
from powerbert.training.data import evaluate
from powerbert.training.options import AccelerateOptions

LONGER = "longer.json"


@dataclass(frozen=True)
class Part:
    """How much of a task is used: rows of its training data, drawn with the run's seed, rows of dev, and N."""

    rows: int | None = None
    dev_rows: int | None = None
    max_length: int | None = None


PARTS = {
    "SST-2": Part(rows=20_000),
    "QNLI": Part(rows=6_000, dev_rows=2_000),
    "QQP": Part(rows=8_000, dev_rows=2_000),
    "MNLI-m": Part(rows=8_000, dev_rows=2_000),
    "IMDB": Part(rows=2_000, dev_rows=1_000, max_length=512),
}
"""Tasks that are not used whole."""


def run(task_name: str, seed: int, model: Path, data: str, root: Path) -> None:
    """One task and seed: the acceleration, and the longer fine-tuning."""
    task, part, home = find_task(task_name), PARTS.get(task_name, Part()), root / f"{task_name}-{seed}"
    splits = task_data(data, task)
    asked = {"train": splits["train"].part(part.rows, seed), "dev": splits["dev"].part(part.dev_rows, 0)}
    parts = divide(task, asked, part.max_length)
    options = AccelerateOptions(seed=seed)
    run_acceleration(model, parts, Goal("max-loss", 1.0), home / "fast", options, progress=True)
    epochs = options.epochs + options.ladder_epochs + options.final_epochs
    longer = finetune(model, parts.data, home / "longer", Options(epochs=epochs, seed=seed), progress=True)
    network, tokenizer = load(longer.folder)
    rows = encode_split(parts.verdict, task, tokenizer, tokenizer.model_max_length)
    (home / LONGER).write_text(json.dumps(evaluate(network, rows, task, tokenizer).to_json()))


def table(root: Path) -> str:
    """Every run that is complete, as Markdown."""
    lines = [
        "| task | seed | fine-tuned | fine-tuned longer | accelerated | lost | work | fp32 | int8 | fine-tunings |"
    ]
    lines.append("|" + "---|" * 10)
    for path in sorted(root.glob(f"*/fast/{REPORT}")):
        figures: dict[str, Any] = json.loads(path.read_text())
        name, _, seed = path.parents[1].name.rpartition("-")
        longer = path.parents[1] / LONGER
        other = f"{100 * json.loads(longer.read_text())['value']:.1f}" if longer.is_file() else ""
        low, high = figures["verdict"]["interval"]
        times = {
            row["precision"]: row["ratio"]
            for row in reversed(figures["speed"])
            if "best full arm in " in row["against"]
        }
        cost = sum(row["fine_tunings"] for row in figures["costs"])
        cells = [name, seed, f"{100 * figures['original']['value']:.1f}", other]
        cells += [f"{100 * figures['accelerated']['value']:.1f}"]
        cells += [f"{figures['verdict']['loss']:+.1f} ({low:+.1f} to {high:+.1f})"]
        cells += [f"{100 * figures['accelerated']['work']:.0f} %"]
        cells += [f"{times[each]:.2f}" if each in times else "" for each in ("fp32", "int8")]
        lines.append("| " + " | ".join([*cells, f"{cost:.1f}"]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run what is asked for, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a pretrained encoder")
    parser.add_argument("--data", help="folder of the tasks")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--tasks", default="CoLA,RTE,MRPC,STS-B")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--table", action="store_true", help="print what is there, and run nothing")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("powerbert.training").setLevel(logging.INFO)
    for name in () if asked.table else asked.tasks.split(","):
        for seed in map(int, asked.seeds.split(",")):
            run(name, seed, asked.model, asked.data, asked.output)
    print(table(asked.output))


if __name__ == "__main__":
    main()

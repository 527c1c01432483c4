"""Run `accelerate --max-loss 1.0`, with no other choice, on the paper's tasks, and write a table of what comes of it.

    python benchmarks/accelerate_tasks.py --model ../shared/models/gte-small --data ../shared/data \\
        --output RUNS --results docs/results/accelerate/tasks --tasks CoLA,RTE,MRPC,STS-B --seeds 0,1,2

The model is fine-tuned first, by the step that the command would begin with, so that its folder stays. With `--longer`
it is then trained on the labels for as many epochs more as the accelerated one was, so that neither is favoured; all
are scored on the half of dev that judges. Everything resumes: run the same command again. The figures of each run that
is complete are copied to RESULTS, from where `--table` prints them.
"""

from __future__ import annotations

import argparse
import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from powerbert.acceleration.goal import Goal
from powerbert.acceleration.parts import Parts, divide
from powerbert.acceleration.recipe import run_acceleration
from powerbert.machine.describe import machine
from powerbert.modeling.apply import encoders_of
from powerbert.modeling.storage import load
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.encoding import encode_split
from powerbert.tasks.readers import task_data
from powerbert.tasks.registry import find_task
from powerbert.training import finetune, retrain
from powerbert.training.data import encode_data, evaluate
from powerbert.training.options import AccelerateOptions


@dataclass(frozen=True)
class Part:
    """How much of a task is used: rows of its training data, drawn with the run's seed, rows of dev, and N."""

    rows: int | None = None
    dev_rows: int | None = None
    max_length: int | None = None


PARTS = {
    "SST-2": Part(rows=20_000),
    "QNLI": Part(rows=3_000, dev_rows=2_000),
    "QQP": Part(rows=4_000, dev_rows=2_000),
    "MNLI-m": Part(rows=4_000, dev_rows=2_000),
    "IMDB": Part(rows=1_000, dev_rows=1_000, max_length=512),
}
"""Tasks that are not used whole."""
LEFT_OUT = ("examples", "machine", "commands", "by_length", "time")  # of a report: long, or not for a table


def parts_of(task_name: str, seed: int, data: str) -> Parts:
    """Rows that train, choose and judge; the last two are the same for every seed."""
    task, part = find_task(task_name), PARTS.get(task_name, Part())
    splits = task_data(data, task)
    asked = {"train": splits["train"].part(part.rows, seed), "dev": splits["dev"].part(part.dev_rows, 0)}
    return divide(task, asked, part.max_length)


def accelerate(parts: Parts, seed: int, model: Path, home: Path) -> dict[str, Any]:
    """One task and seed."""
    options = AccelerateOptions(seed=seed)
    first = options.fine_tuning(len(parts.data.splits["train"]))
    fine = finetune(model, parts.data, home / "fine-tuned", first, progress=True).folder
    return run_acceleration(fine, parts, Goal("max-loss", 1.0), home / "fast", options, progress=True)


def longer(parts: Parts, seed: int, home: Path) -> dict[str, Any]:
    """What the rows that judge say of the fine-tuned model after as many epochs more as the accelerated one had."""
    fine = home / "fine-tuned"
    options = replace(AccelerateOptions(seed=seed).retraining(labelled=True), distillation=0.0)
    retention = RetentionConfiguration.full(encoders_of(load(fine)[0]))
    again = retrain(fine, parts.data, home / "longer", options, retention=retention, progress=True)
    network, tokenizer = load(again.folder)
    longest = encode_data(parts.data, network, tokenizer).max_length
    rows = encode_split(parts.verdict, parts.data.task, tokenizer, longest)
    return evaluate(network, rows, parts.data.task, tokenizer).to_json()


def table(results: Path) -> str:
    """Every run that is complete, as Markdown."""
    lines = ["| task | seed | fine-tuned | longer | accelerated | lost | work | fp32 | int8 | any | fine-tunings |"]
    lines.append("|" + "---|" * 11)
    for path in sorted(results.glob("*.json")):
        figures: dict[str, Any] = json.loads(path.read_text())
        name, _, seed = path.stem.rpartition("-")
        other = f"{100 * figures['longer']['value']:.1f}" if "longer" in figures else ""
        low, high = figures["verdict"]["interval"]
        times = {
            row["precision"]: row["ratio"]
            for row in reversed(figures["speed"])
            if "best full arm in " in row["against"]
        }
        cost = 1 + sum(row["fine_tunings"] for row in figures["costs"] if row["stage"] == "ladder")
        cells = [name, seed, f"{100 * figures['original']['value']:.1f}", other]
        cells += [f"{100 * figures['accelerated']['value']:.1f}"]
        cells += [f"{figures['verdict']['loss']:+.1f} ({low:+.1f} to {high:+.1f})"]
        cells += [f"{100 * figures['accelerated']['work']:.0f} %"]
        cells += [f"{times[each]:.2f}" if each in times else "" for each in ("fp32", "int8")]
        cells += [f"{figures['verdict']['speedup']:.2f}"]  # over the fastest full arm of all
        lines.append("| " + " | ".join([*cells, f"{cost:.1f}"]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run what is asked for, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a pretrained encoder")
    parser.add_argument("--data", help="folder of the tasks")
    parser.add_argument("--output", type=Path, help="folder of the runs")
    parser.add_argument("--results", type=Path, required=True, help="folder of the figures")
    parser.add_argument("--tasks", default="CoLA,RTE,MRPC,STS-B")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--longer", action="store_true", help="fine-tune for longer, too")
    parser.add_argument("--table", action="store_true", help="print what is there, and run nothing")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("powerbert.training").setLevel(logging.INFO)
    asked.results.mkdir(parents=True, exist_ok=True)
    for name in () if asked.table else asked.tasks.split(","):
        for seed in map(int, asked.seeds.split(",")):
            parts, home = parts_of(name, seed, asked.data), asked.output / f"{name}-{seed}"
            found = accelerate(parts, seed, asked.model, home)
            figures = {key: value for key, value in found.items() if key not in LEFT_OUT}
            figures |= {"machine": machine()["processor"]}
            figures["accelerated"] = found["accelerated"] | {"folder": "fast"}  # not where it lies here
            figures |= {"longer": longer(parts, seed, home)} if asked.longer else {}
            (asked.results / f"{name}-{seed}.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(table(asked.results))


if __name__ == "__main__":
    main()

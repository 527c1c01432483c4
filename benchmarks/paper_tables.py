"""The paper's two result tables: metric and time before and after, as the paper measures and as a user would.

    python benchmarks/paper_tables.py --runs RUNS --tasks-results docs/results/accelerate/tasks --data ../shared/data \\
        --results docs/results/paper-tables

RUNS is what `accelerate_tasks.py` made: a folder TASK-SEED with `fine-tuned` and `fast` for each task. Each is measured
by `powerbert bench`: batches padded to N with PAD computed like words (the paper's, against stock transformers), and
texts of their own lengths in every engine (against the best arm without elimination). What is measured is not measured
again: run the same command again. The paper's own figures stand beside ours: BERT-base on a GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from powerbert.tasks.registry import find_task


class Paper(NamedTuple):
    """Metric before and after, and times as fast; of BERT-base, and of ALBERT where the paper has it."""

    before: float
    after: float
    times: float


BERT = {
    "CoLA": Paper(52.5, 52.3, 4.5),
    "RTE": Paper(68.1, 67.4, 3.4),
    "QQP": Paper(71.2, 70.2, 4.5),
    "MRPC": Paper(88.7, 88.1, 2.7),
    "SST-2": Paper(93.0, 92.1, 2.4),
    "MNLI-m": Paper(84.6, 83.8, 2.6),
    "QNLI": Paper(91.0, 90.1, 2.0),
    "STS-B": Paper(85.8, 85.1, 2.0),
    "IMDB": Paper(93.5, 92.5, 2.7),
}
COMMAND = "import sys; from powerbert.cli.main import main; main(sys.argv[1:])"


def main() -> None:
    """Measure what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="folder of the models; without it the table is printed alone")
    parser.add_argument("--tasks-results", type=Path, required=True, help="folder of the figures of accelerate_tasks")
    parser.add_argument("--data", help="folder of the tasks")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0, help="of the models")
    parser.add_argument("--paper-runs", type=int, default=10, help="of batches padded to N; the paper takes 100")
    parser.add_argument("--inputs", type=int, default=128, help="texts of their own lengths")
    asked = parser.parse_args()
    asked.results.mkdir(parents=True, exist_ok=True)
    for task in BERT if asked.runs else ():
        model, figures = asked.runs / f"{task}-{asked.seed}" / "fast", asked.results / f"{task}.json"
        if model.is_dir() and not figures.exists():
            bench(asked, task, model, figures)
    print(table(asked))


def bench(asked: argparse.Namespace, task: str, model: Path, figures: Path) -> None:
    """Both protocols, in a process of its own."""
    given = [
        "bench",
        "--model",
        model,
        "--task",
        task,
        "--data",
        asked.data,
        "--max-length",
        find_task(task).max_length,
    ]
    given += ["--inputs", asked.inputs, "--batches", 32, "--paper", asked.paper_runs, "--json", figures]
    subprocess.run([sys.executable, "-c", COMMAND, *map(str, given)], check=True)


def table(asked: argparse.Namespace) -> str:
    """Every task that is there, as Markdown."""
    lines = ["| task | before | after | padded to N | fp32 | int8 | the paper: before | after | padded to N |"]
    lines.append("|" + "---|" * 9)
    for task, paper in BERT.items():
        judged, timed = asked.tasks_results / f"{task}-{asked.seed}.json", asked.results / f"{task}.json"
        if judged.is_file() and timed.is_file():
            lines.append(
                "| " + " | ".join(row(task, json.loads(judged.read_text()), json.loads(timed.read_text()), paper))
            )
    return "\n".join(lines)


def row(task: str, judged: dict[str, Any], timed: dict[str, Any], paper: Paper) -> list[str]:
    """The cells of a task."""
    best = {one["precision"]: one["ratio"] for one in reversed(timed["headline"]) if "best" in one["against"]}
    metrics = [f"{100 * judged[when]['value']:.1f}" for when in ("original", "accelerated")]
    ratios = [timed["paper"]["ratio"], best.get("fp32"), best.get("int8")]
    ours = [*metrics, *("" if each is None else f"{each:.2f}" for each in ratios)]
    return [task, *ours, f"{paper.before}", f"{paper.after}", f"{paper.times}", ""]


if __name__ == "__main__":
    main()

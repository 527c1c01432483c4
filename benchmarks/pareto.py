"""Metric against time: our curve and every baseline on one of the paper's tasks, over seeds, in fp32 and int8.

    python benchmarks/pareto.py --model ../shared/models/gte-small --task CoLA --data ../shared/data \\
        --seeds 0,1,2 --output RUNS/CoLA --results docs/results/pareto

Everything resumes: run the same command again. What is complete is copied to RESULTS, under the name of the task.
"""

from __future__ import annotations

import argparse
import logging
import shutil
from pathlib import Path
from typing import Any

from powerbert.folders.atomic import write_file
from powerbert.report.style import drawing, png, svg
from powerbert.studies.contenders import METHODS
from powerbert.studies.pareto import PARETO, ParetoPlan, pareto
from powerbert.studies.pareto_picture import draw_pareto, pareto_size
from powerbert.tasks.readers import task_data
from powerbert.tasks.registry import find_task
from powerbert.training import Data, Options, RetrainOptions


def main() -> None:
    """Run what is asked for, then print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of a pretrained encoder")
    parser.add_argument("--task", required=True, help="one of the paper's tasks")
    parser.add_argument("--data", required=True, help="folder of the tasks")
    parser.add_argument("--output", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--results", type=Path, help="folder to which figures and pictures are copied")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--rows", type=int, help="rows of the training data, drawn with seed 0; by default all")
    parser.add_argument("--dev-rows", type=int, help="rows of dev, drawn with seed 0; by default all")
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--methods", default=",".join(METHODS), help="separated by commas")
    parser.add_argument("--epochs", type=float, default=3.0, help="of fine-tuning")
    parser.add_argument("--retraining-epochs", type=float, default=5.0, help="of every training after it")
    parser.add_argument("--precision", default="fp32", help="of training")
    asked = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("powerbert.training").setLevel(logging.INFO)
    task, precision = find_task(asked.task), asked.precision
    splits = task_data(asked.data, task)
    parts = {"train": splits["train"].part(asked.rows, 0), "dev": splits["dev"].part(asked.dev_rows, 0)}
    plan = ParetoPlan(tuple(asked.methods.split(",")), seeds=tuple(map(int, asked.seeds.split(","))))
    figures = pareto(
        asked.model,
        Data.of(task, parts, asked.max_length),
        asked.output,
        plan,
        fine_tuning=Options(epochs=asked.epochs, precision=precision),
        options=RetrainOptions(epochs=asked.retraining_epochs, precision=precision),
        progress=True,
    )
    if asked.results is not None:
        asked.results.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(asked.output / PARETO, asked.results / f"{task.name}.json")
        with drawing(*pareto_size(figures), layout="constrained") as figure:
            draw_pareto(figure, figures)
            for kind, made in (("png", png(figure)), ("svg", svg(figure))):
                write_file(asked.results / f"{task.name}.{kind}", made)
    print(table(figures))


def table(figures: dict[str, Any]) -> str:
    """Every point as Markdown, and by how much we are ahead of it at equal time and at equal metric."""
    ours = [row for row in figures["compared"] if len(row["ours"]) == 1]
    ahead = {(row["method"], row["point"], row["precision"]): row for row in ours}
    lines = [
        f"{figures['task']}, seeds {figures['seeds']}, {figures['machine']['processor']}, {figures['command']}",
        "",
    ]
    lines += [f"| method | point | precision | {figures['metric']} | work | ms | times as fast | ahead | faster |"]
    lines += ["|" + "---|" * 9]
    for point in figures["points"]:
        row = ahead.get((point["method"], point["point"], point["precision"]), {})
        low, high = 100 * min(point["values"]), 100 * max(point["values"])
        cells = [point["method"], point["point"], point["precision"]]
        cells += [f"{100 * point['mean']:.1f} ({low:.1f} to {high:.1f})", f"{point['work']:.0%}", f"{point['ms']:.2f}"]
        cells += [f"{point['times_as_fast']:.2f}"]
        cells += ["" if row.get("ahead") is None else f"{100 * row['ahead']:+.1f}"]
        cells += ["" if row.get("faster") is None else f"{row['faster']:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

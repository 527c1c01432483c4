"""Compare an epoch of step 3 with an epoch of step 1: is re-training cheaper in proportion to the work?

    python benchmarks/step_speed.py --model ../shared/models/gte-small --data ../shared/data --task MRPC

Both steps run in turn, several times, on the same rows; the figure is the median over the rounds of the
ratio within a round. Step 3 distils from the fine-tuned model, whose answers are asked for before the clock
of `tokens/s` starts and inside that of `seconds`.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch

import powerbert
from powerbert.tasks.readers import task_data
from powerbert.tasks.registry import find_task
from powerbert.training import Data, Options, RetrainOptions, StepResult, finetune, retrain
from powerbert.training.shapes import shaped


def main() -> None:
    """Run the rounds and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", default="MRPC")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--budget", type=float, default=0.5, help="share of the word-vectors, falling linearly")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="fp32")
    given = parser.parse_args()
    task = find_task(given.task)
    splits = task_data(given.data, task)
    parts = {"train": splits["train"].part(given.rows, 0), "dev": splits["dev"].part(64, 0)}
    with tempfile.TemporaryDirectory() as folder:
        rounds = [one_round(given, Data.of(task, parts), Path(folder) / str(i)) for i in range(given.rounds)]
    print(json.dumps(summary(given, rounds), indent=1))


def one_round(given: argparse.Namespace, data: Data, root: Path) -> dict[str, Any]:
    """One epoch of each step, the second on the weights of the first."""
    common: dict[str, Any] = {"epochs": 1, "batch_size": 16, "accumulation": 1, "precision": given.precision}
    fine = finetune(given.model, data, root / "one", Options(**common))
    model, tokenizer = powerbert.load(fine.folder)
    retention = shaped("linear", model.config.num_hidden_layers, given.budget)
    powerbert.save(powerbert.apply(model, retention), tokenizer, root / "two")
    again = retrain(root / "two", data, root / "three", RetrainOptions(**common), teacher=fine.folder)
    work = again.evaluation.work
    return {"step 1": _figures(fine), "step 3": _figures(again), "word_vectors": work}


def _figures(result: StepResult) -> dict[str, float]:
    return {"seconds": result.seconds, "tokens_per_second": result.tokens_per_second}


def summary(given: argparse.Namespace, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The rounds, and the medians of their ratios."""

    def ratio(name: str) -> float:
        return statistics.median(r["step 3"][name] / r["step 1"][name] for r in rounds)

    return {
        "task": given.task,
        "rows": given.rows,
        "precision": given.precision,
        "machine": {"system": platform.platform(), "threads": torch.get_num_threads()},
        "word_vectors": rounds[0]["word_vectors"],
        "tokens_per_second_step3_over_step1": ratio("tokens_per_second"),
        "seconds_step3_over_step1": ratio("seconds"),
        "rounds": rounds,
    }


if __name__ == "__main__":
    main()

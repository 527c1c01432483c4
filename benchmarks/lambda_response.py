"""How the learned lengths respond to lambda: the decoupled optimiser against the release's Adam.

    python benchmarks/lambda_response.py --data ../shared/data

Fine-tunes all-MiniLM-L6-v2 (6 encoders) once on a part of a task, then searches from that one model
for every lambda with both optimisers, with r over bins of relative rank, and prints the masses as a
Markdown table: the share of the real length that each encoder retains, and their sum. Under the
release's Adam the learning rate of r bounds how far r falls, so `--release-travel` says how far over
the whole search; at the rate of the decoupled optimiser nearly every r would reach 0.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch

from powerbert.cli.demo import model_folder
from powerbert.elimination.soft_extract import relative_mass
from powerbert.tasks.readers import task_data
from powerbert.tasks.registry import find_task
from powerbert.training import Data, Options, SearchOptions, finetune, search

LAMBDAS = (0.003, 0.01, 0.03, 0.1, 0.3)
OPTIMISERS = ("decoupled", "release")


def part(folder: Path, name: str, rows: int, dev_rows: int, seed: int, length: int) -> Data:
    """A seeded part of a task."""
    task = find_task(name)
    splits = task_data(folder, task)
    parts = {"train": splits["train"].part(rows, seed), "dev": splits["dev"].part(dev_rows, seed)}
    return Data.of(task, parts, length)


def learned_masses(folder: Path) -> list[float]:
    """The mass of each encoder that a search wrote: shares of the real length."""
    table = json.loads((folder / "retention_parameters.json").read_text(encoding="utf-8"))
    return [float(mass) for mass in relative_mass(torch.tensor(table))]


def main() -> None:
    """Print one row per optimiser and lambda."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the task")
    parser.add_argument("--task", default="SST-2")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--dev-rows", type=int, default=200)
    parser.add_argument("--fine-epochs", type=float, default=3.0, help="epochs of the fine-tuning")
    parser.add_argument("--epochs", type=float, default=1.0, help="epochs of each search")
    parser.add_argument("--learning-rate", type=float, default=2e-4, help="of the weights")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=64, help="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lambdas", type=float, nargs="+", default=LAMBDAS)
    parser.add_argument("--release-travel", type=float, default=0.6, help="sum of the release's steps of r")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    data = part(given.data, given.task, given.rows, given.dev_rows, given.seed, given.length)
    common = {"batch_size": given.batch, "accumulation": 1, "seed": given.seed, "learning_rate": given.learning_rate}
    steps = given.epochs * given.rows / given.batch
    rates = {"decoupled": None, "release": 2 * given.release_travel / steps}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        start = Options(epochs=given.fine_epochs, **common)
        fine = finetune(model_folder(), data, root / "fine", start)
        print(
            f"{given.task}, {given.rows} rows, N={given.length}, seed {given.seed}, batch {given.batch}, "
            f"{steps:.0f} steps per search, {given.threads} thread(s); "
            f"fine-tuned {fine.evaluation.metric} {fine.evaluation.value:.3f} on {given.dev_rows} dev rows\n"
        )
        print("| optimiser | lambda | total mass | encoder 1 | 2 | 3 | 4 | 5 | 6 | seconds |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for optimiser in OPTIMISERS:
            for weight in given.lambdas:
                options = SearchOptions(
                    **common,
                    epochs=given.epochs,
                    regulariser=weight,
                    optimiser=optimiser,
                    retention_learning_rate=rates[optimiser],
                )
                output, begun = root / f"{optimiser}-{weight}", time.perf_counter()
                found = learned_masses(search(root / "fine", data, output, options).folder)
                cells = [f"{sum(found):.2f}", *(f"{mass:.2f}" for mass in found)]
                seconds = time.perf_counter() - begun
                print(f"| {optimiser} | {weight:g} | {' | '.join(cells)} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()

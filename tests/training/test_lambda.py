"""Lengths learned from real weights on a real task, and how they respond to lambda.

The oracle is the paper's loss: lambda * sum_j j * mass(j) presses on mass, and more on later encoders. So
a tenfold lambda leaves clearly less mass, and encoders differ. The release's Adam divides lambda * j away
wherever it outweighs the task's gradient, and wholly at the last encoder, which feels no other: its r
falls by the sum of the learning rates for any lambda. Seeds 0, 1 and 2 gave, from LOW to HIGH: total
mass times 0.13, 0.13, 0.12 (decoupled) and 0.79, 0.77, 0.75 (release); the last encoder's mass 0.46 to
0.00 (decoupled) and 0.52 to 0.52, 0.46 to 0.46, 0.44 to 0.46 (release).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from powerbert.cli.demo import model_folder
from powerbert.elimination.soft_extract import relative_mass
from powerbert.tasks.readers import task_data
from powerbert.tasks.registry import find_task
from powerbert.training import Data, Options, SearchOptions, finetune, search

ROWS, LENGTH, BATCH = 320, 32, 16
LOW, HIGH = 0.03, 0.3
RATES = {"decoupled": None, "release": 0.06}
"""Peak learning rate of r. Under the release's Adam it alone decides how far r falls: here by 0.6 in 20
steps; at the decoupled optimiser's own rate every r would reach 0 for any lambda."""


def learned(root: Path, data: Data, optimiser: str, weight: float, seed: int) -> list[float]:
    """Search; the mass of each encoder as a share of the real length."""
    options = SearchOptions(
        epochs=1,
        batch_size=BATCH,
        accumulation=1,
        learning_rate=2e-4,
        seed=seed,
        regulariser=weight,
        optimiser=optimiser,
        retention_learning_rate=RATES[optimiser],
    )
    output = root / f"{optimiser}-{weight}"
    search(root / "fine-tuned", data, output, options)
    table = json.loads((output / "retention_parameters.json").read_text())
    return relative_mass(torch.tensor(table)).tolist()


def response(root: Path, shared: Path, seed: int) -> dict[tuple[str, float], list[float]]:
    """Masses by optimiser and lambda, all from one fine-tuned all-MiniLM-L6-v2."""
    task = find_task("SST-2")
    splits = task_data(shared / "data", task)
    rows = {"train": ROWS, "dev": 32}
    data = Data.of(task, {name: splits[name].part(count, seed) for name, count in rows.items()}, LENGTH)
    options = Options(epochs=2, batch_size=BATCH, accumulation=1, learning_rate=2e-4, seed=seed)
    finetune(model_folder(), data, root / "fine-tuned", options)
    return {
        (optimiser, weight): learned(root, data, optimiser, weight, seed)
        for optimiser in RATES
        for weight in (LOW, HIGH)
    }


@pytest.fixture(
    scope="module", params=[pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1, 2)], ids="seed {}".format
)
def found(request, tmp_path_factory, shared):
    return response(tmp_path_factory.mktemp("lambda"), shared, request.param)


def spread(shares: list[float]) -> float:
    return max(shares) - min(shares)


def test_learned_lengths_differ_between_encoders_and_fall_with_depth(found):
    shares = found["decoupled", LOW]
    assert spread(shares) > 0.2
    assert sum(shares[:3]) > sum(shares[3:])


def test_a_tenfold_lambda_leaves_clearly_less_mass(found):
    assert sum(found["decoupled", HIGH]) < 0.3 * sum(found["decoupled", LOW])


def test_under_the_releases_adam_a_tenfold_lambda_leaves_most_of_the_mass(found):
    assert sum(found["release", HIGH]) > 0.6 * sum(found["release", LOW])


def test_under_the_releases_adam_lambda_and_j_do_nothing_where_they_outweigh_the_task(found):
    assert found["release", HIGH][-1] == pytest.approx(found["release", LOW][-1], abs=0.1)
    assert found["decoupled", HIGH][-1] < found["decoupled", LOW][-1] - 0.3
    assert spread(found["release", HIGH][3:]) < 0.05  # j = 4, 5, 6

"""The three steps as `accelerate launch` starts them, in one process or several."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from models import tiny
from runs import small_data
from texts import tokenizer_for

import powerbert
from powerbert.tasks.task import Split
from powerbert.training import Data, Options, RetrainOptions, SearchOptions, StepResult, finetune, retrain, search

EFFECTIVE = 8
"""Inputs per step of all processes together."""
LONGEST = 16
"""N: the longest input."""
FOLDERS = ("one", "two", "relative", "three")


def encoder(folder: Path) -> Path:
    """A tiny encoder without dropout: its training is a function of its batches alone."""
    model = tiny("bert", "Model", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    powerbert.save(model, tokenizer_for(), folder)
    return folder


def uneven_data() -> Data:
    """48 training rows are whole effective batches; 15 dev rows do not divide among two processes."""
    data = small_data()
    dev = Split(data.splits["dev"].dataset.select(range(15)))
    return Data.of(data.task, {"train": data.splits["train"], "dev": dev}, LONGEST)


def run_steps(root: Path, batch_size: int, names: tuple[str, ...] = FOLDERS) -> dict[str, StepResult]:
    """Fine-tune, search counts and shares, re-train with the counts; `batch_size` is per process."""
    data = uneven_data()
    common = {"batch_size": batch_size, "accumulation": 1, "seed": 3, "learning_rate": 1e-3}
    found = {"regulariser": 0.05, "epochs": 3} | common
    steps = {
        "one": (finetune, "pretrained", Options(epochs=3, evaluations=3, **common)),
        "two": (search, "one", SearchOptions(relative=False, **found)),
        "relative": (search, "one", SearchOptions(bins=8, **found)),
        "three": (retrain, "two", RetrainOptions(epochs=1, **common)),
    }
    return {
        name: step(root / model, data, root / name, options)
        for name, (step, model, options) in steps.items()
        if name in names
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"rank {os.environ['RANK']} is process {os.getpid()}", flush=True)
    run_steps(Path(sys.argv[1]), int(sys.argv[2]))

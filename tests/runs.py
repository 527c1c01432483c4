"""A tiny task and model on disk, and the three steps as one script that can be killed."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import torch
from datasets import Dataset
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert.tasks.readers import read_splits
from powerbert.tasks.registry import own_task
from powerbert.training import Data, Options, RetrainOptions, SearchOptions, finetune, retrain, search

FILLER = ["the", "film", "plot", "it", "is", "this", "that", "and", "but", "a"]
GOOD, BAD = ["good", "great", "very good"], ["bad", "dull", "not good"]


def small_data(rows: int = 48, max_length: int | None = None) -> Data:
    """Sentences whose one telling word decides the label."""
    rng = random.Random(0)

    def split(count: int) -> Dataset:
        made = []
        for i in range(count):
            filler = rng.choices(FILLER, k=rng.randint(2, 12))
            filler.insert(rng.randrange(len(filler)), rng.choice(GOOD if i % 2 else BAD))
            text = " ".join([*filler, chr(98 + i % 24)])
            made.append({"text": text, "label": "yes" if i % 2 else "no"})
        return Dataset.from_list(made)

    task, splits = read_splits({"train": split(rows), "dev": split(16)}, own_task("text"))
    return Data.of(task, splits, max_length)


def pretrained(folder: Path) -> Path:
    """A tiny random encoder without a head."""
    powerbert.save(tiny("bert", "Model"), tokenizer_for(), folder)
    return folder


def three_steps(root: Path) -> list[Path]:
    """Fine-tune, search, re-train; each resumes where it was killed."""
    data = small_data()
    common = {"batch_size": 8, "accumulation": 1, "seed": 3, "evaluations": 3}
    finetune(root / "pretrained", data, root / "one", Options(epochs=2, **common))
    search(root / "one", data, root / "two", SearchOptions(epochs=2, bins=8, **common))
    retrain(root / "two", data, root / "three", RetrainOptions(epochs=2, **common))
    return [root / name for name in ("one", "two", "three")]


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("imported", flush=True)
    three_steps(Path(sys.argv[1]))

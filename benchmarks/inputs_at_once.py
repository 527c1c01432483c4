"""How many inputs should be trained on at once: tokens per CPU second of a step of 64 inputs, in one go or in parts.

    OMP_NUM_THREADS=1 python benchmarks/inputs_at_once.py --model ../shared/models/gte-small
    OMP_NUM_THREADS=1 python benchmarks/inputs_at_once.py --model MODEL --inputs 16 --at-once 4,8,16 --lengths 270,480

Random words of one length, forward, backward, clipping and AdamW, in turn; the best of all rounds. Each also without
dropout on attention.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification
from transformers import logging as transformers_logging

from powerbert.modeling.apply import apply, attach, attached, encoders_of, remove, unpad
from powerbert.modeling.ops import fast_dropout
from powerbert.training.ladder import rung

WORK = 0.39


def step(model: Any, optimiser: torch.optim.Optimizer, length: int, rows: int, inputs: int) -> float:
    """CPU seconds of one step, the inputs in parts of so many rows."""
    words = torch.randint(1000, 20000, (rows, length))
    batch = {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": torch.randint(0, 2, (rows,))}
    start = time.process_time()
    for _ in range(inputs // rows):
        model(**batch).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return time.process_time() - start


def numbers(words: str) -> list[int]:
    """Whole numbers with commas between them."""
    return [int(word) for word in words.split(",")]


def main() -> None:
    """Print a line for each length, of fine-tuning and of re-training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--inputs", type=int, default=64, help="inputs of a step")
    parser.add_argument("--at-once", type=numbers, default=[16, 32, 64])
    parser.add_argument("--lengths", type=numbers, default=[13, 27, 55])
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    transformers_logging.set_verbosity_error()
    model = AutoModelForSequenceClassification.from_pretrained(given.model, dtype=torch.float32).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    retention = rung(encoders_of(model), WORK)
    kinds = {"fine-tuning": unpad, "re-training": partial(apply, retention=retention)}
    for (name, made), forgets, length in product(kinds.items(), (True, False), given.lengths):
        made(remove(model))
        attach(model, replace(attached(model), forgets=forgets))
        rates = dict.fromkeys(given.at_once, 0.0)
        with fast_dropout(model):
            for rows in given.at_once * given.rounds:
                seconds = step(model, optimiser, length, rows, given.inputs)
                rates[rows] = max(rates[rows], given.inputs * length / seconds)
        how = name if forgets else f"{name} without dropout on attention"
        print(f"{how}, {length} words:", ", ".join(f"{n} at once {rate:.0f}" for n, rate in rates.items()), flush=True)


if __name__ == "__main__":
    main()

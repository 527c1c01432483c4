"""How many inputs should be trained on at once: tokens per CPU second of a step of 64 inputs, in one go or in parts.

    OMP_NUM_THREADS=1 python benchmarks/inputs_at_once.py --model ../shared/models/gte-small

Random words of one length, forward, backward, clipping and AdamW, in turn; the best of four rounds.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification
from transformers import logging as transformers_logging

from powerbert.modeling.apply import apply, encoders_of, unpad
from powerbert.training.shapes import linear

INPUTS, AT_ONCE, LENGTHS, ROUNDS, WORK = 64, (16, 32, 64), (13, 27, 55), 4, 0.39


def step(model: Any, optimiser: torch.optim.Optimizer, length: int, rows: int) -> float:
    """CPU seconds of one step, the inputs in parts of so many rows."""
    words = torch.randint(1000, 20000, (rows, length))
    batch = {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": torch.randint(0, 2, (rows,))}
    start = time.process_time()
    for _ in range(INPUTS // rows):
        model(**batch).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return time.process_time() - start


def main() -> None:
    """Print a line for each length, of fine-tuning and of re-training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    given = parser.parse_args()
    transformers_logging.set_verbosity_error()
    model = AutoModelForSequenceClassification.from_pretrained(given.model, dtype=torch.float32).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    retention = linear(encoders_of(model), WORK)
    for name, made in {"fine-tuning": unpad, "re-training": partial(apply, retention=retention)}.items():
        made(model)
        for length in LENGTHS:
            turns = [{rows: step(model, optimiser, length, rows) for rows in AT_ONCE} for _ in range(ROUNDS)]
            rates = {rows: INPUTS * length / min(turn[rows] for turn in turns) for rows in AT_ONCE}
            print(name, f"{length} words:", ", ".join(f"{rows} at once {rate:.0f}" for rows, rate in rates.items()))


if __name__ == "__main__":
    main()

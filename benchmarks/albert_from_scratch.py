"""Accelerate a small ALBERT that was trained from scratch, for there are no weights of ALBERT here.

    python benchmarks/albert_from_scratch.py --tokenizer ../shared/models/gte-small --data ../shared/data --output RUNS

Twelve encoders of 128 dimensions share one set of weights. SST-2 is learned from phrases alone, so accuracy is far from
that of a pretrained model; what counts is what elimination takes from it. Everything resumes: run the same command
again. `random_bert.py --albert` and `powerbert bench` measure the time at the size of ALBERT-base.
"""

from __future__ import annotations

import argparse
import json
import logging
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AlbertConfig, AlbertModel, AutoTokenizer

import powerbert
from powerbert.acceleration.goal import Goal
from powerbert.acceleration.parts import divide
from powerbert.acceleration.recipe import run_acceleration
from powerbert.machine.describe import machine
from powerbert.tasks.readers import task_data
from powerbert.tasks.registry import find_task
from powerbert.training import finetune
from powerbert.training.options import AccelerateOptions

LEFT_OUT = ("examples", "commands", "by_length", "time")  # of a report: long, or not for a table


def main() -> None:
    """Train, accelerate, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--data", required=True, help="folder of the tasks")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--task", default="SST-2")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--epochs", type=float, default=3.0, help="of the training from scratch")
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("powerbert.training").setLevel(logging.INFO)
    if not (encoder := asked.output / "random").is_dir():
        write_random(asked, encoder)
    task = find_task(asked.task)
    splits = task_data(asked.data, task)
    parts = divide(task, {"train": splits["train"].part(asked.rows, asked.seed), "dev": splits["dev"]}, None)
    options = AccelerateOptions(seed=asked.seed, epochs=asked.epochs, learning_rate=asked.learning_rate)
    first = options.fine_tuning(asked.rows)
    fine = finetune(encoder, parts.data, asked.output / "trained", first, progress=True).folder
    options = replace(options, retraining_epochs=2.0)
    found = run_acceleration(fine, parts, Goal("max-loss", 1.0), asked.output / "fast", options, progress=True)
    figures = {key: value for key, value in found.items() if key not in LEFT_OUT} | {"machine": machine()}
    print(found["verdict"]["text"])
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1) + "\n")


def write_random(asked: argparse.Namespace, folder: Path) -> None:
    """A small ALBERT that knows nothing yet."""
    tokenizer = AutoTokenizer.from_pretrained(asked.tokenizer)
    torch.manual_seed(asked.seed)
    config = AlbertConfig(
        vocab_size=len(tokenizer),
        embedding_size=128,
        hidden_size=128,
        num_hidden_layers=12,
        num_attention_heads=4,
        intermediate_size=512,
        pad_token_id=tokenizer.pad_token_id,
    )
    powerbert.save(AlbertModel(config), tokenizer, folder)


if __name__ == "__main__":
    main()

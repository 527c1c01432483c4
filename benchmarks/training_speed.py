"""Compare training with transformers' own Trainer: real tokens a second, in turn in one run.

    python benchmarks/training_speed.py --model ../shared/models/gte-small --data ../shared/data --task MRPC

Stock is Trainer as it comes, with its grouping by length and its fused AdamW, on the same rows in the same batches.
The clock counts the CPU time of the steps: no evaluation, no checkpoint. Step 3 re-trains a linear fall on the
teacher's answers. Every arm is a process of its own. The figure is the median over the rounds of the ratio within one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from transformers import AutoModelForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed

from powerbert.machine.describe import machine
from powerbert.modeling.apply import encoders_of
from powerbert.modeling.storage import load
from powerbert.tasks.readers import task_data
from powerbert.tasks.registry import find_task
from powerbert.text.batches import Collator
from powerbert.training import Data, Options, RetrainOptions, finetune, retrain, runner
from powerbert.training.data import encode_data
from powerbert.training.ladder import rung
from powerbert.training.trainer import StepTrainer


class Clock(TrainerCallback):
    """CPU seconds of all steps, without what stands between them: other work on the machine does not count."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a step."""
        self.began = time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count it."""
        self.seconds += time.process_time() - self.began


def stock(given: argparse.Namespace, data: Data, root: Path) -> float:
    """One epoch of transformers' Trainer."""
    set_seed(0)
    _, tokenizer = load(given.model)
    model = AutoModelForSequenceClassification.from_pretrained(given.model, num_labels=len(data.task.labels or "1"))
    rows, clock = encode_data(data, model, tokenizer).splits["train"], Clock()
    arguments = TrainingArguments(
        output_dir=str(root),
        num_train_epochs=1,
        per_device_train_batch_size=given.batch,
        train_sampling_strategy="group_by_length",
        length_column_name="length",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )
    Trainer(model, arguments, Collator(tokenizer), rows, callbacks=[clock]).train()
    return clock.seconds


def ours(step: Any) -> float:
    """The seconds of one of our steps."""
    clock = Clock()
    with patch.object(runner, "StepTrainer", partial(StepTrainer, callbacks=[clock])):
        step()
    return clock.seconds


def fine_tuning(given: argparse.Namespace, data: Data, root: Path) -> float:
    """One epoch of step 1."""
    options = Options(epochs=1, batch_size=given.batch, accumulation=1)
    return ours(partial(finetune, given.model, data, root / "one", options))


def re_training(given: argparse.Namespace, data: Data, root: Path) -> float:
    """One epoch of step 3, after step 1."""
    retention = rung(encoders_of(load(root / "one")[0]), given.budget)
    options = RetrainOptions(epochs=1, batch_size=given.batch, accumulation=1)
    again = partial(retrain, root / "one", data, root / "three", options, retention=retention, teacher=root / "one")
    return ours(again)


ARMS = {"stock": stock, "fine-tuning": fine_tuning, "re-training": re_training}


def in_a_process(name: str, root: str) -> float:
    """The seconds of an arm in a process of its own."""
    command = [sys.executable, *sys.argv, "--arm", name, "--root", root]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Run the rounds and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", default="MRPC")
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--budget", type=float, default=0.45, help="share of the word-vectors, falling linearly")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--arm", help="run this arm alone")
    parser.add_argument("--root", type=Path)
    given = parser.parse_args()
    if given.arm is not None:
        task = find_task(given.task)
        splits = task_data(given.data, task)
        data = Data.of(task, {"train": splits["train"].part(given.rows, 0), "dev": splits["dev"].part(64, 0)})
        print(ARMS[given.arm](given, data, given.root))
        return
    rounds = []
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as root:
            rounds.append({name: in_a_process(name, root) for name in ARMS})
    ratios = {name: statistics.median(one["stock"] / one[name] for one in rounds) for name in ARMS}
    asked = {name: getattr(given, name) for name in ("task", "rows", "batch", "budget", "rounds")}
    print(json.dumps({"asked": asked, "machine": machine(), "times_as_fast": ratios, "seconds": rounds}, indent=1))


if __name__ == "__main__":
    main()

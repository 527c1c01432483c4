"""A thin subclass of transformers' Trainer: safe checkpoints, deterministic order, an objective of its own.

Modifications: checkpoints are staged and renamed (`checkpoints.publish`) and only whole ones are
resumed; batches are grouped by length in an order that is a function of seed and epoch, so that a
resumed run sees the same batches; the loss is a mean over the batch plus whatever the step adds; a
signal saves and stops.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback, TrainingArguments

from powerbert.tasks.batching import LengthGroupedSampler, length_order
from powerbert.training.checkpoints import PREFIX, newest_valid, publish, rotate
from powerbert.training.options import Options
from powerbert.training.retention_parameters import NAME, RetentionAdamW

METRIC = "eval_metric"

Objective = Callable[[Any, dict[str, Tensor], Any, int], Tensor]
"""(unwrapped model, inputs, its outputs on them, training step) -> the loss to minimise."""


class InterruptedRun(Exception):
    """Training stopped on a signal; its state is saved."""


def training_arguments(
    options: Options, work: Path, rows: int, *, best: bool, progress: bool
) -> TrainingArguments:
    """Translate our options to transformers'."""
    inputs_per_step = options.batch_size * options.accumulation * int(os.environ.get("WORLD_SIZE", "1"))
    every = max(1, round(math.ceil(rows / inputs_per_step) / options.evaluations))
    return TrainingArguments(
        output_dir=str(work),
        num_train_epochs=options.epochs,
        learning_rate=options.learning_rate,
        per_device_train_batch_size=options.batch_size,
        per_device_eval_batch_size=2 * options.batch_size,
        gradient_accumulation_steps=options.accumulation,
        gradient_checkpointing=options.gradient_checkpointing,
        warmup_steps=options.warmup,
        weight_decay=options.weight_decay,
        lr_scheduler_type="linear",
        eval_strategy="steps",
        save_strategy="steps",
        eval_steps=every,
        save_steps=every,
        logging_steps=max(1, every // 20),
        load_best_model_at_end=best,
        metric_for_best_model=METRIC,
        greater_is_better=True,
        remove_unused_columns=False,
        use_cpu=not torch.cuda.is_available(),
        seed=options.seed,
        data_seed=options.seed,
        report_to=[] if options.report_to == "none" else [options.report_to],
        disable_tqdm=not progress,
        dataloader_pin_memory=torch.cuda.is_available(),
    )


class StepTrainer(Trainer):
    """One training step of the paper, interruptible and resumable bit for bit."""

    def __init__(
        self,
        *args: Any,
        objective: Objective | None = None,
        retention_group: dict[str, Any] | None = None,
        status: Callable[[], dict[str, float]] = dict,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.objective: Any = objective
        self.retention_group = retention_group
        self.status = status
        self.tokens, self.seconds = 0, 0.0
        self.loss_is_scaled_for_ga = False  # our loss is a mean over the batch
        self.add_callback(Recorder(Path(str(self.args.output_dir)) / "metrics.jsonl"))

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """AdamW without decay on norms and biases, and a group of its own for r."""
        if self.optimizer is None:
            own: Any = self.model
            decayed = set(self.get_decay_parameter_names(own))
            named = [(n, p) for n, p in own.named_parameters() if p.requires_grad and n != NAME]
            groups: list[dict[str, Any]] = [
                {"params": [p for n, p in named if n in decayed], "weight_decay": self.args.weight_decay},
                {"params": [p for n, p in named if n not in decayed], "weight_decay": 0.0},
            ]
            if self.retention_group is not None:
                r = getattr(own, NAME)
                groups.append({"params": [r], "weight_decay": 0.0} | self.retention_group)
            self.optimizer = RetentionAdamW(groups, lr=self.args.learning_rate)
        return self.optimizer

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """The model's own loss, and while training what the step adds to it."""
        outputs = model(**inputs)
        loss = outputs["loss"]
        if model.training and self.objective is not None:
            own = self.accelerator.unwrap_model(model)
            loss = self.objective(own, inputs, outputs, self.state.global_step)
        return (loss, outputs) if return_outputs else loss

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Count real tokens and the seconds spent on them."""
        start = time.perf_counter()
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        self.seconds += time.perf_counter() - start
        self.tokens += int(inputs["attention_mask"].sum())
        return loss

    @property
    def tokens_per_second(self) -> float:
        """Real tokens trained on per second, since this process started."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the throughput and what the step has to say, such as its mass."""
        if "loss" in logs:
            logs = logs | {"tokens_per_second": round(self.tokens_per_second)} | self.status()
        super().log(logs, start_time)

    def _get_train_sampler(self, train_dataset: Any = None) -> torch.utils.data.Sampler[int]:
        dataset: Any = self.train_dataset if train_dataset is None else train_dataset
        size = self.args.per_device_train_batch_size * self.args.gradient_accumulation_steps
        return LengthGroupedSampler(dataset["length"][:], size * self.args.world_size, self.args.seed)

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        return length_order(eval_dataset["length"][:])  # any iterable of rows is a sampler

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Write a whole checkpoint or none; keep it, the best and no other."""
        folder = Path(str(self.args.output_dir))
        final = folder / f"{PREFIX}{self.state.global_step}"
        staging = folder / f".staging-{self.state.global_step}"
        if self.state.best_global_step:
            self.state.best_model_checkpoint = str(folder / f"{PREFIX}{self.state.best_global_step}")
        if self.args.should_save:
            shutil.rmtree(staging, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        self.save_model(str(staging), _internal_call=True)
        self._save_optimizer_and_scheduler(str(staging))
        self._save_rng_state(str(staging))
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            self.state.save_to_json(str(staging / "trainer_state.json"))
            publish(staging, final)
            rotate(folder, {final, Path(self.state.best_model_checkpoint or final)})
        self.accelerator.wait_for_everyone()

    def run(self) -> None:
        """Train from the newest whole checkpoint, or from the start; a signal saves and stops."""
        stopper = Stopper()
        self.add_callback(stopper)
        folder = Path(str(self.args.output_dir))
        checkpoint = newest_valid(folder)
        if self.args.should_save:
            for leftover in folder.glob(".staging-*"):
                shutil.rmtree(leftover, ignore_errors=True)
        with stopper.listening():
            self.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        if stopper.signal is not None:
            step = self.state.global_step
            raise InterruptedRun(f"stopped and saved at step {step}; the same command goes on from there")


class Stopper(TrainerCallback):
    """On SIGINT or SIGTERM: finish the step, save, stop. A second SIGINT stops at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen for signals while training runs."""

        def note(number: int, frame: FrameType | None) -> None:
            if self.signal is not None:
                raise KeyboardInterrupt
            self.signal = number

        try:
            before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not the main thread: signals are somebody else's
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ask the Trainer to save and stop once a signal has come."""
        if self.signal is not None:
            control.should_save = True
            control.should_training_stop = True


class Recorder(TrainerCallback):
    """Append every log of the Trainer to metrics.jsonl, with real tokens per second."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Write one line; the file is opened each time, so a kill loses at most one."""
        if state.is_world_process_zero and logs:
            line = {"step": state.global_step, "seconds": round(time.perf_counter() - self.start, 3)} | logs
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

"""A thin subclass of transformers' Trainer: safe checkpoints, deterministic order, an objective of its own.

Modifications: checkpoints are staged and renamed (`checkpoints.publish`) and only whole ones are
resumed; batches are grouped by length in an order that is a function of seed and epoch, so that a
resumed run sees the same batches; the loss is a mean over the batch plus whatever the step adds; a
signal saves and stops. All that is private to Trainer and used by us is in this file.
"""

from __future__ import annotations

import logging
import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainingArguments, integrations

from powerbert.errors import PowerBertError
from powerbert.machine.describe import duration
from powerbert.text.batches import TEACHER, LengthGroupedSampler, length_order
from powerbert.training.callbacks import Bar, Recorder, Stopper, processes
from powerbert.training.checkpoints import PREFIX, newest_valid, publish, rotate
from powerbert.training.options import Options
from powerbert.training.retention_parameters import NAME, RetentionAdamW, RetentionParameters

METRIC = "eval_metric"
TRIED = 4
"""Batches after which a training says how long it will take; the first is slower than all others."""
FORWARD = 3.0
"""How many times faster a token is answered than trained on."""

logger = logging.getLogger(__name__)

# transformers before 5.18 resumes several CPU processes from "cpu:0", which torch knows as "cpu" alone.
torch.serialization.register_package(
    0, lambda storage: None, lambda storage, place: storage if place == "cpu:0" else None
)

Objective = Callable[[Any, dict[str, Tensor], Any, int], Tensor]
"""(unwrapped model, inputs, its outputs on them, training step) -> the loss to minimise."""


class InterruptedRun(Exception):
    """Training stopped on a signal; its state is saved."""


def inputs_per_step(options: Options) -> int:
    """Inputs that all processes together train on before the weights move: the effective batch."""
    return options.batch_size * options.accumulation * int(processes().num_processes)


def check_reporting(options: Options) -> None:
    """Refuse to report to what is not installed, before anything is done."""
    found: Any = integrations
    known = ("none", "all", *found.get_available_reporting_integrations())
    if options.report_to not in known:
        rule = f"here are {', '.join(known)}"
        raise PowerBertError("--report-to is not installed", got=options.report_to, rule=rule)


def training_arguments(options: Options, work: Path, rows: int, *, best: bool, progress: bool) -> TrainingArguments:
    """Translate our options to transformers'."""
    every = max(1, round(math.ceil(rows / inputs_per_step(options)) / options.evaluations))
    return TrainingArguments(
        output_dir=str(work),
        num_train_epochs=options.epochs,
        learning_rate=options.learning_rate,
        per_device_train_batch_size=options.batch_size,
        per_device_eval_batch_size=2 * options.batch_size,
        gradient_accumulation_steps=options.accumulation,
        bf16=options.precision == "bf16",
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
        r: RetentionParameters | None = None,
        group: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add to Trainer an objective, and r with its group of the optimiser."""
        super().__init__(*args, **kwargs)
        self.objective: Any = objective
        self.r, self.group = r, group
        self.batches, self.tokens, self.seconds = 0, 0, 0.0
        self.cold = (0, 0.0)
        self.loss_is_scaled_for_ga = False  # our loss is a mean over the batch
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        self.add_callback(Recorder(Path(str(self.args.output_dir)) / "metrics.jsonl"))
        if not self.args.disable_tqdm:
            self.add_callback(Bar())

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
            if self.group is not None:
                groups.append(self.group)
            # Fused: one pass over the weights instead of a dozen, a tenth of a step at small batches.
            self.optimizer = RetentionAdamW(groups, lr=self.args.learning_rate, fused=True)
        return self.optimizer

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The model's own loss, and while training what the step adds to it."""
        outputs = model(**{name: rows for name, rows in inputs.items() if name != TEACHER})
        loss = outputs["loss"]
        if model.training and self.objective is not None:
            own = self.accelerator.unwrap_model(model)
            loss = self.objective(own, inputs, outputs, self.state.global_step)
        return (loss, outputs) if return_outputs else loss

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """Count real tokens and the seconds spent on them."""
        start = time.perf_counter()
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        self.batches += 1
        self.seconds += time.perf_counter() - start
        self.tokens += int(inputs["attention_mask"].sum())
        if self.batches == 1:
            self.cold = self.tokens, self.seconds
        elif self.batches == TRIED:
            self._tell_estimate(choices=inputs["input_ids"][0].numel() // inputs["input_ids"].shape[-1])
        return loss

    def _tell_estimate(self, choices: int) -> None:
        """Say how much there is to do and about how long it takes, from the batches after the first."""
        state, args = self.state, self.args
        rows: Any = self.train_dataset
        dev: Any = self.eval_dataset
        evaluations = 1 + state.max_steps // int(args.eval_steps or 1)
        tokens = args.num_train_epochs * sum(rows["length"][:]) + evaluations * sum(dev["length"][:]) / FORWARD
        tokens *= choices * (1 - state.global_step / state.max_steps)  # what a resumed run has left
        speed = (self.tokens - self.cold[0]) / (self.seconds - self.cold[1]) * args.world_size
        inputs = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
        logger.info(
            f"{len(rows):,} rows, {state.max_steps:,} steps of {inputs} inputs: about {duration(tokens / speed)} left"
        )

    @property
    def tokens_per_second(self) -> float:
        """Real tokens trained on per second, since this process started."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the throughput and the mass of r."""
        if "loss" in logs:
            logs = logs | {"tokens_per_second": round(self.tokens_per_second)}
            if self.r is not None:
                logs["mass"] = round(float(self.r.mass().sum().detach()), 3)
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
        if stopper.is_asked():
            step = self.state.global_step
            raise InterruptedRun(f"stopped and saved at step {step}; the same command goes on from there")

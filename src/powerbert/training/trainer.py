"""A thin subclass of transformers' Trainer: safe checkpoints, deterministic order, an objective of its own.

Modifications: a checkpoint is written beside its place with a sha256 of each file, synced and renamed, and
only whole ones are resumed; batches are grouped by length in an order that is a function of seed and epoch,
so that a resumed run sees the same batches; the loss is a mean over the batch plus whatever the step adds; a
signal saves and stops. All that is private to Trainer and used by us is in this file.
"""

import json
import logging
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, cast

import torch
from accelerate import PartialState
from accelerate.utils import reduce
from datasets import Dataset
from torch import Tensor, nn
from tqdm import tqdm
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback
from typing_extensions import override

from powerbert.errors import ModelFolderError
from powerbert.folders.atomic import swap
from powerbert.folders.manifest import read_manifest, write_manifest
from powerbert.folders.safe import silenced
from powerbert.machine.describe import duration
from powerbert.modeling.ops import fast_dropout
from powerbert.text.batches import TEACHER, LengthGroupedSampler, length_order
from powerbert.training.retention_parameters import NAME, RetentionAdamW, RetentionParameters

PREFIX, STAGING = "checkpoint-", ".staging"
COURSE = "metrics.jsonl"  # every log of the Trainer, one line each, to follow while it trains
SHOWN = {"loss": "loss", "mass": "mass", "tokens_per_second": "tokens/s", "eval_metric": "metric"}  # in the bar
QUIET = 30.0  # seconds between lines of progress in a log file, where a bar cannot redraw itself
TRIED = 4  # batches after which it is said how long the rest will take
FORWARD = 3.0  # how many times faster a token is answered than trained on

logger = logging.getLogger(__name__)

# transformers before 5.18 resumes several CPU processes from "cpu:0", which torch knows as "cpu" alone.
torch.serialization.register_package(0, lambda _: None, lambda storage, place: storage if place == "cpu:0" else None)

Objective = Callable[[Any, dict[str, Tensor], Any, int], Tensor]
"""(unwrapped model, inputs, its outputs on them, training step) -> the loss to minimise."""
Before = Callable[[Any, dict[str, Tensor], int], None]
"""(unwrapped model, inputs, training step): makes the model ready for a batch; a run must be able to resume."""


class InterruptedRun(Exception):
    """Training stopped on a signal; its state is saved."""


def processes() -> PartialState:
    """This process among those that were launched together; without `cpu` it would not see the others."""
    return PartialState(cpu=not torch.cuda.is_available())


class Pace:
    """Real tokens and seconds of each batch so far, and from them how long the rest takes."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.seconds: list[float] = []

    def count(self, tokens: int, seconds: float) -> bool:
        """Count a batch; returns whether it is the one after which the rest can be told."""
        self.tokens.append(tokens)
        self.seconds.append(seconds)
        return len(self.tokens) == TRIED

    def left(self, tokens: float) -> str:
        """About how long so many tokens take; the first batch is slower than all others."""
        return f"about {duration(tokens / sum(self.tokens[1:]) * sum(self.seconds[1:]))} left"

    def tokens_per_second(self) -> float:
        """Of all batches."""
        return sum(self.tokens) / sum(self.seconds) if self.tokens else 0.0


class Stopper(TrainerCallback):
    """On SIGINT or SIGTERM: finish the step, save, stop, in all processes. A second SIGINT stops at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen for signals while training runs."""

        def note(number: int, frame: object) -> None:
            if self.signal is not None:
                raise KeyboardInterrupt
            self.signal = number

        ours = current_thread() is main_thread()  # elsewhere signals are somebody else's
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM) if ours}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def is_asked(self) -> bool:
        """Whether a signal has come to any process; each of them has to ask.

        It reaches each at another moment, and one that went on alone would wait for the others for ever.
        """
        came = torch.tensor(int(self.signal is not None), device=processes().device)
        return bool(reduce(came, "sum") > 0)

    @override
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.is_asked():
            control.should_save = control.should_training_stop = True


class Bar(ProgressCallback):
    """The bar of transformers, with loss, mass and metric beside the time left, from where a resumed run goes on."""

    @override
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.current_step = state.global_step
        self.shown: dict[str, str] = {}
        if state.is_world_process_zero:
            often = 0.1 if sys.stderr.isatty() else QUIET
            self.training_bar = tqdm(total=state.max_steps, initial=state.global_step, unit="step", mininterval=often)

    @override
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if self.training_bar is not None:
            self.shown |= {short: f"{logs[name]:.4g}" for name, short in SHOWN.items() if name in logs}
            self.training_bar.set_postfix(self.shown, refresh=False)

    @override
    def on_prediction_step(self, *args: Any, **kwargs: Any) -> None:
        pass  # no second bar


class StepTrainer(Trainer):
    """One training step of the paper, interruptible and resumable bit for bit."""

    def __init__(
        self,
        objective: Objective | None = None,
        r: RetentionParameters | None = None,
        group: Any = None,
        before: Before | None = None,
        **kwargs: Any,
    ) -> None:
        """Add to Trainer an objective, r with its group of the optimiser, and what is done before each batch."""
        super().__init__(**kwargs)
        self.objective: Any = objective
        self.before: Any = before
        self.r, self.group, self.pace, self.follows = r, group, Pace(), False
        self.folder = Path(str(self.args.output_dir))
        self.inputs = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        self.loss_is_scaled_for_ga = False  # our loss is a mean over the batch
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        if not self.args.disable_tqdm:
            self.add_callback(Bar())

    @override
    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        if self.optimizer is None:
            own: Any = self.model
            decayed = set(self.get_decay_parameter_names(own))  # not norms and biases
            named = [(n, p) for n, p in own.named_parameters() if p.requires_grad and n != NAME]
            weights = {"params": [p for n, p in named if n in decayed], "weight_decay": self.args.weight_decay}
            others = {"params": [p for n, p in named if n not in decayed], "weight_decay": 0.0}
            groups = [weights, others] if self.group is None else [weights, others, self.group]
            # Fused: one pass over the weights instead of a dozen, a tenth of a step at small batches.
            self.optimizer = RetentionAdamW(groups, lr=self.args.learning_rate, fused=True)
        return self.optimizer

    @override
    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        own, step = self.accelerator.unwrap_model(model), self.state.global_step
        if self.before is not None:
            self.before(own, inputs, step)
        outputs = model(**{name: rows for name, rows in inputs.items() if name != TEACHER})
        loss = outputs["loss"]
        if model.training and self.objective is not None:
            loss = self.objective(own, inputs, outputs, step)
        return (loss, outputs) if return_outputs else loss

    @override
    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        start = time.perf_counter()
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        if self.pace.count(int(inputs["attention_mask"].sum()), time.perf_counter() - start):
            self._tell_estimate(choices=inputs["input_ids"][0].numel() // inputs["input_ids"].shape[-1])
        return loss

    def _tell_estimate(self, choices: int) -> None:
        """Say how much there is to do and about how long it takes."""
        state, args = self.state, self.args
        rows, dev = cast(Dataset, self.train_dataset), cast(Dataset, self.eval_dataset)
        evaluations = 1 + state.max_steps // int(args.eval_steps or 1)
        tokens = args.num_train_epochs * sum(rows["length"][:]) + evaluations * sum(dev["length"][:]) / FORWARD
        tokens *= choices * (1 - state.global_step / state.max_steps)  # what a resumed run has left
        left = self.pace.left(tokens / args.world_size)
        logger.info(f"{len(rows):,} rows, {state.max_steps:,} steps of {self.inputs} inputs: {left}")

    @override
    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            logs = logs | {"tokens_per_second": round(self.pace.tokens_per_second())}
            if self.r is not None:
                logs["mass"] = round(float(self.r.mass().sum().detach()), 3)
        super().log(logs, start_time)
        if self.args.should_save:  # at first all of it: after a kill the file may be ahead of the checkpoint
            lines = self.state.log_history[-1 if self.follows else 0 :]
            with (self.folder / COURSE).open("a" if self.follows else "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            self.follows = True

    def _get_train_sampler(self, train_dataset: Any = None) -> torch.utils.data.Sampler[int]:
        rows = cast(Dataset, self.train_dataset if train_dataset is None else train_dataset)
        return LengthGroupedSampler(rows["length"][:], self.inputs, self.args.seed)

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        return length_order(eval_dataset["length"][:])  # any iterable of rows is a sampler

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Write a whole checkpoint or none; keep it, the best and no other."""
        state, staging = self.state, self.folder / STAGING
        final = self.folder / f"{PREFIX}{state.global_step}"
        if state.best_global_step:
            state.best_model_checkpoint = str(self.folder / f"{PREFIX}{state.best_global_step}")
        with silenced():  # a second bar would break the first
            self.save_model(str(staging), _internal_call=True)
        self._save_optimizer_and_scheduler(str(staging))
        self._save_rng_state(str(staging))
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            state.save_to_json(str(staging / "trainer_state.json"))
            publish(staging, final)
            rotate(self.folder, {final, Path(state.best_model_checkpoint or final)})
        self.accelerator.wait_for_everyone()

    def run(self) -> None:
        """Train from the newest whole checkpoint, or from the start; a signal saves and stops."""
        stopper = Stopper()
        self.add_callback(stopper)
        checkpoint = newest_whole(self.folder)
        if self.args.should_save:
            shutil.rmtree(self.folder / STAGING, ignore_errors=True)  # of a run that was killed
        with stopper.listening(), fast_dropout(cast(nn.Module, self.model)):
            self.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        if stopper.is_asked():
            step = self.state.global_step
            raise InterruptedRun(f"stopped and saved at step {step}; the same command goes on from there")


def publish(staging: Path, final: Path) -> None:
    """Turn a written staging folder into a checkpoint, all or nothing."""
    write_manifest(staging, None)
    swap(staging, final)  # over what an earlier run left at this step and could not use


def newest_whole(folder: Path) -> Path | None:
    """The newest checkpoint whose files are all as its manifest says: a failing disk may have been at it."""
    found = folder.glob(f"{PREFIX}[0-9]*")
    for path in sorted(found, key=lambda path: int(path.name.removeprefix(PREFIX)), reverse=True):
        with suppress(ModelFolderError, OSError):
            if read_manifest(path).sha256:
                return path
    return None


def rotate(folder: Path, spare: set[Path]) -> None:
    """Delete all checkpoints but the spared ones."""
    for path in {*folder.glob(f"{PREFIX}[0-9]*")} - spare:
        shutil.rmtree(path, ignore_errors=True)

"""What happens around the steps of a training: signals in all processes, the record, the progress bar."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import reduce
from tqdm import tqdm
from transformers import TrainerCallback

SHOWN = ("loss", "mass", "tokens_per_second", "eval_metric")
QUIET = 30.0
"""Seconds between lines of progress in a log file, where a bar cannot redraw itself."""


def processes() -> PartialState:
    """This process among those that were launched together; without `cpu` it would not see the others."""
    return PartialState(cpu=not torch.cuda.is_available())


class Stopper(TrainerCallback):
    """On SIGINT or SIGTERM: finish the step, save, stop, in all processes. A second SIGINT stops at once."""

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

    def is_asked(self) -> bool:
        """Whether a signal has come to any process; each of them has to ask.

        It reaches each at another moment, and one that went on alone would wait for the others for ever.
        """
        came = torch.tensor(int(self.signal is not None), device=processes().device)
        return bool(reduce(came, "sum") > 0)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ask the Trainer to save and stop once a signal has come."""
        if self.is_asked():
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


class Bar(TrainerCallback):
    """A progress bar with the time left, the loss, the current mass and the latest metric."""

    def __init__(self) -> None:
        self.bar: Any = None
        self.shown: dict[str, str] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start where a resumed run goes on."""
        if state.is_world_process_zero:
            interval = 0.1 if sys.stderr.isatty() else QUIET
            self.bar = tqdm(total=state.max_steps, initial=state.global_step, unit="step", mininterval=interval)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Move on."""
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Show the newest figures."""
        if self.bar is not None and logs:
            for name in SHOWN:
                if name in logs:
                    self.shown[name.replace("eval_", "").replace("_per_second", "/s")] = f"{logs[name]:.4g}"
            self.bar.set_postfix(self.shown, refresh=False)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the finished bar on the screen."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

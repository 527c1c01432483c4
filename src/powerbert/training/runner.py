"""The frame of every training step: what is refused, resumed, evaluated and written.

A step begins with `begin`, which holds its output for one process and knows whether it is complete;
the run that it yields trains and writes. Checkpoints and logs lie in OUTPUT.partial until all is done.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import set_seed

from powerbert.folders.lock import only_run
from powerbert.folders.manifest import folder_digest
from powerbert.machine.verdicts import training_precision
from powerbert.modeling.apply import retention_of
from powerbert.modeling.limits import RUN
from powerbert.modeling.storage import load, save
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.metrics import metric
from powerbert.tasks.task import Task
from powerbert.text.batches import Collator
from powerbert.training.callbacks import processes
from powerbert.training.data import Data, Encoded, encode
from powerbert.training.evaluation import Evaluation, answers, evaluate
from powerbert.training.options import Options
from powerbert.training.record import check_place, model_card, read_run, run_record
from powerbert.training.trainer import StepTrainer, check_reporting, training_arguments

METRICS = "metrics.jsonl"

Folder = str | Path

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepResult:
    """What a step leaves behind."""

    folder: Path
    evaluation: Evaluation
    retention: RetentionConfiguration | None
    seconds: float
    """Of training in this process; 0 if there was nothing left to do."""
    tokens_per_second: float
    skipped: bool = False


@dataclass
class Run:
    """One step under way; take it from `begin`."""

    settings: dict[str, Any]
    """What decides the result; a run resumes only with the same."""
    data: Data
    output: Path
    work: Path
    options: Options
    progress: bool
    finished: bool
    """Whether an earlier run has left the result."""
    trainer: StepTrainer | None = None
    start: float = 0.0
    seconds: float = 0.0

    def encode(self, model: Any, tokenizer: Any) -> Encoded:
        """Tokenise the data, and say what N is; the time of the step counts from here."""
        encoded = encode(self.data, model, tokenizer)
        logger.info(encoded.why)
        self.start = time.perf_counter()
        return encoded

    def train(
        self,
        model: Any,
        tokenizer: Any,
        encoded: Encoded,
        *,
        rows: Dataset | None = None,
        best: bool = True,
        **step: Any,
    ) -> None:
        """Train, from the newest whole checkpoint if there is one.

        rows: the training data, if not that of `encoded`. best: end with the weights that did best on
        dev, not with the last. The rest is what `StepTrainer` takes.
        """
        rows = encoded.splits["train"] if rows is None else rows
        set_seed(self.options.seed)
        self.trainer = StepTrainer(
            model=model,
            args=training_arguments(self.options, self.work, len(rows), best=best, progress=self.progress),
            train_dataset=rows,
            eval_dataset=encoded.splits["dev"],
            data_collator=Collator(tokenizer),
            compute_metrics=partial(_score, encoded.task),
            **step,
        )
        self.trainer.run()
        self.seconds = time.perf_counter() - self.start
        # Accelerate has wrapped the forward pass in autocast; what is saved runs without it.
        self.trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)

    def finish(
        self, model: Any, tokenizer: Any, encoded: Encoded, files: Mapping[str, bytes] | None = None
    ) -> StepResult:
        """Evaluate on dev, write the output folder whole with the given files, and clear up."""
        speed = self.trainer.tokens_per_second if self.trainer else 0.0
        evaluation = evaluate(model, encoded.splits["dev"], encoded.task, tokenizer)
        result = StepResult(
            self.output, evaluation, retention_of(model), self.seconds, speed, skipped=self.trainer is None
        )
        state = processes()
        if state.is_main_process:
            save(model, tokenizer, self.output, extra=self._files(result, encoded) | dict(files or {}))
            shutil.rmtree(self.work, ignore_errors=True)
        state.wait_for_everyone()
        return result

    def result(self) -> StepResult:
        """Read the result of a run that was already complete."""
        record = read_run(self.output) or {}
        logger.info("%s is already complete", self.output)
        evaluation = Evaluation.from_json(record["result"]["evaluation"])
        return StepResult(self.output, evaluation, retention_of(load(self.output)[0]), 0.0, 0.0, skipped=True)

    def _files(self, result: StepResult, encoded: Encoded) -> dict[str, bytes]:
        """The record, the model card and the course of training."""
        figures = {
            "evaluation": result.evaluation.to_json(),
            "max_length": encoded.max_length,
            "seconds": result.seconds,
            "tokens_per_second": result.tokens_per_second,
            "skipped": result.skipped,
        }
        record = run_record(self.settings) | {"result": figures}
        card = model_card(self.settings, result.evaluation, result.retention)
        files = {RUN: json.dumps(record, indent=2).encode(), "README.md": card.encode()}
        metrics = self.work / METRICS
        return files | ({METRICS: metrics.read_bytes()} if metrics.exists() else {})


@contextmanager
def begin(
    step: str, model: Folder, data: Data, output: Folder, options: Options, *, progress: bool = False, **more: Any
) -> Iterator[Run]:
    """Hold the output for this run, new or resumed; refusals come before anything is written.

    `more` are settings beside model, data and options that decide the result.
    """
    check_reporting(options)
    state, output = processes(), Path(output)
    work = output.with_name(output.name + ".partial")
    settings = {
        "step": step,
        "model": str(Path(model).resolve()),
        "model_digest": folder_digest(model),
        "task": data.task.name,
        "rows": {name: len(split) for name, split in data.splits.items()},
        "data": data.digest,
        "max_length": data.max_length,
        "options": asdict(options),
        "processes": state.num_processes,
    } | more
    check_place(work, output, settings)
    with only_run(work) if state.is_main_process else nullcontext():
        with state.main_process_first():  # it alone writes; the others find what it wrote
            finished = check_place(work, output, settings)
            if not finished and read_run(work) is None:
                (work / RUN).write_text(json.dumps(run_record(settings), indent=2), encoding="utf-8")
        state.wait_for_everyone()
        possible = options if finished else _possible(options)
        yield Run(settings, data, output, work, possible, progress, finished)
        if finished and state.is_main_process:
            shutil.rmtree(work, ignore_errors=True)


def _possible(options: Options) -> Options:
    """The options with a precision that pays here: bf16 is tried in a child process first."""
    if torch.cuda.is_available():
        return options
    precision, line = training_precision(options.precision)
    if line is not None:
        logger.warning(line)
    return replace(options, precision=precision)


def _score(task: Task, prediction: Any) -> dict[str, float]:
    """The task's metric of the Trainer's predictions."""
    found = prediction.predictions
    logits = found[0] if isinstance(found, tuple) else found
    return {"metric": metric(task.metric)(answers(logits, task), prediction.label_ids)}

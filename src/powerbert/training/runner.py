"""The frame of every training step: what is refused, resumed, evaluated, recorded and written.

A step begins with `begin`, which holds its output for one process and knows whether it is complete;
the run that it yields trains and writes. Checkpoints and logs lie in OUTPUT.partial until all is done.
"""

import json
import logging
import math
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from datasets import Dataset
from transformers import TrainingArguments, integrations, set_seed

from powerbert.errors import PowerBertError
from powerbert.folders.atomic import LOCK, only_run
from powerbert.folders.manifest import folder_digest
from powerbert.machine.describe import choose_threads, machine, versions
from powerbert.machine.verdicts import AUTO, training_precision
from powerbert.modeling.apply import elimination_of, retention_of, without_attention_dropout
from powerbert.modeling.dial import Dial
from powerbert.modeling.limits import RUN
from powerbert.modeling.storage import load, save
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.metrics import metric
from powerbert.text.batches import Collator
from powerbert.training.data import Data, EncodedData, Evaluation, answers, encode_data, evaluate
from powerbert.training.options import Options
from powerbert.training.trainer import COURSE, StepTrainer, processes

Folder = str | Path
Chosen = TypeVar("Chosen", bound=Options)
LONG = 128  # words of an input beyond which dropout on attention takes a third of the time of a step, and more

logger = logging.getLogger(__name__)


def attends_to_all(model: Any, length: float) -> bool:
    """Leave out dropout on attention if inputs of so many words would pay a third of their time for it; whether so."""
    if length <= LONG or elimination_of(model) is None or torch.cuda.is_available():
        return False
    without_attention_dropout(model)
    return True


@dataclass(frozen=True)
class StepResult:
    """What a step leaves behind."""

    folder: Path
    evaluation: Evaluation
    retention: RetentionConfiguration | None
    seconds: float  # of training in this process; 0 if there was nothing left to do
    tokens_per_second: float
    skipped: bool = False


@dataclass
class StepRun(Generic[Chosen]):
    """One step under way; take it from `begin`."""

    settings: dict[str, Any]  # what decides the result; a run resumes only with the same
    data: Data
    output: Path
    work: Path
    options: Chosen  # with all that the task, the processes and the machine decide
    progress: bool
    finished: bool  # whether an earlier run has left the result
    trainer: StepTrainer | None = None
    seconds: float = 0.0

    def encode(self, model: Any, tokenizer: Any) -> EncodedData:
        """Tokenise the data for the model of this run, and say what N is; the time of the step counts from here."""
        self.model, self.tokenizer, self.encoded = model, tokenizer, encode_data(self.data, model, tokenizer)
        self.start = time.perf_counter()
        logger.info(self.encoded.why)
        return self.encoded

    @property
    def steps(self) -> float:
        """How many steps the training has, but for the last of an epoch."""
        return self.options.epochs * len(self.data.splits["train"]) / inputs_per_step(self.options)

    def train(self, rows: Dataset | None = None, *, best: bool = True, **step: Any) -> None:
        """Train, from the newest whole checkpoint if there is one.

        rows: the training data, if not that of `encode`. best: end with the weights that did best on
        dev, not with the last. The rest is what `StepTrainer` takes.
        """
        rows = self.encoded.splits["train"] if rows is None else rows
        length = statistics.mean(rows["length"][:])
        if attends_to_all(self.model, length):
            logger.info("inputs of %d words: no dropout on attention, which would take a third of the time", length)
        set_seed(self.options.seed)
        self.trainer = StepTrainer(
            model=self.model,
            args=training_arguments(self.options, self.work, len(rows), best=best, progress=self.progress),
            train_dataset=rows,
            eval_dataset=self.encoded.splits["dev"],
            data_collator=Collator(self.tokenizer),
            compute_metrics=self._score,
            **step,
        )
        self.trainer.run()
        self.seconds = time.perf_counter() - self.start
        # Accelerate has wrapped the forward pass in autocast; what is saved runs without it.
        self.trainer.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)

    def _score(self, prediction: Any) -> dict[str, float]:
        """The task's metric of the Trainer's predictions."""
        found, task = prediction.predictions, self.data.task
        logits = found[0] if isinstance(found, tuple) else found
        return {"metric": metric(task.metric)(answers(logits, task), prediction.label_ids)}

    def finish(self, files: Mapping[str, bytes] | None = None, dial: Dial | None = None) -> StepResult:
        """Evaluate on dev, write the output folder whole with the given files and dial, and clear up."""
        evaluation = evaluate(self.model, self.encoded.splits["dev"], self.encoded.task, self.tokenizer)
        speed, skipped = (self.trainer.pace.tokens_per_second(), False) if self.trainer else (0.0, True)
        result = StepResult(self.output, evaluation, retention_of(self.model), self.seconds, speed, skipped)
        state = processes()
        if state.is_main_process:
            extra = self._files(result) | dict(files or {})
            save(self.model, self.tokenizer, self.output, extra=extra, dial=dial)
            shutil.rmtree(self.work, ignore_errors=True)
        state.wait_for_everyone()
        return result

    def result(self) -> StepResult:
        """Read the result of a run that was already complete."""
        logger.info("%s is already complete", self.output)
        evaluation = Evaluation.from_json(read_run(self.output)["result"]["evaluation"])
        return StepResult(self.output, evaluation, retention_of(load(self.output)[0]), 0.0, 0.0, skipped=True)

    def _files(self, result: StepResult) -> dict[str, bytes]:
        """The record, the model card and the course of training."""
        figures = {"evaluation": result.evaluation.to_json(), "max_length": self.encoded.max_length}
        figures |= {name: getattr(result, name) for name in ("seconds", "tokens_per_second", "skipped")}
        record = run_record(self.settings, self.options.precision, self.options.threads) | {"result": figures}
        card = model_card(self.settings, result.evaluation, result.retention)
        files = {RUN: json.dumps(record, indent=2).encode(), "README.md": card.encode()}
        if self.trainer is not None:
            files[COURSE] = (self.work / COURSE).read_bytes()
        return files


@contextmanager
def begin(
    step: str, model: Folder, data: Data, output: Folder, options: Chosen, width: int, *, progress: bool, **more: Any
) -> Iterator[StepRun[Chosen]]:
    """Hold the output for this run, new or resumed; refusals come before anything is written.

    width: hidden dimensions of the model. `more` are settings beside model, data and options that decide the result.
    """
    found: Any = integrations
    known = ("none", "all", *found.get_available_reporting_integrations())
    if options.report_to not in known:
        raise PowerBertError("--report-to is not installed", got=options.report_to, rule=f"here are {', '.join(known)}")
    state, output = processes(), Path(output).resolve()
    if not output.name:
        raise PowerBertError("--output is not a folder for a result", got=str(output), remedy="give another folder")
    options = options.for_task(data.task, state.num_processes, data.length, width)
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
            if not finished and not read_run(work):
                record = run_record(settings, *_possible(options))
                (work / RUN).write_text(json.dumps(record, indent=2), encoding="utf-8")
        state.wait_for_everyone()
        # As the run began, in every process: a new verdict might differ, and no weight would be the same.
        began, before = read_run(output if finished else work), torch.get_num_threads()
        options = replace(options, precision=began.get("precision", options.precision), threads=began.get("threads"))
        torch.set_num_threads(options.threads or before)
        try:
            yield StepRun(settings, data, output, work, options, progress, finished)
        finally:
            torch.set_num_threads(before)
        if finished and state.is_main_process:
            shutil.rmtree(work, ignore_errors=True)


def possible_precision(asked: str) -> str:
    """The precision of training that pays here, of which bf16 is tried in a child process on a CPU."""
    if torch.cuda.is_available():
        return ("bf16" if torch.cuda.is_bf16_supported() else "fp32") if asked == AUTO else asked
    precision, why_not = training_precision(asked)
    if why_not is not None:
        logger.warning(why_not)
    return precision


def _possible(options: Options) -> tuple[str, int]:
    """The precision that pays here, and the threads that are free."""
    precision = possible_precision(options.precision)
    threads, why = choose_threads(options.threads)
    logger.info("%d thread%s, %s: %s", threads, "s" * (threads > 1), precision, why)
    return precision, threads


def inputs_per_step(options: Options) -> int:
    """Inputs that all processes together train on before the weights move: the effective batch."""
    return options.batch_size * options.accumulation * int(processes().num_processes)


def training_arguments(options: Options, work: Path, rows: int, *, best: bool, progress: bool) -> TrainingArguments:
    """Translate our options to transformers'."""
    every = max(1, round(math.ceil(rows / inputs_per_step(options)) / options.evaluations))
    same = ("learning_rate", "weight_decay", "gradient_checkpointing", "seed")
    on_gpu = torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(work),
        num_train_epochs=options.epochs,
        **{name: getattr(options, name) for name in same},
        per_device_train_batch_size=options.batch_size,
        per_device_eval_batch_size=2 * options.batch_size,
        gradient_accumulation_steps=options.accumulation,
        bf16=options.precision == "bf16",
        warmup_steps=options.warmup,
        eval_strategy="steps",
        eval_steps=every,
        save_steps=every,
        logging_steps=max(1, every // 20),
        load_best_model_at_end=best,
        metric_for_best_model="eval_metric",
        remove_unused_columns=False,
        use_cpu=not on_gpu,
        report_to=[] if options.report_to == "none" else [options.report_to],
        disable_tqdm=not progress,
        dataloader_pin_memory=on_gpu,
    )


def command_line() -> str:
    """What was typed to start this process, which may be a script."""
    program, *given = sys.argv
    is_script = program.endswith(".py") and Path(program).name != "__main__.py"
    return shlex.join([*(("python", program) if is_script else ("powerbert",)), *given])


def run_record(settings: dict[str, Any], precision: str, threads: int | None) -> dict[str, Any]:
    """What was run, with what, on what, in which precision and on how many threads, whatever was asked for."""
    command, here = command_line(), machine()
    used = here.pop("versions") | versions(("accelerate", "datasets", "tokenizers", "numpy"))
    ran = {"precision": precision, "threads": threads, "command": command, "versions": used, "machine": here}
    return {"settings": settings} | ran


def read_run(folder: Path) -> dict[str, Any]:
    """The record in a folder; empty where there is none."""
    try:
        record = json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and isinstance(record.get("settings"), dict) else {}


def check_place(work: Path, output: Path, settings: dict[str, Any]) -> bool:
    """Whether `output` already holds the result of a run; a folder of another run is refused."""
    for folder in (output, work):
        old = read_run(folder).get("settings", settings)
        if old != settings:
            got = "other " + ", ".join(sorted(name for name in old | settings if old.get(name) != settings.get(name)))
            remedy = "choose another --output, or delete the folder"
            raise PowerBertError(f"{folder} holds another run", got=got, remedy=remedy)
    if read_run(output):
        return True
    for folder in (output,) if read_run(work) else (output, work):  # work is deleted at the end
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else {folder.name}
        if folder.exists() and not names <= {LOCK, RUN}:  # which a run that was killed at once may leave
            raise PowerBertError(f"{folder} is not empty", remedy="choose another --output")
    return False


def model_card(settings: dict[str, Any], evaluation: Evaluation, retention: RetentionConfiguration | None) -> str:
    """A README for the model's folder, with the retention table."""
    low, high = evaluation.interval
    card = f"""# {settings["task"]} with powerbert

Made by the step `{settings["step"]}` of powerbert from `{settings["model"]}`, seed {settings["options"]["seed"]}; \
the command and versions are in `{RUN}`, the course of training in `{COURSE}`.

| on dev | |
|---|---|
| {evaluation.metric} | {evaluation.value:.4f} (95 % interval {low:.4f} to {high:.4f}, {evaluation.rows} rows) |
| word-vectors processed | {evaluation.word_vectors:,} of {evaluation.word_vectors_full:,} of the unpadded model \
({100 * evaluation.work:.1f} %) |
"""
    if retention is None:
        return card
    unit = "share of own length" if retention.is_relative else f"word-vectors of N={retention.max_length}"
    return f"""{card}
Retention configuration ({unit}):

| encoder | {" | ".join(str(j) for j in range(1, len(retention) + 1))} |
{"|---" * (len(retention) + 1)}|
| retains | {str(retention).replace(",", " | ")} |
"""

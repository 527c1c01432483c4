"""The paper's three training steps, each a function from a model folder to a model folder.

Paper: Training PoWER-BERT
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import set_seed

from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.folders.lock import only_run
from powerbert.machine.child import BF16, survives
from powerbert.modeling.apply import apply, retention_of
from powerbert.modeling.families.registry import family_of
from powerbert.modeling.limits import RUN
from powerbert.modeling.storage import load, save
from powerbert.report.retention_picture import retention_picture
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.metrics import metric
from powerbert.text.batches import Collator
from powerbert.training.data import Data, Encoded, encode
from powerbert.training.evaluation import Evaluation, answers, evaluate
from powerbert.training.heads import has_head, model_for
from powerbert.training.objectives import Distillation, ReleaseRegulariser
from powerbert.training.options import Options, RetrainOptions, SearchOptions
from powerbert.training.record import begin, model_card, read_run, run_record
from powerbert.training.retention_parameters import attach, degrees, detach, masses
from powerbert.training.teacher import with_answers
from powerbert.training.trainer import StepTrainer, inputs_per_step, processes, training_arguments

PICTURE = "retention.png"

Tell = Callable[[str], None]
"""Where a step says what it does; the command line prints it."""


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


@dataclass(frozen=True)
class Run:
    """The frame of one step: where it works, what it was asked for."""

    step: str
    model: Path
    data: Data
    output: Path
    options: Options
    max_length: int | None = None
    progress: bool = False
    tell: Tell = lambda line: None

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", self.options.for_task(self.data.task))

    @property
    def work(self) -> Path:
        """Checkpoints and logs until the result is whole."""
        return self.output.with_name(self.output.name + ".partial")

    def settings(self, **more: Any) -> dict[str, Any]:
        """What decides the result; a run resumes only with the same."""
        rows = {name: len(split) for name, split in self.data.splits.items()}
        return {
            "step": self.step,
            "model": str(self.model),
            "task": self.data.task.name,
            "rows": rows,
            "data": self.data.digest,
            "max_length": self.max_length,
            "options": asdict(self.options),
        } | more


def finetune(run: Run) -> StepResult:
    """Step 1: fine-tune the pretrained encoder on the task; skipped where it already has the task's head."""
    model, tokenizer, headed = model_for(run.model, run.data.task, run.options.seed)
    if headed:
        run.tell(f"{run.model} already answers {run.data.task.name}: nothing to fine-tune")
    return run_step(run, model, tokenizer, train=not headed)


def search(run: Run) -> StepResult:
    """Step 2: learn how many word-vectors each encoder retains, with all weights and r trained together."""
    options = run.options
    if not isinstance(options, SearchOptions):
        raise TypeError("search takes SearchOptions")
    model, tokenizer = model_with_head(run)
    family = family_of(model)
    encoders = len(family.encoders(model.base_model))
    encoded = encode(run.data, model, tokenizer, run.max_length)
    max_length = None if options.relative else encoded.max_length
    r = attach(model, encoders, options.bins if options.relative else encoded.max_length, max_length)
    decoupled = options.optimiser == "decoupled"
    rate = options.retention_rate(options.epochs * len(run.data.splits["train"]) / inputs_per_step(options))
    group = {"lr": rate, "l1": options.regulariser if decoupled else None}

    def status() -> dict[str, float]:
        return {"mass": round(float(masses(r.detach(), max_length).sum()), 3)}

    def finish() -> dict[str, bytes]:
        learned = degrees(r.detach())
        counted = learned if options.lengths == "mass" else (learned >= 0.5).to(learned.dtype)
        retention = RetentionConfiguration.from_mass(masses(counted, max_length).tolist(), max_length)
        detach(model)
        apply(model, retention)
        run.tell(f"learned retention configuration: {retention}")
        table = [[round(value, 4) for value in row] for row in learned.tolist()]
        picture = retention_picture(learned.tolist(), retention, f"r learned on {run.data.task.name}")
        return {"retention_parameters.json": json.dumps(table).encode(), PICTURE: picture}

    return run_step(
        run,
        model,
        tokenizer,
        encoded=encoded,
        best=False,  # the best answers are those before anything was learned to be eliminated
        finish=finish,
        objective=None if decoupled else ReleaseRegulariser(options.regulariser, max_length),
        retention_group=group,
        status=status,
    )


def retrain(
    run: Run, retention: RetentionConfiguration | None = None, teacher: Path | None = None
) -> StepResult:
    """Step 3: re-train with extract layers, from step 2's weights, with the step-1 model as teacher."""
    options = run.options
    if not isinstance(options, RetrainOptions):
        raise TypeError("retrain takes RetrainOptions")
    model, tokenizer = load(run.model)
    retention = retention or retention_of(model)
    if retention is None:
        raise PowerBertError(
            f"{run.model} carries no retention configuration", remedy="run search first, or give --retention"
        )
    if not has_head(model, run.data.task):
        raise UnsupportedModelError(
            f"{run.model} does not answer {run.data.task.name}", remedy="run search first"
        )
    apply(model, retention)
    teacher = teacher or _teacher_of(run.model)
    objective = None
    if options.distillation > 0 or options.hidden_weight > 0:
        if teacher is None:
            raise PowerBertError(
                "distillation needs the fine-tuned model", remedy="give --teacher, or --distillation 0"
            )
        objective = Distillation(model, options)
    more = {"retention": retention.to_json(), "teacher": str(teacher) if objective else None}

    def prepare(train: Dataset) -> Dataset:
        if objective is None or teacher is None:
            return train
        run.tell(f"asking {teacher} for its answers to {len(train):,} rows of training data")
        half = _precision(run).precision == "bf16"
        return with_answers(train, load(teacher)[0], tokenizer, vectors=options.hidden_weight > 0, half=half)

    return run_step(run, model, tokenizer, objective=objective, more=more, prepare=prepare)


def run_step(
    run: Run,
    model: Any,
    tokenizer: Any,
    *,
    encoded: Encoded | None = None,
    train: bool = True,
    best: bool = True,
    prepare: Callable[[Dataset], Dataset] = lambda train: train,
    finish: Callable[[], dict[str, bytes]] = dict,
    more: dict[str, Any] | None = None,
    **step: Any,
) -> StepResult:
    """Train, evaluate on dev, and write the result whole; resumes what an earlier call began."""
    state = processes()
    settings = run.settings(**(more or {}), processes=state.num_processes)
    with ExitStack() as held:
        if state.is_main_process:
            held.enter_context(only_run(run.work))
        with state.main_process_first():  # it alone writes; the others find what it wrote
            finished = begin(run.work, run.output, settings)
        state.wait_for_everyone()
        if finished:
            return _finished(run)
        encoded = encoded or encode(run.data, model, tokenizer, run.max_length)
        run.tell(encoded.why)
        set_seed(run.options.seed)
        start, trainer = time.perf_counter(), None
        if train:
            train_split = prepare(encoded.splits["train"])
            trainer = _trainer(run, model, tokenizer, encoded, train_split, best, **step)
            trainer.run()
            # Accelerate has wrapped the forward pass in autocast; what is saved runs without it.
            trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)
        seconds = time.perf_counter() - start
        speed = trainer.tokens_per_second if trainer else 0.0
        extra = finish()
        evaluation = evaluate(model, encoded.splits["dev"], encoded.task, tokenizer)
        result = StepResult(run.output, evaluation, retention_of(model), seconds, speed, not train)
        if state.is_main_process:
            _write(run, settings, encoded.max_length, result, model, tokenizer, extra)
        state.wait_for_everyone()
        return result


def _precision(run: Run) -> Options:
    """The options with a precision that runs here: bf16 is tried in a child process first."""
    if run.options.precision == "bf16" and not torch.cuda.is_available() and not survives(BF16):
        run.tell(
            "bf16 does not run on this machine: training in fp32 "
            "(where a CPU pretends to have AMX, ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 may cure it)"
        )
        return replace(run.options, precision="fp32")
    return run.options


def _trainer(
    run: Run, model: Any, tokenizer: Any, encoded: Encoded, train: Dataset, best: bool, **step: Any
) -> StepTrainer:
    measure = metric(encoded.task.metric)

    def compute_metrics(prediction: Any) -> dict[str, float]:
        logits = (
            prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        )
        return {"metric": measure(answers(logits, encoded.task), prediction.label_ids)}

    return StepTrainer(
        model=model,
        args=training_arguments(_precision(run), run.work, len(train), best=best, progress=run.progress),
        train_dataset=train,
        eval_dataset=encoded.splits["dev"],
        data_collator=Collator(tokenizer),
        compute_metrics=compute_metrics,
        **step,
    )


def _write(
    run: Run,
    settings: dict[str, Any],
    max_length: int,
    result: StepResult,
    model: Any,
    tokenizer: Any,
    extra: dict[str, bytes],
) -> None:
    """Write the output folder whole, then clear the work folder."""
    figures = {
        "evaluation": result.evaluation.to_json(),
        "max_length": max_length,
        "seconds": result.seconds,
        "tokens_per_second": result.tokens_per_second,
        "skipped": result.skipped,
    }
    record = run_record(settings) | {"result": figures}
    metrics = run.work / "metrics.jsonl"
    card = model_card(run.step, settings, result.evaluation, result.retention)
    files = {RUN: json.dumps(record, indent=2).encode(), "README.md": card.encode()} | extra
    if metrics.exists():
        files["metrics.jsonl"] = metrics.read_bytes()
    save(model, tokenizer, run.output, extra=files)
    _clear(run.work)


def _clear(work: Path) -> None:
    """Remove checkpoints, logs and the lock."""
    shutil.rmtree(work, ignore_errors=True)


def _finished(run: Run) -> StepResult:
    """Read the result of a run that was already complete."""
    record = read_run(run.output) or {}
    figures = record["result"]
    run.tell(f"{run.output} is already complete")
    _clear(run.work)
    model, _ = load(run.output)
    evaluation = Evaluation.from_json(figures["evaluation"])
    return StepResult(run.output, evaluation, retention_of(model), 0.0, 0.0, skipped=True)


def model_with_head(run: Run) -> tuple[Any, Any]:
    """Load the fine-tuned model of step 1, or refuse one that does not answer the task."""
    model, tokenizer, headed = model_for(run.model, run.data.task, run.options.seed)
    if not headed:
        raise UnsupportedModelError(
            f"{run.model} does not answer {run.data.task.name} yet", remedy="run finetune first"
        )
    return model, tokenizer


def _teacher_of(folder: Path) -> Path | None:
    """The step-1 model that a search started from, if its folder is still there."""
    record = read_run(folder) or {}
    found = record.get("settings", {}).get("model")
    return Path(found) if found and Path(found).is_dir() else None

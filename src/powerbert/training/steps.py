"""The paper's three training steps, each a function from a model folder to a model folder.

Paper: Training PoWER-BERT

    data = Data.of(*read_splits({"train": "train.csv", "dev": "dev.csv"}, own_task("review", label="stars")))
    finetune("encoder", data, "one")
    search("one", data, "two", SearchOptions(regulariser=0.05))
    result = retrain("two", data, "three")
    result.evaluation.value, result.retention
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from powerbert.errors import PowerBertError
from powerbert.folders.manifest import folder_digest
from powerbert.modeling.apply import apply, retention_of
from powerbert.modeling.storage import load
from powerbert.report.pictures import retention_picture
from powerbert.retention import RetentionConfiguration
from powerbert.training.callbacks import processes
from powerbert.training.data import Data
from powerbert.training.heads import check_head, check_teacher, fine_tuned, model_for
from powerbert.training.options import Options, RetrainOptions, SearchOptions
from powerbert.training.record import origin
from powerbert.training.retention_parameters import ReleaseRegulariser, RetentionParameters
from powerbert.training.runner import Folder, StepResult, begin
from powerbert.training.teacher import Distillation, with_answers
from powerbert.training.trainer import inputs_per_step

PARAMETERS, PICTURE = "retention_parameters.json", "retention.png"
"""The r that a search learned, in its folder."""

logger = logging.getLogger(__name__)


def finetune(
    model: Folder, data: Data, output: Folder, options: Options | None = None, *, progress: bool = False
) -> StepResult:
    """Step 1: fine-tune the pretrained encoder on the task; skipped where it already has the task's head."""
    options = (options or Options()).for_task(data.task, processes().num_processes)
    network, tokenizer, headed = model_for(model, data.task, options.seed)
    with begin("finetune", model, data, output, options, progress=progress) as run:
        if run.finished:
            return run.result()
        encoded = run.encode(network, tokenizer)
        if headed:
            logger.info("%s already answers %s: nothing to fine-tune", model, data.task.name)
        else:
            run.train(network, tokenizer, encoded)
        return run.finish(network, tokenizer, encoded)


def search(
    model: Folder, data: Data, output: Folder, options: SearchOptions | None = None, *, progress: bool = False
) -> StepResult:
    """Step 2: learn how many word-vectors each encoder retains, with all weights and r trained together.

    The learned r goes to `retention_parameters.json` and, as a picture, to `retention.png`.
    """
    options = (options or SearchOptions()).for_task(data.task, processes().num_processes)
    network, tokenizer = fine_tuned(model, data.task)
    with begin("search", model, data, output, options, progress=progress) as run:
        if run.finished:
            return run.result()
        encoded = run.encode(network, tokenizer)
        r = RetentionParameters(network, options.bins, None if options.relative else encoded.max_length)
        rate = options.retention_rate(options.epochs * len(data.splits["train"]) / inputs_per_step(options))
        if options.optimiser == "decoupled":  # lambda acts in the optimiser
            objective, group = None, r.optimiser_group(rate, l1=options.regulariser)
        else:  # lambda is in the loss
            objective, group = ReleaseRegulariser(r, options.regulariser), r.optimiser_group(rate, l1=None)
        # Not the weights that did best on dev: those are from before anything was learned to be eliminated.
        run.train(network, tokenizer, encoded, best=False, objective=objective, r=r, group=group)
        retention = r.to_configuration(options.lengths)
        logger.info("learned retention configuration: %s", retention)
        r.detach()
        apply(network, retention)
        picture = retention_picture(r.to_json(), retention, f"r learned on {data.task.name}")
        files = {PARAMETERS: json.dumps(r.to_json()).encode(), PICTURE: picture}
        return run.finish(network, tokenizer, encoded, files)


def retrain(
    model: Folder,
    data: Data,
    output: Folder,
    options: RetrainOptions | None = None,
    *,
    retention: RetentionConfiguration | None = None,
    teacher: Folder | None = None,
    progress: bool = False,
) -> StepResult:
    """Step 3: re-train with extract layers, from step 2's weights, with the step-1 model as teacher.

    retention: by default what the model carries, as a searched one does. teacher: by default the
    fine-tuned model from which the searches and re-trainings began.
    """
    options = (options or RetrainOptions()).for_task(data.task, processes().num_processes)
    network, tokenizer = load(model)
    carried = retention_of(network)
    retention = retention or carried
    if retention is None:
        remedy = "run search first, or give --retention"
        raise PowerBertError(f"{model} carries no retention configuration", remedy=remedy)
    check_head(network, model, data.task, remedy="run search first")
    apply(network, retention)
    vectors = options.hidden_weight > 0
    teacher = _teacher(model, teacher, carried) if options.needs_teacher else None
    if teacher is not None:
        check_teacher(teacher, data.task, network, tokenizer, vectors=vectors)
    more = {"retention": retention.to_json(), "teacher": str(teacher) if teacher else None}
    more["teacher_digest"] = folder_digest(teacher) if teacher else None
    with begin("retrain", model, data, output, options, progress=progress, **more) as run:
        if run.finished:
            return run.result()
        encoded = run.encode(network, tokenizer)
        rows, objective = encoded.splits["train"], None
        if teacher is not None:
            logger.info("asking %s for its answers to %s rows, once", teacher, f"{len(rows):,}")
            half = run.options.precision == "bf16"
            rows = with_answers(rows, load(teacher)[0], tokenizer, vectors=vectors, half=half)
            objective = Distillation(network, data.task, options)
        run.train(network, tokenizer, encoded, rows=rows, objective=objective)
        return run.finish(network, tokenizer, encoded)


def _teacher(model: Folder, given: Folder | None, carried: RetentionConfiguration | None) -> Path:
    """The teacher as given, else the fine-tuned model that this one came from."""
    teacher = Path(given or origin(Path(model))).resolve()
    if given is None and carried is not None and teacher == Path(model).resolve():
        raise PowerBertError(
            f"which fine-tuned model teaches? {model} has elimination and no record of where it came from",
            remedy="give --teacher FOLDER, or --distillation 0",
        )
    return teacher

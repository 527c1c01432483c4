"""The paper's three training steps, and one for all budgets: each a function from a model folder to a model folder.

Paper: Training PoWER-BERT
"""

import json
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from powerbert.elimination.selection import Scoring
from powerbert.errors import PowerBertError
from powerbert.folders.manifest import folder_digest
from powerbert.modeling.apply import apply, elimination_of, encoders_of, remove, retention_of, unpad, with_retention
from powerbert.modeling.storage import load
from powerbert.report.pictures import retention_picture
from powerbert.retention import RetentionConfiguration
from powerbert.text.batches import TEACHER
from powerbert.training.data import Data, encode_data, evaluate
from powerbert.training.heads import check_head, fine_tuned, model_for, start_at_mean
from powerbert.training.ladder import Ladder, all_rungs, dial_of, least_budget, rung
from powerbert.training.options import AnytimeOptions, Options, RetrainOptions, SearchOptions
from powerbert.training.retention_parameters import RetentionParameters, released
from powerbert.training.runner import Folder, StepResult, begin
from powerbert.training.teacher import Distillation, check_teacher, teacher_of, with_answers

PARAMETERS, PICTURE = "retention_parameters.json", "retention.png"  # the r that a search learned, in its folder

logger = logging.getLogger(__name__)


def finetune(
    model: Folder, data: Data, output: Folder, options: Options | None = None, *, progress: bool = False
) -> StepResult:
    """Step 1: fine-tune the pretrained encoder on the task; skipped where it already has the task's head."""
    options = options or Options()
    network, tokenizer, headed = model_for(model, data.task, options.seed)
    with begin("finetune", model, data, output, options, network.config.hidden_size, progress=progress) as run:
        if run.finished:
            return run.result()
        rows = run.encode(network, tokenizer).splits["train"]
        if headed:
            logger.info("%s brings the head of its task (%s): nothing to fine-tune", model, data.task.name)
        else:
            if data.task.kind == "regression":
                start_at_mean(network, rows["labels"][:])
            unpad(network)  # in the loop of this project the last encoder asks with CLS alone: exact, a seventh faster
            run.train()
            remove(network)
        return run.finish()


def search(
    model: Folder, data: Data, output: Folder, options: SearchOptions | None = None, *, progress: bool = False
) -> StepResult:
    """Step 2: learn how many word-vectors each encoder retains, with all weights and r trained together.

    The learned r goes to `retention_parameters.json` and, as a picture, to `retention.png`.
    """
    network, tokenizer = fine_tuned(model, data.task)
    with begin(
        "search", model, data, output, options or SearchOptions(), network.config.hidden_size, progress=progress
    ) as run:
        if run.finished:
            return run.result()
        encoded, options = run.encode(network, tokenizer), run.options
        r = RetentionParameters(network, options.bins, None if options.relative else encoded.max_length)
        rate = options.retention_rate(run.steps)
        decoupled = options.optimiser == "decoupled"  # lambda acts in the optimiser, else in the loss
        l1 = options.regulariser if decoupled else None
        group = r.optimiser_group(rate, l1, options.budget, run.steps)
        objective = None if decoupled else partial(released, r, options.regulariser)
        # Not the weights that did best on dev: those are from before anything was learned to be eliminated.
        run.train(best=False, objective=objective, r=r, group=group)
        retention = r.to_configuration(options.lengths, options.budget)
        logger.info("learned retention configuration: %s", retention)
        r.detach()
        apply(network, retention)
        picture = retention_picture(r.to_json(), retention, f"r learned on {data.task.name}")
        return run.finish({PARAMETERS: json.dumps(r.to_json()).encode(), PICTURE: picture})


def retrain(
    model: Folder,
    data: Data,
    output: Folder,
    options: RetrainOptions | None = None,
    *,
    retention: RetentionConfiguration | None = None,
    strategy: str | None = None,
    ladder: Sequence[RetentionConfiguration] = (),
    teacher: Folder | None = None,
    progress: bool = False,
) -> StepResult:
    """Step 3: re-train with extract layers, from step 2's weights, with the step-1 model as teacher.

    retention: by default what the model carries, as a searched one does.
    strategy: by default what it carries, else Attn-WS; Rand-WS draws its order of positions with the options' seed.
    ladder: configurations of which each batch draws one, so that the weights serve all of them: the folder has a
        dial, and carries `retention`.
    teacher: by default the fine-tuned model from which the searches and re-trainings began.
    """
    options = options or RetrainOptions()
    network, tokenizer = load(model)
    carried, vectors = retention_of(network), options.hidden_weight > 0
    if (retention := retention or carried) is None:
        raise PowerBertError(f"{model} has no retention configuration", remedy="run search first, or give --retention")
    check_head(network, model, data.task, remedy="run search first")
    _select_by(network, retention, strategy, options.seed)
    more: dict[str, Any] = {"retention": retention.to_json(), "teacher": None, "teacher_digest": None}
    own = {"ladder": [rung.to_json() for rung in ladder], "strategy": strategy}
    more |= {name: value for name, value in own.items() if value}  # so that an earlier run is still the same
    if options.needs_teacher:
        teacher = Path(teacher).resolve() if teacher else teacher_of(model, eliminates=carried is not None)
        check_teacher(teacher, data.task, network, tokenizer, vectors=vectors)
        more |= {"teacher": str(teacher), "teacher_digest": folder_digest(teacher)}
    with begin("retrain", model, data, output, options, network.config.hidden_size, progress=progress, **more) as run:
        if run.finished:
            return run.result()
        rows = run.encode(network, tokenizer).splits["train"]
        if options.needs_teacher and (vectors or TEACHER not in rows.column_names):  # texts without labels bring it
            logger.info("asking %s for its answers to %s rows, once", teacher, f"{len(rows):,}")
            half = run.options.precision == "bf16"
            rows = with_answers(rows, load(more["teacher"])[0], tokenizer, vectors=vectors, half=half)
        objective = Distillation(network, data.task, options) if options.needs_teacher else None
        if not ladder:
            run.train(rows, objective=objective)
            return run.finish()
        # The weights of the last step: those that did best on one rung need not serve the others.
        run.train(rows, best=False, objective=objective, before=Ladder(ladder, options.seed).draw)
        with_retention(network, retention)
        return run.finish(dial=dial_of(ladder))


def anytime(
    model: Folder,
    data: Data,
    output: Folder,
    options: AnytimeOptions | None = None,
    *,
    budgets: Sequence[float] | None = None,
    progress: bool = False,
) -> tuple[StepResult, list[dict[str, Any]]]:
    """Re-train the fine-tuned model once for several budgets, shares of its work; returns a row for each, too.

    The folder has them all on its dial. Budgets that are too small for the model are left out, and told.
    """
    network, tokenizer = fine_tuned(model, data.task)
    rungs = _rungs(encoders_of(network), budgets)
    middle = rungs[len(rungs) // 2]
    result = retrain(
        model, data, output, options or AnytimeOptions(), retention=middle, ladder=rungs, progress=progress
    )
    encoded = encode_data(data, network, tokenizer)

    def row(name: str, answering: Any, retention: str) -> dict[str, Any]:
        found = evaluate(answering, encoded.splits["dev"], encoded.task, tokenizer).to_json()
        return {"name": name, "retention": retention} | found

    trained, _ = load(result.folder)
    rows = [row(name, with_retention(trained, each), str(each)) for name, each in dial_of(rungs).items()]
    return result, [row("original", network, "full"), *rows]


def _rungs(encoders: int, budgets: Sequence[float] | None) -> list[RetentionConfiguration]:
    """The configurations of the budgets that can be spent, the mildest first; without budgets all rungs of a ladder."""
    if budgets is None:
        return all_rungs(encoders)
    least = least_budget(encoders)
    rungs = [rung(encoders, budget) for budget in sorted(set(budgets), reverse=True) if budget >= least]
    if not rungs:
        rule, remedy = f"at least {least:.2f} of the work", "give larger --budgets"
        raise PowerBertError("no budget can be spent", got=list(budgets), rule=rule, remedy=remedy)
    if small := [budget for budget in budgets if budget < least]:
        logger.warning("%s encoders cannot spend less than %.2f of the work: left out %s", encoders, least, small)
    return rungs


def _select_by(network: Any, retention: RetentionConfiguration, strategy: str | None, seed: int) -> None:
    """Eliminate by a strategy, else by that which the model carries with its scoring, else by Attn-WS."""
    if strategy is not None:
        apply(network, retention, strategy, scoring=Scoring(seed=seed) if strategy == "rand-ws" else None)
    elif elimination_of(network) is None:
        apply(network, retention)
    else:
        with_retention(network, retention)

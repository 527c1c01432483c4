"""The anytime recipe: one training after which any configuration can be applied to the same weights.

Each step trains the full model on the labels, and the smallest and a random configuration on the full
model's own answers (the sandwich rule). Afterwards accuracy is reported for a set of shapes and budgets.
"""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
from torch import Tensor

from powerbert.errors import PowerBertError
from powerbert.modeling.apply import apply, encoders_of, remove, retention_of
from powerbert.modeling.storage import load
from powerbert.retention import SCALE, RetentionConfiguration
from powerbert.tasks.task import Task
from powerbert.training.data import Data, evaluate
from powerbert.training.heads import fine_tuned
from powerbert.training.options import AnytimeOptions
from powerbert.training.runner import Folder, StepResult, begin
from powerbert.training.shapes import SHAPES, scaled, shaped, work
from powerbert.training.teacher import answer_distance, without_labels

BUDGETS = (0.7, 0.5, 0.35)
TABLE = "anytime.json"
logger = logging.getLogger(__name__)


class Sandwich:
    """The full model on the labels; the smallest and a random configuration on the full model's answers."""

    def __init__(self, smallest: RetentionConfiguration, task: Task, temperature: float, seed: int) -> None:
        self.smallest, self.task, self.temperature, self.seed = smallest, task, temperature, seed
        self.full = RetentionConfiguration.full(len(smallest))

    def drawn(self, step: int) -> RetentionConfiguration:
        """The random configuration of a step, never rising: seed and step alone decide, so that a run can resume."""
        low = numpy.asarray(self.smallest.fractions)
        shares = low + (1 - low) * numpy.random.default_rng([self.seed, step]).random(len(low))
        return RetentionConfiguration.relative(numpy.minimum.accumulate(shares).clip(1 / SCALE, 1.0).tolist())

    def __call__(self, model: Any, inputs: dict[str, Tensor], outputs: Any, step: int) -> Tensor:
        """Add up the three losses."""
        loss, answers = outputs["loss"], outputs["logits"].detach()
        for retention in (self.smallest, self.drawn(step)):
            logits = apply(model, retention)(**without_labels(inputs)).logits
            loss = loss + answer_distance(logits, answers, self.task, self.temperature)
        apply(model, self.full)
        return loss

    def epochs(self) -> float:
        """How many epochs of fine-tuning one epoch of this costs."""
        drawn = [work(self.drawn(step).fractions) for step in range(100)]
        return 1 + work(self.smallest.fractions) + float(numpy.mean(drawn))


def anytime(
    model: Folder,
    data: Data,
    output: Folder,
    options: AnytimeOptions | None = None,
    *,
    learned: Sequence[Folder] = (),
    budgets: Sequence[float] = BUDGETS,
    progress: bool = False,
) -> tuple[StepResult, list[dict[str, Any]]]:
    """Train once for all configurations; returns the full model's result and a table of configurations.

    learned: folders that a search wrote; their configurations join the table as they are and at every
    budget. budgets: shares of the work at which every shape is reported.
    """
    options = options or AnytimeOptions()
    network, tokenizer = fine_tuned(model, data.task)
    encoders = encoders_of(network)
    candidates = _candidates(encoders, budgets, [Path(folder) for folder in learned])
    sandwich = Sandwich(shaped("linear", encoders, options.smallest), data.task, options.temperature, options.seed)
    more = {"candidates": {name: retention.to_json() for name, retention in candidates.items()}}
    with begin("anytime", model, data, output, options, network.config.hidden_size, progress=progress, **more) as run:
        if run.finished:
            result = run.result()
        else:
            encoded, table = run.encode(network, tokenizer), []
            cost = f"an epoch costs what {sandwich.epochs():.1f} epochs of fine-tuning cost"
            each = "the full model, the smallest and a random configuration in every step"
            logger.info(f"{cost}: {each}; then {len(candidates)} configurations are evaluated")
            apply(network, sandwich.full)
            run.train(best=False, objective=sandwich)
            for name, retention in candidates.items():
                found = evaluate(apply(network, retention), encoded.splits["dev"], encoded.task, tokenizer)
                table.append({"name": name, "retention": str(retention)} | found.to_json())
            remove(network)
            result = run.finish({TABLE: json.dumps(table, indent=1).encode()})
    return result, json.loads((result.folder / TABLE).read_text(encoding="utf-8"))


def _candidates(encoders: int, budgets: Sequence[float], learned: Sequence[Path]) -> dict[str, RetentionConfiguration]:
    """Every shape at every budget, and each learned configuration as it is and at every budget."""
    found = {"full": RetentionConfiguration.full(encoders)}
    for budget in budgets:
        found |= {f"{name} {budget:g}": shaped(name, encoders, budget) for name in SHAPES}
    for folder in learned:
        retention = retention_of(load(folder)[0])
        if retention is None:
            raise PowerBertError(f"{folder} carries no retention configuration", remedy="run search first")
        retention.check_encoders(encoders)
        found[f"learned by {folder.name}"] = retention
        if retention.is_relative and not retention.is_full:
            found |= {f"learned by {folder.name} {b:g}": scaled(retention, b) for b in budgets}
    return found

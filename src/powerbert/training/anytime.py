"""The anytime recipe: one training after which any configuration can be applied to the same weights.

Each step trains the full model on the labels, and the smallest and a random configuration on the full
model's own answers (the sandwich rule). Afterwards accuracy is reported for a set of shapes and budgets.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from powerbert.modeling.apply import apply, remove, retention_of
from powerbert.modeling.families.registry import family_of
from powerbert.modeling.storage import load
from powerbert.retention import RetentionConfiguration
from powerbert.training.data import Encoded, encode
from powerbert.training.evaluation import Evaluation, evaluate
from powerbert.training.objectives import Sandwich
from powerbert.training.options import AnytimeOptions
from powerbert.training.shapes import SHAPES, linear, scaled
from powerbert.training.steps import Run, StepResult, model_with_head, run_step

BUDGETS = (0.7, 0.5, 0.35)
TABLE = "anytime.json"


def anytime(
    run: Run, learned: Sequence[Path] = (), budgets: Sequence[float] = BUDGETS
) -> tuple[StepResult, list[dict[str, Any]]]:
    """Train once for all configurations; returns the full model's result and a table of configurations.

    `learned` are folders that a search wrote: their configurations join the table as they are.
    """
    options = run.options
    if not isinstance(options, AnytimeOptions):
        raise TypeError("anytime takes AnytimeOptions")
    model, tokenizer = model_with_head(run)
    encoders = len(family_of(model).encoders(model.base_model))
    encoded = encode(run.data, model, tokenizer, run.max_length)
    candidates = _candidates(encoders, budgets, learned)
    apply(model, RetentionConfiguration.full(encoders))

    def finish() -> dict[str, bytes]:
        table = _table(model, tokenizer, encoded, candidates)
        remove(model)
        return {TABLE: json.dumps(table, indent=1).encode()}

    smallest = linear(encoders, options.smallest)
    result = run_step(
        run,
        model,
        tokenizer,
        encoded=encoded,
        best=False,
        finish=finish,
        objective=Sandwich(smallest, options.temperature, options.seed),
        more={"candidates": {name: retention.to_json() for name, retention in candidates.items()}},
    )
    return result, json.loads((run.output / TABLE).read_text(encoding="utf-8"))


def _candidates(
    encoders: int, budgets: Sequence[float], learned: Sequence[Path]
) -> dict[str, RetentionConfiguration]:
    """Every shape at every budget, and each learned configuration as it is and at every budget."""
    found = {"full": RetentionConfiguration.full(encoders)}
    for budget in budgets:
        found |= {f"{name} {budget:g}": shape(encoders, budget) for name, shape in SHAPES.items()}
    for folder in learned:
        retention = retention_of(load(folder)[0])
        if retention is not None:
            found[f"learned by {folder.name}"] = retention
            if retention.is_relative:
                found |= {f"learned by {folder.name} {b:g}": scaled(retention, b) for b in budgets}
    return found


def _table(
    model: Any, tokenizer: Any, encoded: Encoded, candidates: dict[str, RetentionConfiguration]
) -> list[dict[str, Any]]:
    rows = []
    for name, retention in candidates.items():
        evaluation: Evaluation = evaluate(
            apply(model, retention), encoded.splits["dev"], encoded.task, tokenizer
        )
        rows.append({"name": name, "retention": str(retention)} | evaluation.to_json())
    return rows

"""A model for a task: its own head where it has one, else a new one on the pretrained encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from powerbert.errors import ModelFolderError
from powerbert.modeling.apply import remove
from powerbert.modeling.storage import load
from powerbert.tasks.task import Task

AUTO = {
    "classification": AutoModelForSequenceClassification,
    "regression": AutoModelForSequenceClassification,
    "multiple-choice": AutoModelForMultipleChoice,
}
PROBLEMS: dict[str, Any] = {
    "classification": "single_label_classification",
    "regression": "regression",
    "multiple-choice": None,  # a choice has one number, of which transformers makes no kind of labels
}


def has_head(model: PreTrainedModel, task: Task) -> bool:
    """Whether the model already answers this task: the right class, and the same labels in order.

    Case does not matter, as in NEGATIVE and POSITIVE of a model for SST-2, unless two labels differ by it.
    """
    if type(model) is not _head_class(model, task):
        return False
    if task.kind != "classification":
        return task.kind == "multiple-choice" or model.config.num_labels == 1
    id2label: Any = model.config.id2label
    own, asked = [id2label[i] for i in sorted(id2label)], list(task.labels or ())
    folded = [name.casefold() for name in own]
    return own == asked or (folded == [name.casefold() for name in asked] and len({*folded}) == len(folded))


def model_for(
    folder: str | Path, task: Task, seed: int
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, bool]:
    """Load a model for the task, untouched; the third value tells whether it brought its head along.

    A new head is drawn from the seed; every tensor of the encoder comes from the folder.
    """
    model, tokenizer = load(folder)
    remove(model)
    if has_head(model, task):
        return model, tokenizer, True
    config = model.config
    config.num_labels = task.num_labels
    config.problem_type = PROBLEMS[task.kind]
    if task.kind == "classification" and task.labels is not None:
        config.id2label = dict(enumerate(task.labels))
        config.label2id = {name: i for i, name in enumerate(task.labels)}
    torch.manual_seed(seed)
    auto: Any = AUTO[task.kind]
    headed = auto.from_config(config, dtype=torch.float32)
    missing, unexpected = headed.base_model.load_state_dict(model.base_model.state_dict(), strict=False)
    # A pooler is part of the new head: an encoder saved without one starts with a fresh one.
    if unexpected or any(not name.startswith("pooler") for name in missing):
        raise ModelFolderError(
            "the encoder does not fit the task's model",
            got=[*missing, *unexpected][:3],
            remedy="use a folder with a whole pretrained encoder",
        )
    return headed.eval(), tokenizer, False


def _head_class(model: PreTrainedModel, task: Task) -> Any:
    auto: Any = AUTO[task.kind]
    return auto._model_mapping[type(model.config)]

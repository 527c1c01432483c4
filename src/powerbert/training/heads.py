"""A model for a task: its own head where it has one, else a new one on the pretrained encoder."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMultipleChoice, AutoModelForSequenceClassification, PreTrainedModel

from powerbert.errors import ModelFolderError, UnsupportedModelError
from powerbert.folders.cross_encoder import forget_activation
from powerbert.modeling.apply import remove
from powerbert.modeling.attention_heads import fewer_heads, retain_heads
from powerbert.modeling.storage import load
from powerbert.tasks.task import Task, same_labels

HEADS: dict[str, tuple[Any, Any]] = {
    "classification": (AutoModelForSequenceClassification, "single_label_classification"),
    "regression": (AutoModelForSequenceClassification, "regression"),
    "multiple-choice": (AutoModelForMultipleChoice, None),  # one number per choice is no kind of labels
}
"""Kind of task -> how transformers makes its model, and the `problem_type` of that."""

logger = logging.getLogger(__name__)


def has_head(model: PreTrainedModel, task: Task) -> bool:
    """Whether the model already answers this task: the right class, and the same labels in order.

    Labels are the same in any case of their letters, a NEGATIVE is a negative, unless two differ by it alone.
    """
    auto, problem = HEADS[task.kind]
    if type(model) is not auto._model_mapping[type(model.config)] or model.config.problem_type not in (None, problem):
        return False
    if task.kind != "classification":
        return task.kind == "multiple-choice" or model.config.num_labels == 1
    return same_labels(label_names(model), task.labels or ())


def model_for(folder: str | Path, task: Task, seed: int) -> tuple[PreTrainedModel, Any, bool]:
    """Load a model for the task, without elimination; the third value tells whether it brought its head.

    A new head is drawn from the seed; every tensor of the encoder comes from the folder.
    """
    model, tokenizer = load(folder)
    remove(model)
    if has_head(model, task):
        return model, tokenizer, True
    if model.base_model is not model:
        old, new = f"{type(model).__name__} ({_shown(label_names(model))})", f"{task.name} ({_shown(task.labels)})"
        logger.warning(f"{folder}: a new head for {new} replaces that of {old}; to keep it, give it the task's labels")
    return _with_new_head(model, task, seed), tokenizer, False


def fine_tuned(folder: str | Path, task: Task) -> tuple[PreTrainedModel, Any]:
    """Load a model that answers the task, without elimination, or refuse it."""
    model, tokenizer = load(folder)
    check_head(remove(model), folder, task, remedy="run finetune first")
    return model, tokenizer


def check_head(model: PreTrainedModel, folder: str | Path, task: Task, remedy: str) -> None:
    """Refuse a model that does not answer the task."""
    if not has_head(model, task):
        bare = model.base_model is model  # its configuration has names of labels all the same
        labels = "no labels" if bare else f"labels {_shown(label_names(model))}"
        got = f"{type(model).__name__} with {labels}"
        rule = f"the task's are {_shown(task.labels)}"
        raise UnsupportedModelError(f"{folder} does not answer {task.name}", got=got, rule=rule, remedy=remedy)


def _with_new_head(model: PreTrainedModel, task: Task, seed: int) -> Any:
    config, (auto, problem) = model.config, HEADS[task.kind]
    forget_activation(config)
    config.num_labels, config.problem_type = task.num_labels, problem
    if task.kind == "classification" and task.labels is not None:
        config.id2label = dict(enumerate(task.labels))
        config.label2id = {name: i for i, name in enumerate(task.labels)}
    torch.manual_seed(seed)
    headed = auto.from_config(config, dtype=torch.float32)
    if heads := fewer_heads(model):
        retain_heads(headed, [range(count) for count in heads])
    missing, unexpected = headed.base_model.load_state_dict(model.base_model.state_dict(), strict=False)
    # A pooler is part of the new head: an encoder saved without one starts with a fresh one.
    wrong = [*(name for name in missing if not name.startswith("pooler")), *unexpected]
    if wrong:
        what, remedy = "the encoder does not fit the task's model", "use a folder with a whole pretrained encoder"
        raise ModelFolderError(what, got=wrong[:3], remedy=remedy)
    return headed.eval()


def start_at_mean(model: PreTrainedModel, labels: Sequence[float]) -> None:
    """Let a new head of a regression answer the mean of the labels to begin with.

    From 0 the first steps of a training would move the whole encoder only to say that.
    """
    *_, last = (each for each in model.modules() if isinstance(each, torch.nn.Linear) and each.out_features == 1)
    if last.bias is not None:
        torch.nn.init.constant_(last.bias, sum(labels) / len(labels))


def label_names(model: PreTrainedModel) -> list[str]:
    """Names of the labels that a model answers with, in order."""
    id2label: Any = model.config.id2label
    return [str(id2label[i]) for i in sorted(id2label)]


def _shown(labels: Sequence[str] | None) -> str:
    return ", ".join(labels[:5]) + ", ..." * (len(labels) > 5) if labels else "a number"

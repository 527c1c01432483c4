"""What a model can read, and whether an engine can run it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from powerbert.errors import ModelFolderError, PowerBertError, UnsupportedModelError
from powerbert.folders.manifest import MAX_CONFIG, read_json
from powerbert.modeling.apply import base_of, retention_of
from powerbert.modeling.families import family_of
from powerbert.text.batches import Integers

SEQUENCE, CHOICE = "ForSequenceClassification", "ForMultipleChoice"
RUN = "run.json"  # the record that training leaves in a model folder

Batch = Mapping[str, Any]
"""`input_ids`, `attention_mask` and perhaps `token_type_ids`: (batch, length), arrays or CPU tensors."""


class Limits(NamedTuple):
    """What a model can read."""

    inputs: tuple[str, ...]  # of input_ids, attention_mask and token_type_ids
    longest: int  # word-vectors of an input
    vocabulary: int  # words have ids below this
    types: int  # token types are below this


def limits_of(model: Any, tokenizer: PreTrainedTokenizerBase) -> Limits:
    """What a classifier can read; token types only where the model tells more than one apart."""
    types = int(getattr(model.config, "type_vocab_size", 0) or 0)
    inputs = ("input_ids", "attention_mask") + (("token_type_ids",) if types > 1 else ())
    return Limits(inputs, longest_input(model, tokenizer), int(model.config.vocab_size), types)


def longest_input(model: Any, tokenizer: Any = None) -> int:
    """The least of what the model's positions, N of its configuration and, if given, the tokenizer allow.

    The one rule for every command and engine: a text is answered the same wherever it is asked. The
    tokenizer of a trained folder allows the N of its training, which `load` reads with `trained_length`.
    """
    base, read = base_of(model), -1 if tokenizer is None else int(tokenizer.model_max_length)
    limits = (family_of(base).longest(base.config), getattr(retention_of(model), "max_length", None) or -1, read)
    return min(limit for limit in limits if limit > 0)  # a tokenizer itself may say -1


def trained_length(folder: Path) -> int | None:
    """N of the training that wrote a folder; None if none did."""
    try:
        length = read_json(folder / RUN, MAX_CONFIG)["result"]["max_length"]
    except (ModelFolderError, KeyError, TypeError):
        return None
    return length if type(length) is int and length > 0 else None


def eliminates(model: Any) -> bool:
    """Whether a model carries elimination that does anything at a length it can read."""
    retention = retention_of(model)
    return retention is not None and not retention.is_full


def check_classifier(model: Any, *heads: str) -> None:
    """Refuse what an engine cannot serve; `heads` are those that it can, by default sequence classifiers."""
    got = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        remedy = "call merge_and_unload() on a PEFT model first"
        raise UnsupportedModelError("an engine runs a transformers model", got=got, remedy=remedy)
    if not got.endswith(heads or (SEQUENCE,)):
        remedy = "fine-tune the model first, or call the model itself"
        raise UnsupportedModelError("an engine runs sequence classifiers", got=got, remedy=remedy)


def check_batch(batch: Batch, limits: Limits) -> dict[str, Integers]:
    """Bring a batch to the inputs of a model; a graph would read out of bounds where this refuses."""
    inputs = {name: _integers(name, batch[name]) for name in limits.inputs if name in batch}
    words = inputs.get("input_ids")
    if words is None or "attention_mask" not in inputs:
        what, remedy = "a batch has input_ids and attention_mask", "use the tokenizer's output"
        raise PowerBertError(what, got=sorted(batch), remedy=remedy)
    if len({rows.shape for rows in inputs.values()}) > 1 or words.ndim != 2 or words.size == 0:
        shapes = {name: rows.shape for name, rows in inputs.items()}
        raise PowerBertError("a batch is not rectangular", got=shapes, rule="each is (batch, length)")
    if "token_type_ids" in limits.inputs:
        inputs.setdefault("token_type_ids", np.zeros_like(words))
    # Columns at the right end that are PAD in every input are cut: nobody reads them.
    real = np.flatnonzero(inputs["attention_mask"].any(axis=0))
    width = int(real[-1]) + 1 if real.size else 1
    if width > limits.longest:
        rule, remedy = f"at most {limits.longest} words", "truncate it when tokenising"
        raise PowerBertError("an input is longer than the model reads", got=width, rule=rule, remedy=remedy)
    inputs = {name: np.ascontiguousarray(rows[:, :width]) for name, rows in inputs.items()}
    for name, most in (("input_ids", limits.vocabulary), ("token_type_ids", limits.types)):
        if name in inputs and not 0 <= inputs[name].min() <= inputs[name].max() < most:
            raise PowerBertError(f"{name} are out of range", rule=f"from 0 to {most - 1}")
    return inputs


def _integers(name: str, rows: Any) -> Integers:
    found = np.asarray(rows)
    if found.dtype.kind not in "biu":
        raise PowerBertError(f"{name} are not whole numbers", got=str(found.dtype))
    return found.astype(np.int64, copy=False)

"""What a model can read, and whether an engine can run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from powerbert.errors import UnsupportedModelError
from powerbert.modeling.apply import base_of, elimination_of, retention_of
from powerbert.modeling.families.registry import family_of

SEQUENCE, CHOICE = "ForSequenceClassification", "ForMultipleChoice"
RUN = "run.json"
"""The record that training leaves in a model folder."""


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
    base, retention = base_of(model), retention_of(model)
    limits = [family_of(base).longest(base.config)]
    if tokenizer is not None:
        limits.append(int(tokenizer.model_max_length))
    if retention is not None and retention.max_length is not None:
        limits.append(retention.max_length)
    return min(limit for limit in limits if limit > 0)  # a tokenizer may say -1


def trained_length(folder: Path) -> int | None:
    """N of the training that wrote a folder; None if none did."""
    try:
        length = json.loads((folder / RUN).read_text(encoding="utf-8"))["result"]["max_length"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return length if type(length) is int and length > 0 else None


def eliminates(model: Any) -> bool:
    """Whether a model carries elimination that does anything at a length it can read."""
    elimination = elimination_of(model)
    return elimination is not None and not elimination.retention.is_full


def check_classifier(model: Any, *heads: str) -> None:
    """Refuse what an engine cannot serve; `heads` are those that it can, by default sequence classifiers."""
    if not isinstance(model, PreTrainedModel):
        raise UnsupportedModelError(
            "an engine runs a transformers model",
            got=type(model).__name__,
            remedy="call merge_and_unload() on a PEFT model first",
        )
    if not type(model).__name__.endswith(heads or (SEQUENCE,)):
        raise UnsupportedModelError(
            "an engine runs sequence classifiers",
            got=type(model).__name__,
            remedy="fine-tune the model first, or call the model itself",
        )

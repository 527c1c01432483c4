"""Attach elimination to a Hugging Face model, in place, and take it off again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from powerbert.elimination.selection import STRATEGIES, Scoring
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.modeling import forward
from powerbert.modeling.encoder import Elimination, Savings
from powerbert.modeling.families.base import Family
from powerbert.modeling.families.registry import family_of
from powerbert.retention import RetentionConfiguration

Model = TypeVar("Model")


def apply(
    model: Model,
    retention: RetentionConfiguration,
    strategy: str = "attn-ws",
    *,
    scoring: Scoring | None = None,
    savings: Savings | None = None,
) -> Model:
    """Eliminate word-vectors inside `model`'s encoders from now on; returns the same object.

    The model stays its own class with the same state-dict keys; `remove` undoes it. A head that reads
    nothing but CLS gets CLS; any other head, and a bare base model, gets every position: eliminated
    word-vectors come back with the last state they had.

    strategy: "attn-ws" (the paper's), "head-ws" or "rand-ws".
    scoring: options that restore the authors' release, and the seed of Rand-WS.
    savings: exact savings, all on by default.
    """
    base, family = base_of(model), family_of(_unwrap(model))
    family.check(base)
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise PowerBertError("unknown strategy", got=strategy, rule="one of " + ", ".join(STRATEGIES))
    if not isinstance(retention, RetentionConfiguration):
        raise PowerBertError(
            "retention is not a RetentionConfiguration",
            got=retention,
            remedy="use RetentionConfiguration.absolute, relative or parse",
        )
    for given, kind in ((scoring, Scoring), (savings, Savings)):
        if given is not None and not isinstance(given, kind):
            raise PowerBertError(f"not a {kind.__name__}", got=given, remedy=f"use powerbert.{kind.__name__}")
    retention.check_encoders(encoders_of(model))
    elimination = Elimination(
        family,
        retention,
        strategy,
        scoring or Scoring(),
        savings or Savings(),
        _reads_cls_only(model, family),
    )
    _attach(base, elimination)
    return model


def remove(model: Model) -> Model:
    """Take elimination off again: the untouched model, same object."""
    base = base_of(model)
    base.__dict__.pop("forward", None)
    base.__dict__.pop(forward.ATTRIBUTE, None)
    return model


def unpad(model: Model, wanted: bool = True) -> Model:
    """Answer padded batches without computing PAD, also with a model that eliminates nothing; or do not."""
    base, elimination = base_of(model), elimination_of(model)
    if elimination is None:
        if not wanted:
            return model
        elimination = elimination_of(apply(model, RetentionConfiguration.full(encoders_of(model))))
        assert elimination is not None
    savings = replace(elimination.savings, unpadded=wanted)
    _attach(base, replace(elimination, savings=savings, own_forward=not wanted))
    return model


def elimination_of(model: Any) -> Elimination | None:
    """What `apply` attached to the model, or None."""
    found: Elimination | None = getattr(base_of(model), forward.ATTRIBUTE, None)
    return found


def retention_of(model: Any) -> RetentionConfiguration | None:
    """The retention configuration that the model carries, or None."""
    elimination = elimination_of(model)
    return None if elimination is None else elimination.retention


def search_with(model: Model, soft_extract: Any) -> Model:
    """Replace extract by soft-extract inside a model with elimination, to learn its configuration."""
    elimination = elimination_of(model)
    if elimination is None:
        raise UnsupportedModelError("the model carries no elimination", remedy="call powerbert.apply first")
    _attach(base_of(model), replace(elimination, soft_extract=soft_extract))
    return model


def _attach(base: Any, elimination: Elimination) -> None:
    # On the instance, not the class, so that other models stay untouched. A partial, not a bound
    # method, which pickle would look up by name on the class and find the stock forward.
    setattr(base, forward.ATTRIBUTE, elimination)
    base.forward = partial(forward.forward, base)


def encoders_of(model: Any) -> int:
    """The number of encoders, shared ones counted as often as they run."""
    return len(family_of(_unwrap(model)).encoders(base_of(model)))


def base_of(model: Any) -> Any:
    """The base model inside a model with any head, also behind PEFT."""
    own = _unwrap(model)
    family_of(own)
    return own.base_model


def _unwrap(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _reads_cls_only(model: Any, family: Family) -> bool:
    """Whether the head reads CLS alone; a head that is not transformers' own may read anything."""
    own = _unwrap(model)
    return type(own).__module__.startswith("transformers.models.") and family.reads_cls_only(own)


def word_vectors(model: Any, lengths: Sequence[int]) -> int:
    """Word-vectors that all encoders together process for inputs of these real lengths; PAD never counts."""
    retention = retention_of(model)
    if retention is None:
        return int(model.config.num_hidden_layers) * sum(lengths)
    totals = {length: retention.total(length) for length in set(lengths)}
    return sum(totals[length] for length in lengths)

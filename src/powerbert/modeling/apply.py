"""Attach elimination to a Hugging Face model, in place, and take it off again.

Paper: Our Objective and Approach
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from powerbert.elimination.selection import STRATEGIES, Scoring
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.modeling.families import family_of
from powerbert.modeling.families.base import Family
from powerbert.modeling.forward import ATTRIBUTE, OWN_FORWARD, forward
from powerbert.modeling.retain import Elimination, Extract, PapersOrder, Scale, SoftExtract
from powerbert.retention import RetentionConfiguration

Model = TypeVar("Model")


def apply(
    model: Model,
    retention: RetentionConfiguration,
    strategy: str = "attn-ws",
    *,
    scoring: Scoring | None = None,
    _reference: bool = False,
) -> Model:
    """Eliminate word-vectors inside `model`'s encoders from now on; returns the same object.

    The model stays its own class with the same state-dict keys; `remove` undoes it. A head that reads
    nothing but CLS gets CLS; any other head, and a bare base model, gets every position: eliminated
    word-vectors come back with the last state they had.

    strategy: "attn-ws" (the paper's), "head-ws" or "rand-ws".
    scoring: options that restore the authors' release, and the seed of Rand-WS.
    _reference: for tests, compute everything in the paper's order: the same answer for more work.
    """
    family = family_of(_unwrap(model))
    family.check(base_of(model))
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise PowerBertError("unknown strategy", got=strategy, rule="one of " + ", ".join(STRATEGIES))
    if not isinstance(retention, RetentionConfiguration):
        raise PowerBertError(
            "retention is not a RetentionConfiguration",
            got=retention,
            remedy="use RetentionConfiguration.absolute, relative or parse",
        )
    if scoring is not None and not isinstance(scoring, Scoring):
        raise PowerBertError("not a Scoring", got=scoring, remedy="use powerbert.Scoring")
    retention.check_encoders(encoders_of(model))
    cls_only = _reads_cls_only(model, family)
    retain = PapersOrder() if _reference else Extract()
    elimination = Elimination(family, retention, strategy, scoring or Scoring(), cls_only, retain=retain)
    return attach(model, elimination)


def remove(model: Model) -> Model:
    """Take elimination off again: the model as it was before `apply`, same object."""
    return attach(model, None)


def unpad(model: Model, wanted: bool = True) -> Model:
    """Answer padded batches without computing PAD, also with a model that eliminates nothing; or do not."""
    elimination = elimination_of(model)
    if elimination is None:
        if not wanted:
            return model
        apply(model, RetentionConfiguration.full(encoders_of(model)))
        return unpad(model)
    return attach(model, replace(elimination, packed=wanted))


def elimination_of(model: Any) -> Elimination | None:
    """What `apply` attached to the model, or None."""
    found: Elimination | None = getattr(base_of(model), ATTRIBUTE, None)
    return found


def retention_of(model: Any) -> RetentionConfiguration | None:
    """The retention configuration that the model carries, or None."""
    elimination = elimination_of(model)
    return None if elimination is None else elimination.retention


def search_with(model: Model, scale: Scale) -> Model:
    """Replace extract by soft-extract inside a model with elimination, to learn its configuration."""
    elimination = elimination_of(model)
    if elimination is None:
        raise UnsupportedModelError("the model carries no elimination", remedy="call powerbert.apply first")
    return attach(model, replace(elimination, retain=SoftExtract(scale)))


def attach(model: Model, elimination: Elimination | None) -> Model:
    """Give a model the elimination of `elimination_of`, or None to take it off; its own forward is kept."""
    base = base_of(model)
    own = vars(base)
    if OWN_FORWARD not in own and elimination is not None:
        # On the instance, not the class, so that no other model changes. A partial, not a bound method,
        # which pickle would look up by name on the class and find the stock forward.
        own[OWN_FORWARD] = own.get("forward")
        _bind(base)
    if elimination is not None:
        own[ATTRIBUTE] = elimination
        return model
    own.pop(ATTRIBUTE, None)
    if getattr(own.get("forward"), "func", None) is forward:  # else somebody wrapped it, and it stands aside
        del own["forward"], own["_replicate_for_data_parallel"]
        before = own.pop(OWN_FORWARD)
        if before is not None:
            own["forward"] = before
    return model


def _bind(base: Any) -> None:
    vars(base)["forward"] = partial(forward, base)
    vars(base)["_replicate_for_data_parallel"] = partial(_replicate, base)


def _replicate(base: Any) -> Any:
    """A replica for `nn.DataParallel`, which copies the instance: it must run its own modules."""
    replica = type(base)._replicate_for_data_parallel(base)
    _bind(replica)
    return replica


def encoders_of(model: Any) -> int:
    """The number of encoders, shared ones counted as often as they run."""
    return len(family_of(_unwrap(model)).encoders(base_of(model)))


def base_of(model: Any) -> Any:
    """The base model inside a model with any head, also inside PEFT."""
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
        return encoders_of(model) * sum(lengths)
    totals = {length: retention.total(length) for length in set(lengths)}
    return sum(totals[length] for length in lengths)

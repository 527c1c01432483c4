"""Attach elimination to a Hugging Face model, in place, and take it off again.

Paper: Our Objective and Approach
"""

import copy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from powerbert.elimination.selection import STRATEGIES, Scoring
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.modeling.families import family_of
from powerbert.modeling.forward import ATTRIBUTE, OWN_FORWARD, forward
from powerbert.modeling.retain import Elimination, Extract, PapersOrder
from powerbert.retention import RetentionConfiguration

_Model = TypeVar("_Model")


def apply(
    model: _Model,
    retention: RetentionConfiguration,
    strategy: str = "attn-ws",
    *,
    scoring: Scoring | None = None,
    _reference: bool = False,
) -> _Model:
    """Eliminate word-vectors inside `model`'s encoders from now on; returns the same object.

    The model stays its own class with the same state-dict keys; `remove` undoes it. A head that reads
    nothing but CLS gets CLS; any other head, and a bare base model, gets every position: eliminated
    word-vectors come back with the last state they had.

    strategy: "attn-ws" (the paper's), "head-ws" or "rand-ws".
    scoring: options that restore the authors' release, and the seed of Rand-WS.
    _reference: for tests, compute everything in the paper's order: the same answer for more work.
    """
    base, own = base_of(model), _unwrap(model)
    family = family_of(base)
    family.check(base)
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise PowerBertError("unknown strategy", got=strategy, rule="one of " + ", ".join(STRATEGIES))
    if not isinstance(retention, RetentionConfiguration):
        remedy = "use RetentionConfiguration.absolute, relative or parse"
        raise PowerBertError("retention is not a RetentionConfiguration", got=retention, remedy=remedy)
    if scoring is not None and not isinstance(scoring, Scoring):
        raise PowerBertError("not a Scoring", got=scoring, remedy="use powerbert.Scoring")
    retention.check_encoders(encoders_of(model))
    # A head that is not transformers' own may read anything.
    cls_only = type(own).__module__.startswith("transformers.models.") and family.reads_cls_only(own)
    retain = PapersOrder() if _reference else Extract()
    return attach(model, Elimination(family, retention, strategy, scoring or Scoring(), cls_only, retain=retain))


def with_retention(model: _Model, retention: RetentionConfiguration) -> _Model:
    """Go on with another configuration and the same strategy, inside a model with elimination."""
    retention.check_encoders(encoders_of(model))
    return attach(model, replace(attached(model), retention=retention))


def replica(model: _Model) -> _Model:
    """The same model beside itself, on the same layers: no weight is held twice, and each has its own elimination."""
    parts: Any = model
    leaves = (module for module in parts.modules() if next(module.children(), None) is None)
    shared = {id(part): part for part in (*leaves, *parts.parameters(), *parts.buffers())}
    return copy.deepcopy(model, shared)


def remove(model: _Model) -> _Model:
    """Take elimination off again: the model as it was before `apply`, same object."""
    return attach(model, None)


def unpad(model: _Model, wanted: bool = True) -> _Model:
    """Answer padded batches without computing PAD, also with a model that eliminates nothing; or do not."""
    if wanted and elimination_of(model) is None:
        apply(model, RetentionConfiguration.full(encoders_of(model)))
    elimination = elimination_of(model)
    return model if elimination is None else attach(model, replace(elimination, packed=wanted))


def without_attention_dropout(model: _Model) -> _Model:
    """Train without dropout on attention probabilities, so that no encoder has to write all of them down."""
    return attach(model, replace(attached(model), forgets=False))


def elimination_of(model: Any) -> Elimination | None:
    """What `apply` attached to the model, or None."""
    return getattr(base_of(model), ATTRIBUTE, None)


def retention_of(model: Any) -> RetentionConfiguration | None:
    """The retention configuration that the model carries, or None."""
    return getattr(elimination_of(model), "retention", None)


def attached(model: Any) -> Elimination:
    """What `apply` attached to the model; refuses a model that nothing was attached to."""
    elimination = elimination_of(model)
    if elimination is None:
        remedy = "call powerbert.apply with a retention configuration"
        raise UnsupportedModelError("the model eliminates nothing", remedy=remedy)
    return elimination


def search_with(model: _Model, retain: Extract) -> _Model:
    """Replace extract by what stands in for it inside a model with elimination, to learn its configuration."""
    return attach(model, replace(attached(model), retain=retain))


def attach(model: _Model, elimination: Elimination | None) -> _Model:
    """Give a model the elimination of `elimination_of`, or None to take it off; its own forward is kept."""
    base = base_of(model)
    own = vars(base)
    if elimination is not None:
        if OWN_FORWARD not in own:
            # On the instance, not the class, so that no other model changes. A partial, not a bound method,
            # which pickle would look up by name on the class and find the stock forward.
            own[OWN_FORWARD] = own.get("forward")
            _bind(base)
        own[ATTRIBUTE] = elimination
        return model
    own.pop(ATTRIBUTE, None)
    if getattr(own.get("forward"), "func", None) is forward:  # else somebody wrapped it, and it stands aside
        del own["forward"], own["_replicate_for_data_parallel"]
        if (before := own.pop(OWN_FORWARD)) is not None:
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
    base = base_of(model)
    return len(family_of(base).encoders(base))


def base_of(model: Any) -> Any:
    """The base model inside a model with any head, also inside PEFT."""
    own = _unwrap(model)
    family_of(own)  # refuses a model that has none
    return own.base_model


def _unwrap(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model

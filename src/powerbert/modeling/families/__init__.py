"""One adapter per family of models, and which adapter serves which model."""

from typing import Any

from transformers import PreTrainedModel

from powerbert.errors import UnsupportedModelError
from powerbert.modeling.families.base import Family
from powerbert.modeling.families.bert import Albert, Bert, DistilBert, Electra, MPNet, Roberta
from powerbert.modeling.families.deberta_v2 import DebertaV2
from powerbert.modeling.families.modernbert import ModernBert

FAMILIES: dict[str, Family] = {
    "bert": Bert(),
    "albert": Albert(),
    "roberta": Roberta(),
    "xlm-roberta": Roberta(),
    "distilbert": DistilBert(),
    "electra": Electra(),
    "mpnet": MPNet(),
    "modernbert": ModernBert(),
    "deberta-v2": DebertaV2(),
}
"""By `config.model_type`."""


def family_of(model: Any) -> Family:
    """Find the adapter of a model, or refuse with the list of supported families."""
    model_type = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    if model_type not in FAMILIES:
        rule, remedy = "supported are " + ", ".join(FAMILIES), "docs/add-a-family.md shows how to add one"
        what = "elimination does not know this family of models"
        raise UnsupportedModelError(what, got=model_type, rule=rule, remedy=remedy)
    if not isinstance(model, PreTrainedModel):
        what, got = "elimination works inside a transformers model", type(model).__name__
        remedy = "give the transformers model that it wraps, such as sentence_transformer[0].auto_model"
        raise UnsupportedModelError(what, got=got, remedy=remedy)
    if getattr(model.config, "is_decoder", False):
        got = "a decoder (config.is_decoder)"
        raise UnsupportedModelError("elimination serves encoders", got=got, remedy="set is_decoder=False")
    return FAMILIES[model_type]

"""What an adapter needs of a model is there, or is named in one line."""

from __future__ import annotations

import pytest
import torch
from models import FAMILIES, batch_of, tiny

import powerbert
from powerbert import RetentionConfiguration
from powerbert.errors import UnsupportedModelError
from powerbert.modeling import families
from powerbert.modeling.families.base import Inputs

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.1))
ONLY_IF_RELATIVE = {"deberta-v2": {"attention.self.pos_ebd_size", "attention.self.pos_dropout"}}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_part_that_an_adapter_names_is_missed_when_it_is_gone(family, monkeypatch):
    base, adapter = tiny(family).base_model, families.FAMILIES[family]
    adapter.check(base)
    assert adapter.mixing
    assert adapter.feeding
    for kind in ("of_base", "of_encoder"):
        monkeypatch.setattr(type(adapter), kind, (*getattr(adapter, kind), "renamed.part"))
        with pytest.raises(UnsupportedModelError, match=r"has no renamed\.part; .*docs/dependencies\.md"):
            adapter.check(base)
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("family", "part"), [("bert", "intermediate"), ("modernbert", "mlp_norm"), ("distilbert", "ffn")]
)
def test_a_model_of_another_make_is_refused_by_apply_and_stays_as_it_was(family, part):
    model = tiny(family)
    first = families.FAMILIES[family].encoders(model.base_model)[0]
    delattr(first, part)
    with pytest.raises(UnsupportedModelError, match=f"has no {part}"):
        powerbert.apply(model, RELATIVE)
    assert "forward" not in vars(model.base_model)


@pytest.mark.parametrize(
    ("family", "function"), [("modernbert", "apply_rotary_pos_emb"), ("deberta-v2", "make_log_bucket_position")]
)
def test_a_function_that_transformers_took_away_is_named(family, function, monkeypatch):
    host, _ = families.FAMILIES[family].of_host
    monkeypatch.delattr(host, function)
    with pytest.raises(UnsupportedModelError, match=f"has no {function}"):
        powerbert.apply(tiny(family), RELATIVE)


class Watched:
    """A module, or a part of one, that notes the paths of what is read of it."""

    def __init__(self, part, seen, path=()):
        self.part, self.seen, self.path = part, seen, path

    def __getattr__(self, name):
        value, path = getattr(self.part, name), (*self.path, name)
        self.seen.add(".".join(path))
        return Watched(value, self.seen, path) if isinstance(value, torch.nn.Module) else value

    def __call__(self, *given, **named):
        return self.part(*given, **named)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_reads_no_part_of_an_encoder_that_it_does_not_name(family):
    base, adapter = tiny(family).base_model, families.FAMILIES[family]
    batch = batch_of([7])
    inputs = Inputs(batch["attention_mask"].bool(), batch["input_ids"])
    positions, seen = torch.arange(7)[None], set()
    hidden = adapter.embed(base, inputs)
    context = adapter.context(base, inputs, hidden)
    encoder = Watched(adapter.encoders(base)[0], seen)
    heads = adapter.project(encoder, hidden, None, context, positions)
    adapter.scale(encoder, heads.query)
    adapter.bias(encoder, heads, context, positions, positions)
    adapter.dropout(encoder)
    adapter.feed_forward(encoder, adapter.attention_output(encoder, hidden, hidden))
    read = {path for path in seen if not any(other.startswith(f"{path}.") for other in seen)}
    assert read - set(adapter.parts()) == ONLY_IF_RELATIVE.get(family, set())

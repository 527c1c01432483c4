"""The encoder loop: oracles are BERT's own modules in plain loops, and stock models with keys hidden."""

from __future__ import annotations

import copy

import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import FAMILIES, batch_of, tiny

import powerbert
from powerbert import RetentionConfiguration, Scoring
from powerbert.modeling.apply import base_of, elimination_of, search_with, unpad
from powerbert.modeling.families import family_of
from powerbert.modeling.retain import SoftExtract
from powerbert.modeling.trace import retained_positions

ABSOLUTE = RetentionConfiguration.absolute((12, 8, 5, 3), 20)
RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.1))
LENGTHS = [13, 7, 20, 2, 1]


def inputs(model, **options):
    return batch_of(LENGTHS, pad=model.config.pad_token_id or 0, **options)


@torch.no_grad()
def logits(model, batch):
    return model(**batch).logits


@settings(max_examples=25)
@given(st.lists(st.integers(1, 12), min_size=4, max_size=4), st.integers(1, 12), st.integers(0, 99))
def test_bert_retains_and_answers_as_the_papers_order_in_plain_loops(counts, length, seed):
    counts = sorted(counts, reverse=True)
    model = tiny("bert", seed=seed % 3)
    words = batch_of([length], seed=seed)
    with torch.no_grad():
        final, retained = reference.bert_with_elimination(model, words["input_ids"][0], counts)
        expected = model.classifier(model.bert.pooler(final))
    powerbert.apply(model, RetentionConfiguration.absolute(counts, 12))
    assert [list(row) for row in retained_positions(model, words)[0]] == retained
    torch.testing.assert_close(logits(model, words), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("strategy", ["attn-ws", "head-ws", "rand-ws"])
@pytest.mark.parametrize("family", FAMILIES)
def test_eliminating_is_the_stock_model_with_those_keys_hidden(family, strategy):
    model = tiny(family, attn_implementation="eager")
    stock = copy.deepcopy(model)
    powerbert.apply(model, RELATIVE, strategy)
    encoders = elimination_of(model).family.encoders(base_of(stock))
    for length in (20, 7):
        batch = batch_of([length], pad=model.config.pad_token_id or 0)
        (retained,) = retained_positions(model, batch)
        with reference.HiddenKeys(encoders, retained, length) as hidden:
            expected = logits(stock, batch)
            assert hidden.calls == len(retained)
        torch.testing.assert_close(logits(model, batch), expected, atol=1e-5, rtol=0)
        assert not torch.allclose(expected, logits(stock, batch), atol=1e-4)  # the keys matter


def test_the_convolution_of_deberta_follows_its_words():
    model = tiny("deberta-v2", attn_implementation="eager", conv_kernel_size=3, conv_act="gelu")
    stock = copy.deepcopy(model)
    powerbert.apply(model, RELATIVE)
    batch = batch_of([15])
    (retained,) = retained_positions(model, batch)
    with reference.HiddenKeys(list(stock.deberta.encoder.layer), retained, 15):
        expected = logits(stock, batch)
    torch.testing.assert_close(logits(model, batch), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("retention", [ABSOLUTE, RELATIVE], ids=["absolute", "relative"])
@pytest.mark.parametrize("strategy", ["attn-ws", "head-ws", "rand-ws"])
@pytest.mark.parametrize("family", FAMILIES)
def test_both_layouts_answer_as_the_papers_order_does(family, strategy, retention):
    """The reference computes everything: all rows, all scores, no fused kernel, no packing."""
    model = tiny(family)
    batch = inputs(model)
    expected = logits(powerbert.apply(model, retention, strategy, _reference=True), batch)
    powerbert.apply(model, retention, strategy)
    for packed in (True, False):
        torch.testing.assert_close(logits(unpad(model, packed), batch), expected, atol=1e-5, rtol=0)


def shorter(model, encoders):
    """A stock model that has only its first encoders."""
    stock, family = copy.deepcopy(model), family_of(base_of(model))
    base = base_of(stock)
    if model.config.model_type == "albert":  # of four encoders the first two share one module
        base.config.num_hidden_layers, base.config.num_hidden_groups = encoders, encoders // 2
        return stock
    home, _, name = f"base.{family.layers}".rpartition(".")
    setattr(eval(home, {"base": base}), name, torch.nn.ModuleList(family.encoders(base)[:encoders]))
    return stock


@pytest.mark.parametrize("family", FAMILIES)
def test_a_share_of_zero_is_the_stock_model_without_those_encoders(family):
    model = tiny(family)
    expected, batch = logits(shorter(model, 2), inputs(model)), inputs(model)
    assert not torch.allclose(expected, logits(model, batch), atol=1e-4)  # the encoders matter
    powerbert.apply(model, RetentionConfiguration.relative((1, 1, 0, 0)))
    for packed in (True, False):
        torch.testing.assert_close(logits(unpad(model, packed), batch), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_leaving_encoders_out_retains_as_a_model_of_fewer_does(family):
    model = tiny(family)
    other, batch = shorter(model, 2), inputs(model)
    expected = logits(powerbert.apply(other, RetentionConfiguration.relative((0.7, 0.4))), batch)
    powerbert.apply(model, RetentionConfiguration.relative((0.7, 0.4, 0, 0)))
    torch.testing.assert_close(logits(model, batch), expected, atol=1e-5, rtol=0)
    assert retained_positions(model, batch) == retained_positions(other, batch)


def test_a_bare_base_model_gives_every_position_back_where_encoders_are_left_out():
    model = tiny("bert", "Model")
    batch = inputs(model)
    expected = model(**batch, output_hidden_states=True).hidden_states[2]
    powerbert.apply(model, RetentionConfiguration.relative((1, 1, 0, 0)))
    found, real = model(**batch).last_hidden_state, batch["attention_mask"].bool()
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=0)


def test_the_savings_save_rows(monkeypatch):
    """Counts the rows that reach each part; the reference does more work."""
    model = tiny("bert")
    rows: dict[str, int] = {}

    def count(name):
        return lambda module, args: rows.__setitem__(name, rows.get(name, 0) + args[0].shape[:-1].numel())

    for layer in model.bert.encoder.layer:
        layer.attention.self.query.register_forward_pre_hook(count("queries"))
        layer.attention.self.key.register_forward_pre_hook(count("keys"))
        layer.attention.output.register_forward_pre_hook(count("attention outputs"))
        layer.intermediate.register_forward_pre_hook(count("feed-forward"))
    batch = batch_of([20])

    def work(packed, **options):
        rows.clear()
        logits(unpad(powerbert.apply(model, ABSOLUTE, **options), packed), batch)
        return dict(rows)

    for packed in (True, False):
        assert work(packed) == {
            "queries": 20 + 12 + 8 + 1,
            "keys": 20 + 12 + 8 + 5,
            "attention outputs": 12 + 8 + 5 + 1,
            "feed-forward": 12 + 8 + 5 + 1,
        }
    assert work(False, _reference=True) == {
        "queries": 20 + 12 + 8 + 5,
        "keys": 20 + 12 + 8 + 5,
        "attention outputs": 20 + 12 + 8 + 5,
        "feed-forward": 12 + 8 + 5 + 3,
    }


@pytest.mark.parametrize(("packed", "lengths"), [(True, [20, 20]), (False, [20, 9])])
def test_an_encoder_that_eliminates_nothing_runs_the_fused_kernel(packed, lengths, monkeypatch):
    from powerbert.modeling import ops

    calls = []
    for name in ("fused", "probabilities"):
        real = getattr(ops, name)
        monkeypatch.setattr(ops, name, lambda *a, real=real, name=name: (calls.append(name), real(*a))[1])
    model, batch = tiny("bert"), batch_of(lengths)
    retention = RetentionConfiguration.absolute((20, 8, 8, 3), 21)
    logits(unpad(powerbert.apply(model, retention), packed), batch)
    # encoders 1 and 3 eliminate nothing, 4 answers for CLS
    assert calls == ["fused", "probabilities", "fused", "fused"]
    calls.clear()
    logits(powerbert.apply(model, retention, _reference=True), batch)
    assert calls == ["probabilities"] * 4


@settings(max_examples=25)
@given(
    st.sampled_from(list(FAMILIES)),
    st.lists(st.integers(1, 10_000), min_size=4, max_size=4),
    st.lists(st.integers(1, 18), min_size=1, max_size=4),
    st.integers(0, 99),
)
def test_cls_stays_order_is_kept_and_each_encoder_retains_a_subset(family, values, lengths, seed):
    retention = RetentionConfiguration.relative(sorted((v / 10_000 for v in values), reverse=True))
    model = powerbert.apply(tiny(family, seed=seed % 3), retention)
    batch = batch_of(lengths, pad=model.config.pad_token_id or 0, seed=seed)
    for length, encoders in zip(lengths, retained_positions(model, batch), strict=True):
        before = set(range(length))
        for row, count in zip(encoders, retention.counts(length), strict=True):
            assert len(row) == count
            assert row[0] == 0
            assert list(row) == sorted(row)
            assert set(row) <= before
            before = set(row)


def test_eliminated_word_vectors_have_no_later_effect():
    """Poison each eliminated word-vector's state: the answer must not move by a bit."""
    model = powerbert.apply(tiny("bert"), ABSOLUTE)
    batch = batch_of([20])
    answer = logits(model, batch)
    (retained,) = retained_positions(model, batch)
    gone = sorted(set(range(20)) - set(retained[0]))

    def poison(module, args, output):
        if output.shape[1] == 20:
            output = output.clone()
            output[:, gone] = 1e6
        return output

    for layer in model.bert.encoder.layer:
        layer.output.register_forward_hook(poison)
        layer.attention.output.register_forward_hook(poison)
    assert torch.equal(logits(model, batch), answer)
    # The same poison does reach the answer of the untouched model, so the hook can fail this test.
    assert not torch.equal(logits(powerbert.remove(model), batch), logits(tiny("bert"), batch))


def test_the_authors_release_can_be_restored():
    """With padded_queries_vote the selection depends on the padding, as in the release; by default not."""
    model = tiny("bert")
    narrow, wide = batch_of([9]), batch_of([9], width=24)
    release = Scoring(exclude_self=True, padded_queries_vote=True)
    for scoring, same in ((Scoring(), True), (release, False)):
        differ = False
        for seed in range(10):
            powerbert.apply(model, RELATIVE, scoring=scoring)
            narrow, wide = batch_of([9], seed=seed), batch_of([9], width=24, seed=seed)
            differ |= retained_positions(model, narrow) != retained_positions(model, wide)
        assert differ is not same


def test_training_selects_as_inference_does():
    """Scores come before dropout: with attention dropout alone, encoder 1 retains the same words."""
    model = tiny("bert", attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0)
    powerbert.apply(model, ABSOLUTE)
    batch = batch_of([20])
    seen = []
    from powerbert.modeling import ops

    chosen = ops.select_rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops, "select_rows", lambda *a: (seen.append(chosen(*a)), seen[-1])[1])
        model.eval()(**batch)
        model.train()(**batch)
    assert torch.equal(seen[0], seen[len(seen) // 2])


def test_soft_extract_scales_word_vectors_inside_the_encoders():
    """All degrees 1: the untouched model. CLS at 1 and the rest 0: what CLS alone can see changes."""
    model = tiny("albert")
    batch = inputs(model)
    untouched = logits(model, batch)
    powerbert.apply(model, RELATIVE)
    calls = []

    def keep_all(j, rows, ranks, lengths):
        calls.append(j)
        assert rows.shape[:2] == ranks.shape
        return rows

    search_with(model, SoftExtract(keep_all))
    torch.testing.assert_close(logits(model, batch), untouched, atol=1e-5, rtol=0)
    assert calls == [1, 2, 3]  # the last encoder answers for CLS alone, whose degree is always 1
    search_with(model, SoftExtract(lambda j, rows, ranks, lengths: rows * (ranks == 0)[..., None]))
    assert not torch.allclose(logits(model, batch), untouched, atol=1e-3)


def test_gradients_reach_every_weight_of_the_encoders():
    model = powerbert.apply(tiny("bert"), ABSOLUTE)
    model.train()
    model(**batch_of([20, 9]), labels=torch.tensor([0, 1])).loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.bert.encoder.parameters())


def test_half_precision_runs():
    model = powerbert.apply(tiny("bert").to(torch.bfloat16), RELATIVE)
    assert logits(model, batch_of(LENGTHS)).isfinite().all()

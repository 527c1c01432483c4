"""The forward pass: equality with the untouched model, any padding, all heads, callers' arguments."""

from __future__ import annotations

import pytest
import torch
from models import FAMILIES, batch_of, tiny

import powerbert
from powerbert import RetentionConfiguration
from powerbert.errors import UnsupportedModelError
from powerbert.modeling.trace import retained_positions

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.1))
LENGTHS = [13, 7, 20, 2]


def holed(batch, pad):
    """The same words with PAD sprinkled between them and CLS not at the front."""
    words = [ids[mask.bool()] for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)]
    width = 2 * max(map(len, words)) + 1
    ids = torch.full((len(words), width), pad)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(words):
        ids[i, 1 : 2 * len(row) : 2], mask[i, 1 : 2 * len(row) : 2] = row, 1
    return {"input_ids": ids, "attention_mask": mask}


@torch.no_grad()
def logits(model, batch):
    return model(**batch).logits


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("family", FAMILIES)
def test_full_retention_is_bit_equal_to_the_untouched_model(family, side):
    model = tiny(family)
    pad = model.config.pad_token_id or 0
    keys = list(model.state_dict())
    for batch in (batch_of(LENGTHS, pad=pad, side=side), batch_of([9]), batch_of([9, 4], width=30, pad=pad)):
        untouched = logits(model, batch)
        for retention in (RetentionConfiguration.full(4), RetentionConfiguration.absolute([40] * 4, 40)):
            applied = powerbert.apply(model, retention)
            assert applied is model
            assert torch.equal(logits(model, batch), untouched)
            assert list(model.state_dict()) == keys
            assert powerbert.remove(model) is model
        powerbert.remove(powerbert.apply(model, RELATIVE))
        assert torch.equal(logits(model, batch), untouched)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_loop_that_eliminates_nothing_agrees_with_the_stock_model(family):
    """Not full by name, but longer than any input: every encoder runs our loop with all rows."""
    model = tiny(family)
    batch = batch_of(LENGTHS, pad=model.config.pad_token_id or 0)
    untouched = logits(model, batch)
    powerbert.apply(model, RetentionConfiguration.absolute([30] * 4, 31))
    torch.testing.assert_close(logits(model, batch), untouched, atol=1e-5, rtol=0)


@pytest.mark.parametrize("strategy", ["attn-ws", "head-ws", "rand-ws"])
@pytest.mark.parametrize("family", FAMILIES)
def test_any_padding_gives_the_answer_of_the_text_alone(family, strategy):
    model = tiny(family)
    pad = model.config.pad_token_id or 0
    powerbert.apply(model, RELATIVE, strategy)
    batch = batch_of(LENGTHS, pad=pad)
    alone = [{name: rows[i : i + 1, :length] for name, rows in batch.items()} for i, length in enumerate(LENGTHS)]
    answers = torch.cat([logits(model, one) for one in alone])
    words = [retained_positions(model, one)[0] for one in alone]
    layouts = {
        "right": (batch, lambda i, p: p),
        "wide": (batch_of(LENGTHS, width=33, pad=pad), lambda i, p: p),
        "left": (batch_of(LENGTHS, width=25, side="left", pad=pad), lambda i, p: p - (25 - LENGTHS[i])),
        "holed": (holed(batch, pad), lambda i, p: (p - 1) // 2),
    }
    for layout, own in layouts.values():
        torch.testing.assert_close(logits(model, layout), answers, atol=1e-5, rtol=0)
        for i, encoders in enumerate(retained_positions(model, layout)):
            assert tuple(tuple(own(i, p) for p in row) for row in encoders) == words[i]


def test_masked_words_that_are_not_pad_are_not_read():
    model = powerbert.apply(tiny("roberta"), RELATIVE)
    batch = batch_of([12], pad=1)
    masked = {name: rows.clone() for name, rows in batch.items()}
    masked["attention_mask"][0, 5] = 0
    without = {name: torch.cat([rows[:, :5], rows[:, 6:]], dim=1) for name, rows in batch.items()}
    torch.testing.assert_close(logits(model, masked), logits(model, without), atol=1e-5, rtol=0)


def test_no_mask_means_no_padding():
    model = powerbert.apply(tiny("bert"), RELATIVE)
    batch = batch_of([12])
    assert torch.equal(model(batch["input_ids"]).logits, logits(model, batch))


def test_an_input_of_pad_alone_gives_finite_numbers():
    model = powerbert.apply(tiny("modernbert"), RELATIVE)
    batch = batch_of([12, 5])
    batch["attention_mask"][1] = 0
    assert logits(model, batch).isfinite().all()


def test_token_types_positions_and_embeddings_move_with_the_words():
    model = powerbert.apply(tiny("bert"), RELATIVE)
    batch = batch_of([12, 12])
    extra = {"token_type_ids": torch.tensor([[0] * 5 + [1] * 7] * 2), "position_ids": torch.arange(3, 15)[None]}
    expected = logits(model, batch | extra)
    pad = torch.nn.functional.pad
    left = {name: pad(rows, (4, 0)) for name, rows in (batch | extra).items()}
    torch.testing.assert_close(logits(model, left), expected, atol=1e-5, rtol=0)
    embeds = {"inputs_embeds": model.bert.embeddings.word_embeddings(batch["input_ids"])}
    given = {"attention_mask": batch["attention_mask"]} | extra | embeds
    torch.testing.assert_close(logits(model, given), expected, atol=1e-5, rtol=0)


HEADS = ["ForSequenceClassification", "ForMultipleChoice", "ForTokenClassification", "ForQuestionAnswering"]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_head_gives_its_shape_and_the_answer_of_the_text_alone(family, head):
    model = powerbert.apply(tiny(family, head), RELATIVE)
    batch = batch_of([11, 6], width=14, side="left", pad=model.config.pad_token_id or 0)
    alone = {name: rows[1:, 8:] for name, rows in batch.items()}
    if head == "ForMultipleChoice":
        batch, alone = ({n: rows[:, None].repeat(1, 2, 1) for n, rows in b.items()} for b in (batch, alone))
    with torch.no_grad():
        both, one = model(**batch)[0], model(**alone)[0]
    if head in ("ForTokenClassification", "ForQuestionAnswering"):
        assert both.shape[:2] == (2, 14)
        both, one = both[1:, 8:], one
    else:
        both = both[1:]
    assert both.shape == one.shape
    torch.testing.assert_close(both, one, atol=1e-5, rtol=0)


def test_regression_has_one_output():
    model = tiny("bert")
    model.config.num_labels = 1
    model = powerbert.apply(type(model)(model.config).eval(), RELATIVE)
    assert logits(model, batch_of(LENGTHS)).shape == (4, 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_eliminated_word_vector_keeps_the_last_state_it_had(family):
    """The oracle is the list of states behind each encoder: a word's last one is its final one."""
    model = powerbert.apply(tiny(family, "Model"), RELATIVE)
    batch = batch_of([15, 8], pad=model.config.pad_token_id or 0)
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True)
        plain = model(**batch).last_hidden_state
    states, final = output.hidden_states, output.last_hidden_state
    assert len(states) == 5
    torch.testing.assert_close(plain, final, atol=1e-6, rtol=0)
    if family == "modernbert":  # its last norm comes behind the encoders
        states = [model.final_norm(state) for state in states[:-1]]
    for i, encoders in enumerate(retained_positions(model, batch)):
        for word in range((15, 8)[i]):
            last = sum(word in row for row in encoders)
            if last < len(states):
                torch.testing.assert_close(final[i, word], states[last][i, word], atol=1e-6, rtol=0)


def test_hidden_states_come_at_whole_length_for_a_classifier_too():
    model = powerbert.apply(tiny("bert"), RELATIVE)
    batch = batch_of([15, 8], width=20, side="left")
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True)
    assert [tuple(state.shape) for state in output.hidden_states] == [(2, 20, 24)] * 5
    torch.testing.assert_close(output.logits, logits(model, batch), atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_hidden_states_are_the_stock_models_where_nothing_is_eliminated(family):
    model = tiny(family)
    batch = batch_of([15])
    with torch.no_grad():
        stock = model(**batch, output_hidden_states=True).hidden_states
        powerbert.apply(model, RetentionConfiguration.absolute([30] * 4, 31))
        ours = model(**batch, output_hidden_states=True).hidden_states
    assert len(ours) == len(stock)
    for mine, theirs in zip(ours, stock, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=0)


def test_an_input_longer_than_n_retains_at_most_n():
    model = powerbert.apply(tiny("bert"), RetentionConfiguration.absolute([8] * 4, 8))
    batch = batch_of([20])
    assert [len(row) for row in retained_positions(model, batch)[0]] == [8] * 4
    assert not torch.equal(logits(model, batch), logits(tiny("bert"), batch))


def test_mean_pooling_reads_every_word():
    model = powerbert.apply(tiny("modernbert", classifier_pooling="mean"), RELATIVE)
    batch = batch_of(LENGTHS)
    alone = torch.cat([logits(model, batch_of(LENGTHS[:1]))])
    torch.testing.assert_close(logits(model, batch)[:1], alone, atol=1e-5, rtol=0)


def test_a_subclass_may_read_anything_so_it_gets_every_position():
    from transformers import BertForSequenceClassification

    class Mean(BertForSequenceClassification):
        def forward(self, input_ids, attention_mask):
            return self.classifier(self.bert(input_ids, attention_mask)[0].mean(dim=1))

    model = powerbert.apply(Mean(tiny("bert").config).eval(), RELATIVE)
    batch = batch_of([10])
    with torch.no_grad():
        assert model.bert(**batch).last_hidden_state.shape == (1, 10, 24)
        model(**batch)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_full_retention_tells_that_every_encoder_retains_every_word(family):
    model = powerbert.apply(tiny(family, "Model"), RetentionConfiguration.full(4))
    batch = batch_of([5, 2], width=7, side="left")
    with torch.no_grad():
        stock = model(**batch)
        output = model(**batch, output_retained=True)
        *_, retained = model(**batch, output_retained=True, return_dict=False)
    assert torch.equal(output.last_hidden_state, stock.last_hidden_state)
    assert len(output.retained) == len(retained) == 4
    for places, lengths in (*output.retained, *retained):
        assert [row[:length].tolist() for row, length in zip(places, lengths, strict=True)] == [[2, 3, 4, 5, 6], [5, 6]]


def test_tuples_are_returned_where_asked_for():
    model = powerbert.apply(tiny("bert"), RELATIVE)
    batch = batch_of(LENGTHS)
    (first,) = model(**batch, return_dict=False)
    assert torch.equal(first, model(**batch).logits)


BAD = {
    "attention matrices": dict(output_attentions=True),
    "a mask per pair of words": dict(attention_mask=torch.ones(1, 1, 9, 9)),
    "a mask of another width": dict(attention_mask=torch.ones(1, 5)),
    "ids and embeddings": dict(inputs_embeds=torch.ones(1, 9, 24)),
    "states of another encoder": dict(encoder_hidden_states=torch.ones(1, 9, 24)),
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
def test_what_elimination_cannot_honour_is_refused_in_one_line(arguments):
    model = powerbert.apply(tiny("bert", "Model"), RELATIVE)
    with pytest.raises(UnsupportedModelError) as error:
        model(**(batch_of([9]) | arguments))
    assert "\n" not in str(error.value)

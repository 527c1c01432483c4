"""trace: words, labels, truncation, refusals."""

from __future__ import annotations

import pytest
import torch
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.errors import PowerBertError

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.1))


def test_a_trace_tells_the_words_of_each_encoder_and_the_label():
    model = powerbert.apply(tiny("bert"), RELATIVE)
    trace = powerbert.trace(model, tokenizer_for(), "the acting was very good")
    assert trace.tokens == ("[CLS]", "the", "act", "##ing", "was", "very", "good", "[SEP]")
    assert [len(row) for row in trace.retained] == [8, 5, 4, 1]
    assert trace.words(4) == ["[CLS]"]
    assert trace.label in ("LABEL_0", "LABEL_1", "LABEL_2")
    assert 1 / 3 <= trace.score <= 1
    assert not trace.truncated


def test_the_label_of_a_multi_label_model_is_its_pipelines():
    model = powerbert.apply(tiny("bert", problem_type="multi_label_classification"), RELATIVE)
    trace = powerbert.trace(model, tokenizer_for(), "good film")
    with torch.no_grad():
        logits = model(**tokenizer_for()("good film", return_tensors="pt")).logits
    assert trace.score == pytest.approx(float(logits.sigmoid().max()))


@pytest.mark.parametrize(("activation", "function"), [("Sigmoid", torch.sigmoid), ("Identity", torch.clone)])
def test_a_score_has_no_label_and_is_what_the_model_says_of_it(activation, function):
    model = powerbert.apply(tiny("bert", num_labels=1), RELATIVE)
    model.config.sentence_transformers = {"activation_fn": f"torch.nn.{activation}"}
    trace = powerbert.trace(model, tokenizer_for(), "good film")
    with torch.no_grad():
        logits = model(**tokenizer_for()("good film", return_tensors="pt")).logits
    assert (trace.label, trace.score) == (None, pytest.approx(float(function(logits))))


def test_a_model_in_training_is_traced_without_dropout():
    model = powerbert.apply(tiny("bert"), RELATIVE).train()
    scores = {powerbert.trace(model, tokenizer_for(), "good film").score for _ in range(3)}
    assert len(scores) == 1


def test_multiple_choice_is_refused():
    with pytest.raises(PowerBertError, match="base_model"):
        powerbert.trace(powerbert.apply(tiny("bert", "ForMultipleChoice"), RELATIVE), tokenizer_for(), "good")


def test_a_pair_of_texts_is_traced_as_one_input():
    model = powerbert.apply(tiny("bert"), RELATIVE)
    trace = powerbert.trace(model, tokenizer_for(), "good film", "bad film")
    assert trace.tokens == ("[CLS]", "good", "film", "[SEP]", "bad", "film", "[SEP]")


def test_a_model_without_a_classifier_has_no_label():
    model = powerbert.apply(tiny("bert", "Model"), RELATIVE)
    trace = powerbert.trace(model, tokenizer_for(), "good film")
    assert (trace.label, trace.score) == (None, None)


def test_tracing_leaves_the_mode_of_the_model_alone():
    model = powerbert.apply(tiny("bert"), RELATIVE).train()
    powerbert.trace(model, tokenizer_for(), "good film")
    assert model.training
    assert model.bert.encoder.training


def test_each_word_piece_has_its_place_in_the_text_and_special_ones_have_none():
    model = powerbert.apply(tiny("bert"), RELATIVE)
    trace = powerbert.trace(model, tokenizer_for(), "Good acting", "bad")
    written = [None if span is None else trace.texts[span.text][span.start : span.end] for span in trace.spans]
    assert written == [None, "Good", "act", "ing", None, "bad", None]
    assert [span.text for span in trace.spans if span] == [0, 0, 0, 1]


@pytest.mark.parametrize("encoder", [0, -1, 5])
def test_an_encoder_that_is_not_there_is_refused(encoder):
    trace = powerbert.trace(powerbert.apply(tiny("bert"), RELATIVE), tokenizer_for(), "good film")
    with pytest.raises(PowerBertError, match="encoders are 1 to 4"):
        trace.words(encoder)


@pytest.mark.parametrize("texts", [(None,), (7,), ("good", 7), (["good"],)])
def test_a_text_that_is_no_string_is_refused(texts):
    model = powerbert.apply(tiny("bert"), RELATIVE)
    with pytest.raises(PowerBertError, match="not a string"):
        powerbert.trace(model, tokenizer_for(), *texts)


def test_a_tokenizer_without_offsets_is_refused():
    model = powerbert.apply(tiny("bert"), RELATIVE)
    with pytest.raises(PowerBertError, match="fast"):
        powerbert.trace(model, str.split, "good film")


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text_is_refused(text):
    model = powerbert.apply(tiny("bert"), RELATIVE)
    with pytest.raises(PowerBertError, match="empty"):
        powerbert.trace(model, tokenizer_for(), text)


def test_a_model_without_elimination_is_refused():
    with pytest.raises(PowerBertError, match=r"powerbert\.apply"):
        powerbert.trace(tiny("bert"), tokenizer_for(), "good film")


def test_a_long_text_is_cut_to_what_the_model_reads_and_said_to_be():
    model = powerbert.apply(tiny("bert"), RELATIVE)
    trace = powerbert.trace(model, tokenizer_for(10_000), "good film " * 100)
    assert len(trace.tokens) == 40  # the positions of the model
    assert trace.truncated
    powerbert.apply(model, RetentionConfiguration.absolute((8, 8, 8, 8), 12))
    assert len(powerbert.trace(model, tokenizer_for(), "good film " * 100).tokens) == 12


@pytest.mark.parametrize("text", [" " * 5000 + "good film", "\n" * 1281 + "good film"])
def test_white_space_hides_no_word(text):
    model = powerbert.apply(tiny("bert"), RELATIVE)
    trace = powerbert.trace(model, tokenizer_for(), text)
    assert trace.tokens == ("[CLS]", "good", "film", "[SEP]")
    assert not trace.truncated
    assert powerbert.trace(model, tokenizer_for(), "x" * 1300 + " good film").truncated

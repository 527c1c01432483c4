"""powerbert.pipeline and transformers.pipeline on a model with elimination."""

from __future__ import annotations

import pytest
import torch
import transformers
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.errors import PowerBertError

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.1))


@pytest.fixture
def folder(tmp_path):
    powerbert.save(powerbert.apply(tiny("bert"), RELATIVE), tokenizer_for(), tmp_path / "model")
    return tmp_path / "model"


def test_the_pipeline_answers_as_transformers_does_with_the_models_own_answer(folder):
    classify = powerbert.pipeline(folder)
    (answer,) = classify("the film was good")
    model, tokenizer = powerbert.load(folder)
    with torch.no_grad():
        probabilities = model(**tokenizer("the film was good", return_tensors="pt")).logits.softmax(dim=-1)[0]
    assert answer["label"] == f"LABEL_{int(probabilities.argmax())}"
    assert answer["score"] == pytest.approx(float(probabilities.max()), abs=1e-6)
    plain = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    assert plain("the film was good") == [answer]


def test_lists_batches_and_pairs_give_one_answer_each_in_order(folder):
    classify = powerbert.pipeline(folder)
    texts = ["good film", "the plot was very very dull and bad", "it is great"]
    one_by_one = [classify(text)[0] for text in texts]
    for size in (1, 2, 3):
        for answer, alone in zip(classify(texts, batch_size=size), one_by_one, strict=True):
            assert answer["label"] == alone["label"]
            assert answer["score"] == pytest.approx(alone["score"], abs=1e-5)
    assert classify({"text": "good", "text_pair": "bad"})["label"]
    assert len(classify("good film", top_k=None)) == 3


def test_long_and_odd_texts_are_answered(folder):
    classify = powerbert.pipeline(folder)
    for text in ("good " * 10_000, "[SEP] [PAD]", "\ud800", "", "😀 مرحبا"):
        assert classify(text)[0]["label"]


def test_unknown_engines_and_precisions_are_refused(folder):
    with pytest.raises(PowerBertError, match=r"engine.*warp"):
        powerbert.pipeline(folder, engine="warp")
    with pytest.raises(PowerBertError, match=r"precision.*int2"):
        powerbert.pipeline(folder, precision="int2")


def test_a_model_that_does_not_classify_is_refused(tmp_path):
    powerbert.save(tiny("bert", "ForTokenClassification"), tokenizer_for(), tmp_path / "tagger")
    with pytest.raises(PowerBertError, match="BertForTokenClassification"):
        powerbert.pipeline(tmp_path / "tagger")

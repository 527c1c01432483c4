"""A CrossEncoder in, the same `predict` and `rank` out. Oracle: sentence-transformers on the same folder."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from model_folders import refusal
from models import tiny
from rerankers import cross_encoder, oracle, some_pairs
from texts import tokenizer_for

import powerbert
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.export.graph import trace_graph
from powerbert.export.write import export
from powerbert.modeling.limits import limits_of
from powerbert.retention import RetentionConfiguration

PAIRS = some_pairs()
QUERY, DOCUMENTS = PAIRS[0][0], [second for _, second in PAIRS]
HALF = RetentionConfiguration.relative((0.6, 0.3))


@pytest.fixture(scope="module", params=["sigmoid", "none"])
def scoring(request, tmp_path_factory):
    """A folder of one label, and its activation."""
    return cross_encoder(tmp_path_factory.mktemp("scoring"), request.param), request.param


@pytest.fixture(scope="module")
def traced():
    """The graph of both folders, whose weights are the same, traced once: that takes most of the time."""
    made = []

    def once(model, tokenizer):
        made.extend([] if made else [trace_graph(model, limits_of(model, tokenizer))])
        return made[0]

    return once


@pytest.fixture(scope="module")
def classifying(tmp_path_factory):
    return cross_encoder(tmp_path_factory.mktemp("classifying"), labels=3)


def assert_same_ranks(found, expected):
    assert [row["corpus_id"] for row in found] == [row["corpus_id"] for row in expected]
    assert [row.get("text") for row in found] == [row.get("text") for row in expected]
    np.testing.assert_allclose([row["score"] for row in found], [row["score"] for row in expected], atol=1e-5)


def test_predict_and_rank_are_those_of_the_cross_encoder(scoring):
    folder, activation = scoring
    ours, theirs = powerbert.reranker(folder), oracle(folder)
    assert ours.activation == activation
    found, expected = ours.predict(PAIRS), theirs.predict(PAIRS)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, atol=1e-5)
    one = ours.predict(PAIRS[1])
    assert one == pytest.approx(theirs.predict(PAIRS[1]), abs=1e-5)
    assert_same_ranks(ours.rank(QUERY, DOCUMENTS), theirs.rank(QUERY, DOCUMENTS))
    assert_same_ranks(ours.rank(QUERY, iter(DOCUMENTS)), theirs.rank(QUERY, DOCUMENTS))
    few = {"top_k": 3, "return_documents": True}
    assert_same_ranks(ours.rank(QUERY, DOCUMENTS, **few), theirs.rank(QUERY, DOCUMENTS, **few))
    tanh = torch.nn.Tanh()
    assert_same_ranks(
        ours.rank(QUERY, DOCUMENTS, activation_fn=tanh), theirs.rank(QUERY, DOCUMENTS, activation_fn=tanh)
    )


def test_several_labels_are_predicted_in_every_form(classifying):
    ours, theirs = powerbert.reranker(classifying), oracle(classifying)
    for options in ({}, {"apply_softmax": True}, {"convert_to_tensor": True}, {"convert_to_numpy": False}):
        found, expected = ours.predict(PAIRS, **options), theirs.predict(PAIRS, **options)
        assert type(found) is type(expected)
        np.testing.assert_allclose(np.stack(list(found)), np.stack(list(expected)), atol=1e-5)
    assert ours.predict([]).size == theirs.predict([]).size == 0
    assert ours.predict([list(pair) for pair in PAIRS], batch_size=1).shape == (len(PAIRS), 3)


def test_a_saved_folder_opens_in_sentence_transformers_with_the_same_scores(scoring, tmp_path):
    """Full retention in both; and with elimination the folder keeps its activation."""
    folder, activation = scoring
    expected = oracle(folder).predict(PAIRS)
    powerbert.save(*powerbert.load(folder), tmp_path / "full")
    np.testing.assert_allclose(oracle(tmp_path / "full").predict(PAIRS), expected, atol=1e-6)
    np.testing.assert_allclose(powerbert.reranker(tmp_path / "full").predict(PAIRS), expected, atol=1e-5)
    model, tokenizer = powerbert.load(folder)
    powerbert.save(powerbert.apply(model, HALF), tokenizer, tmp_path / "half")
    opened = powerbert.reranker(tmp_path / "half")
    assert opened.activation == activation
    assert not np.allclose(opened.predict(PAIRS), expected, atol=1e-5)  # it eliminates
    np.testing.assert_allclose(oracle(tmp_path / "half").predict(PAIRS), expected, atol=1e-6)  # the full model


def test_an_export_has_the_activation_and_the_scores_of_torch(scoring, traced, tmp_path):
    folder, activation = scoring
    to = {"sigmoid": "onnx", "none": "openvino"}[activation]
    model, tokenizer = powerbert.load(folder)
    export(powerbert.apply(model, HALF), tokenizer, tmp_path / to, to, program=traced(model, tokenizer))
    opened = powerbert.reranker(tmp_path / to)
    assert (opened.engine.name, opened.activation) == (to, activation)
    powerbert.save(model, tokenizer, tmp_path / "saved")
    np.testing.assert_allclose(opened.predict(PAIRS), powerbert.reranker(tmp_path / "saved").predict(PAIRS), atol=1e-3)


def test_the_pipeline_gives_the_scores_of_the_reranker(scoring, classifying):
    """Of several labels it stays a classifier, as transformers' pipeline is."""
    folder, _ = scoring
    asked = [{"text": first, "text_pair": second} for first, second in PAIRS]
    found = [answer["score"] for answer in powerbert.pipeline(folder)(asked)]
    np.testing.assert_allclose(found, powerbert.reranker(folder).predict(PAIRS), atol=1e-6)
    best = powerbert.reranker(classifying).predict(PAIRS, apply_softmax=True).max(axis=1)
    found = [answer["score"] for answer in powerbert.pipeline(classifying)(asked)]
    np.testing.assert_allclose(found, best, atol=1e-6)


def test_modernbert_with_mean_pooling_reads_every_word(tmp_path):
    """Oracles: sentence-transformers at full retention; with elimination, the head on the restored word-vectors."""
    folder = cross_encoder(tmp_path, "none", family="modernbert", classifier_pooling="mean")
    np.testing.assert_allclose(powerbert.reranker(folder).predict(PAIRS), oracle(folder).predict(PAIRS), atol=1e-5)
    model, tokenizer = powerbert.load(folder)
    powerbert.apply(model, HALF)
    powerbert.save(model, tokenizer, tmp_path / "half")
    found = powerbert.reranker(tmp_path / "half").predict(PAIRS)
    expected = []
    for pair in PAIRS:
        with torch.no_grad():
            rows = model.model(**tokenizer(*pair, return_tensors="pt")).last_hidden_state  # (1, length, hidden)
            expected.append(model.classifier(model.head(rows.mean(dim=1))).item())
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow  # tracing ModernBERT takes long
def test_modernbert_with_mean_pooling_is_exported(tmp_path):
    folder = cross_encoder(tmp_path, "none", family="modernbert", classifier_pooling="mean")
    model, tokenizer = powerbert.load(folder)
    export(powerbert.apply(model, HALF), tokenizer, tmp_path / "onnx", "onnx")
    powerbert.save(model, tokenizer, tmp_path / "half")
    found, expected = (powerbert.reranker(tmp_path / name).predict(PAIRS) for name in ("onnx", "half"))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_refusals_are_one_line(scoring, classifying, tmp_path):
    tiny("bert", "Model").save_pretrained(tmp_path / "encoder")
    tokenizer_for().save_pretrained(tmp_path / "encoder")
    assert "not a cross-encoder" in refusal(UnsupportedModelError, lambda: powerbert.reranker(tmp_path / "encoder"))
    three = powerbert.reranker(classifying)
    assert "got '3 labels'" in refusal(UnsupportedModelError, lambda: three.rank(QUERY, DOCUMENTS))
    ours = powerbert.reranker(scoring[0])
    assert "no documents" in refusal(PowerBertError, lambda: ours.rank(QUERY, []))
    assert "no documents" in refusal(PowerBertError, lambda: ours.rank(QUERY, "a string"))
    assert "pair 1 is not a pair" in refusal(PowerBertError, lambda: ours.rank(QUERY, ["good", 3]))
    for given in ("good film", None, 5):
        assert "there are no pairs" in refusal(PowerBertError, lambda given=given: ours.predict(given))
    assert "no documents" in refusal(PowerBertError, lambda: ours.rank(QUERY, None))
    broken = {"activation_fn": lambda logits: logits * torch.nan}
    assert "not a number" in refusal(PowerBertError, lambda: ours.rank(QUERY, DOCUMENTS, **broken))
    assert "pair 0 is not a pair" in refusal(PowerBertError, lambda: ours.predict([("good", "bad", "dull")]))
    assert "batch_size" in refusal(PowerBertError, lambda: ours.predict(PAIRS, batch_size=0))
    assert "top_k" in refusal(PowerBertError, lambda: ours.rank(QUERY, DOCUMENTS, top_k=0))

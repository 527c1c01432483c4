"""Mutual information. Oracle: a table worked out by hand, BERT's own modules in plain loops, and hidden keys."""

from __future__ import annotations

from math import log
from statistics import fmean

import numpy
import pytest
import reference
import torch
from models import tiny
from scipy.stats import spearmanr
from studied import balanced, sentences, subject_of, word_pieces

from powerbert.errors import DataError, PowerBertError
from powerbert.modeling.apply import base_of
from powerbert.modeling.reading import read_head
from powerbert.studies.mutual_information import (
    answers_without,
    cls_without,
    full_answers,
    full_pass,
    mutual_information,
    study_mutual_information,
)

TEXTS = sentences(8, least=6)
FAMILIES = ("albert", "roberta", "mpnet", "modernbert", "deberta-v2")


def test_the_hand_computed_table():
    """X = 0 0 0 1 and Y = 0 0 1 1: p(0,0) = 1/2, p(0,1) = p(1,1) = 1/4; p(X=0) = 3/4, p(Y=0) = 1/2."""
    x, y = numpy.array([0, 0, 0, 1]), numpy.array([0, 0, 1, 1])
    by_hand = 0.5 * log(0.5 / 0.375) + 0.25 * log(0.25 / 0.375) + 0.25 * log(0.25 / 0.125)
    assert by_hand == pytest.approx(0.2157615543388)
    assert mutual_information(x, y) == mutual_information(y, x) == pytest.approx(by_hand)
    assert mutual_information(x, x) == pytest.approx(-0.75 * log(0.75) - 0.25 * log(0.25))  # its entropy
    assert mutual_information(y, y) == pytest.approx(log(2))
    assert mutual_information(y, 1 - y) == pytest.approx(log(2))  # one tells the other, whatever its name
    assert mutual_information(numpy.array([0, 0, 1, 1]), numpy.array([0, 1, 0, 1])) == 0.0
    assert mutual_information(x, numpy.zeros(4)) == 0.0


@torch.no_grad()
def test_the_answers_are_those_of_the_model_without_that_word():
    subject, ranks, encoders = subject_of(balanced(tiny("bert"), TEXTS), TEXTS), 5, [1, 2, 4]
    chosen = [1, 2, 4, 5, 7]
    before, after = full_answers(subject, chosen), answers_without(subject, chosen, ranks, encoders)
    for at, row in enumerate(chosen):
        words = word_pieces(subject, row)
        assert before[at] == int(subject.model(words[None]).logits.argmax())
        for e, j in enumerate(encoders):
            expected = [
                int(reference.bert_without_one(subject.model, words, j, k).argmax()) for k in range(1, ranks + 1)
            ]
            assert after[e, :, at].tolist() == expected


@torch.no_grad()
def test_the_logits_are_those_of_the_model_without_that_word():
    """Labels may agree by chance; in a padded batch of several lengths."""
    subject = subject_of(tiny("bert"), TEXTS)
    ((numbers, batch),) = subject.batches()
    passed = full_pass(subject, batch)
    for j, k in ((1, 1), (1, 6), (2, 3), (4, 2)):
        expected = [reference.bert_without_one(subject.model, word_pieces(subject, row), j, k)[0] for row in numbers]
        found = read_head(subject.model, cls_without(subject, passed, j, k))
        torch.testing.assert_close(found, torch.stack(expected), atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_in_every_family_it_is_the_stock_model_with_that_key_hidden(family):
    subject = subject_of(tiny(family, attn_implementation="eager"), TEXTS)
    encoders = subject.full.family.encoders(base_of(subject.model))
    words = word_pieces(subject, 0)[None]
    batch = {"input_ids": words, "attention_mask": torch.ones_like(words)}
    passed, everything = full_pass(subject, dict(batch)), tuple(range(words.shape[1]))
    for j, k in ((1, 1), (3, 4)):
        gone = int(passed.orders[j - 1][0, k])
        left = tuple(i for i in everything if i != gone)
        retained = [everything if i < j else left for i in range(1, 5)]
        with reference.HiddenKeys(encoders, retained, len(everything)):
            expected = subject.model(**batch).logits
        found = read_head(subject.model, cls_without(subject, passed, j, k))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_the_study_tells_information_for_every_encoder_and_rank():
    texts = sentences(40, least=4)
    subject = subject_of(balanced(tiny("bert"), texts), texts)
    chosen = [i for i, row in enumerate(subject.rows) if len(row["input_ids"]) > 6]
    before, after = full_answers(subject, chosen), answers_without(subject, chosen, 6, range(1, 5))
    outcome = study_mutual_information(subject, ranks=6)
    figures = outcome.figures
    assert figures["inputs"] == len(chosen) < 40
    assert list(figures["information"]) == ["1", "2", "3", "4"]
    assert figures["information"]["2"] == [mutual_information(before, said) for said in after[1]]
    assert figures["information"]["4"] == [figures["entropy"]] * 6  # the head reads CLS, whatever else goes
    assert list(figures["lost"]) == list(figures["rises_by_encoder"]) == ["1", "2", "3"]
    by_rank = [fmean(figures["information"][j][k] for j in "123") for k in range(6)]
    assert figures["mean_rises_with_rank"] == pytest.approx(spearmanr(by_rank, range(6)).statistic)
    own = [spearmanr(figures["information"][j], range(6)).statistic for j in "123"]
    assert figures["rises_with_rank"] == pytest.approx(fmean(own))
    lost = [figures["entropy"] - fmean(figures["information"][j]) for j in "123"]
    assert figures["lost_with_encoder"] == pytest.approx(spearmanr(lost, range(3)).statistic)
    assert outcome.agrees == (figures["rises_with_rank"] >= 0.5 and figures["lost_with_encoder"] <= -0.5)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"encoders": [5]}, "there is no such encoder; got 5; encoders are 1 to 4"),
        ({"encoders": [0]}, "there is no such encoder"),
        ({"encoders": [1, 4]}, "there are too few encoders; got .1, 4.; a trend needs two, and encoder 4, the last,"),
        ({"ranks": 1}, "--ranks is out of range; got 1; from 2 to 39"),
        ({"ranks": 40}, "--ranks is out of range"),
        ({"ranks": 30}, "no input is long enough; got 'the longest of 8 inputs has"),
    ],
)
def test_what_is_out_of_range_is_refused(more, said):
    with pytest.raises(PowerBertError, match=said):
        study_mutual_information(subject_of(tiny("bert"), TEXTS), **more)


def test_a_model_that_answers_one_label_is_refused():
    model = tiny("bert")
    model.classifier.bias.data[2] = 1e4
    with pytest.raises(DataError, match="the model answers one label; got 'LABEL_2 for all 8 inputs'"):
        study_mutual_information(subject_of(model, TEXTS), ranks=2)

"""Other positions than CLS. Oracle: BERT's pooler and classifier on one word-vector of one input at a time."""

from __future__ import annotations

import math
from statistics import fmean, pstdev

import pytest
import torch
from models import tiny
from studied import balanced, sentences, subject_of, word_pieces

from powerbert.errors import DataError, UnsupportedModelError
from powerbert.studies.cls_position import answers_by_position, relative_positions, study_cls_position

TEXTS = sentences(12)


@torch.no_grad()
def by_loops(subject):
    """The label read from CLS and from each tenth of each input."""
    model, found = subject.model, []
    for row in range(len(subject.rows)):
        words = word_pieces(subject, row)
        final = model.bert(words[None]).last_hidden_state
        places = [math.ceil(part * (len(words) - 1) / 10) for part in range(11)]
        logits = [model.classifier(model.bert.pooler(final[:, place:])) for place in places]
        found.append([int(each.argmax()) for each in logits])
    return found


def test_every_position_is_answered_as_the_head_would():
    subject = subject_of(balanced(tiny("bert"), TEXTS), TEXTS)
    assert answers_by_position(subject).astype(int).tolist() == by_loops(subject)


def test_drop_and_deviation_are_those_of_the_metric():
    subject = subject_of(balanced(tiny("bert"), TEXTS), TEXTS)
    columns = list(zip(*by_loops(subject), strict=True))
    accuracy = [100 * fmean(a == b for a, b in zip(column, subject.labels, strict=True)) for column in columns]
    outcome = study_cls_position(subject)
    assert outcome.figures["cls"] == pytest.approx(accuracy[0])
    assert list(outcome.figures["positions"].values()) == pytest.approx(accuracy[1:])
    drops = [accuracy[0] - value for value in accuracy[1:]]
    assert outcome.figures["mean_drop"] == pytest.approx(fmean(drops))
    assert outcome.figures["deviation"] == pytest.approx(pstdev(drops))
    assert outcome.agrees == (fmean(drops) <= 2.0)


def test_positions_reach_from_cls_to_the_last_word():
    assert relative_positions(torch.tensor([11])).tolist() == [list(range(11))]
    assert relative_positions(torch.tensor([2])).tolist() == [[0] + [1] * 10]


def test_what_cannot_be_studied_is_refused():
    with pytest.raises(DataError, match="all 12 rows of the dataset have one label; got 'LABEL_1'"):
        study_cls_position(subject_of(tiny("bert"), TEXTS, [1] * 12))
    with pytest.raises(UnsupportedModelError, match="reads every position"):
        study_cls_position(subject_of(tiny("modernbert", classifier_pooling="mean"), TEXTS))

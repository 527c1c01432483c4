"""Logits to scores and labels. Oracle: torch's own softmax and sigmoid."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import PowerBertError
from powerbert.text.answers import function_of, ranked, scores

LOGITS = st.lists(st.floats(-50, 50), min_size=1, max_size=6)


@given(LOGITS)
def test_scores_are_torchs(logits):
    tensor = torch.tensor(logits, dtype=torch.float64)
    assert scores(logits, "softmax") == pytest.approx(tensor.softmax(0).tolist())
    assert scores(logits, "sigmoid") == pytest.approx(tensor.sigmoid().tolist())
    assert scores(logits, "none") == logits


def test_extreme_logits_give_scores():
    logits = [-1e4, 0.0, 1e4]
    assert scores(logits, "sigmoid") == [0, 0.5, 1]
    assert scores(logits, "softmax") == [0, 0, 1]
    assert scores(logits, "none") == logits


def test_the_model_says_what_becomes_of_its_logits_unless_the_caller_does():
    assert function_of("regression", 1) == function_of("regression", 3) == "none"
    assert function_of("multi_label_classification", 3) == function_of(None, 1) == "sigmoid"
    assert function_of("single_label_classification", 3) == function_of(None, 2) == "softmax"
    assert function_of("regression", 1, "sigmoid") == "sigmoid"
    assert function_of(None, 1, "none") == "none"
    assert function_of(None, 3, "sigmoid") == "sigmoid"
    assert function_of(None, 3, "none") == "softmax"  # every CrossEncoder of several labels says so
    assert function_of("regression", 1, asked="softmax") == "softmax"
    with pytest.raises(PowerBertError, match="softmax, sigmoid, none"):
        function_of(None, 2, asked="tanh")


def test_the_best_comes_first_and_of_equals_the_first():
    found = ranked([0.2, 0.4, 0.4], {0: "a", 1: "b"}, 2)
    assert found == [{"label": "b", "score": 0.4}, {"label": "LABEL_2", "score": 0.4}]
    assert len(ranked([0.2, 0.4, 0.4], {})) == 3

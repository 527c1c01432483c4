"""Texts through an engine: answers in order, as if each were alone; a stream is read as it is answered."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.engines.answers import answer, answer_rows, tokenise_for, windows
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import PowerBertError

TEXTS = ["good film", "a", "the plot is dull and the film is bad", "very good", "it is a film and it is good"]


@pytest.fixture(scope="module")
def engine():
    model = powerbert.apply(tiny("bert"), RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2)))
    return TorchEngine(model, tokenizer_for())


@given(st.lists(st.sampled_from(TEXTS), max_size=12), st.integers(1, 60), st.integers(1, 5))
def test_answers_come_in_the_order_of_the_texts_as_if_each_were_alone(engine, texts, budget, window):
    alone = [next(answer(engine, [text])) for text in texts]
    together = list(answer(engine, iter(texts), budget=budget, window=window))
    assert len(together) == len(texts)
    for one, other in zip(alone, together, strict=True):
        numpy.testing.assert_allclose(one, other, atol=1e-5)


def test_every_batch_reports_its_rows(engine):
    done = []
    answer_rows(engine, tokenise_for(engine, TEXTS).rows, most=2, done=done.append)
    assert done == [2, 2, 1]


def test_a_stream_is_read_a_window_at_a_time(engine):
    read = []

    def stream():
        for number in range(10):
            read.append(number)
            yield "good film"

    answers = answer(engine, stream(), window=4)
    next(answers)
    assert len(read) == 4


@given(st.integers(0, 60), st.integers(1, 20), st.none() | st.integers(1, 30))
def test_windows_grow_and_lose_nothing(count, most, first):
    held = list(windows(iter(range(count)), most, first))
    assert [item for window in held for item in window] == list(range(count))
    size = min(first or most, most)
    for window in held[:-1]:
        assert len(window) == size
        size = min(2 * size, most)


def test_what_came_before_an_error_of_the_stream_is_given_first():
    def stream():
        yield from range(5)
        raise OSError("the disk is gone")

    held = windows(stream(), 4)
    assert next(held) == [0, 1, 2, 3]
    assert next(held) == [4]
    with pytest.raises(OSError, match="disk"):
        next(held)


@pytest.mark.parametrize("texts", [[""], ["good", "  "], [None], [("good", "")]])
def test_a_text_without_a_word_is_refused_by_its_number(engine, texts):
    with pytest.raises(PowerBertError, match=f"text {len(texts) - 1} is empty"):
        list(answer(engine, texts))
    assert list(answer(engine, [])) == []


def test_a_text_over_the_limit_is_cut_to_it(engine):
    rows, cut, *_ = tokenise_for(engine, ["good " * 100_000])
    assert len(rows[0]["input_ids"]) == engine.limits.longest
    assert cut == [True]
    assert len(tokenise_for(engine, ["good " * 100], 7).rows[0]["input_ids"]) == 7


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 8), st.integers(1, 20))
def test_a_window_ends_where_it_becomes_too_heavy(weights, most, heaviest):
    held = list(windows(iter(weights), most, weight=lambda item: item, heaviest=heaviest))
    assert [item for window in held for item in window] == weights
    for window in held:
        assert 1 <= len(window) <= most
        assert sum(window[:-1]) <= heaviest
    for window in held[:-1]:
        assert len(window) == most or sum(window) > heaviest

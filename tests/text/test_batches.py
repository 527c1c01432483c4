"""Batches of like length: nothing lost, nothing over budget, answers in order."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import PowerBertError
from powerbert.text.batches import answer, collate, plan, tokenise

LENGTHS = st.lists(st.integers(1, 600), max_size=80)
TEXTS = ["good film", "a", "the plot is dull and the film is bad", "very good", "it is a film and it is good"]


@pytest.fixture(scope="module")
def engine():
    model = powerbert.apply(tiny("bert"), RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2)))
    return TorchEngine(model, tokenizer_for())


@given(LENGTHS, st.integers(1, 3000), st.none() | st.integers(1, 20))
def test_every_input_is_in_one_batch_and_no_batch_is_over_budget(lengths, budget, most):
    batches = plan(lengths, budget, most)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget
        assert most is None or len(batch) <= most


@given(LENGTHS, st.integers(1, 30_000))
def test_large_batches_have_few_numbers_of_rows_and_still_half_of_what_the_budget_allows(lengths, budget):
    batches, left = plan(lengths, budget), len(lengths)
    for batch in batches:
        most = min(left, max(1, budget // lengths[batch[0]]))
        assert most / 2 < len(batch) <= most
        assert len(batch) == most < 16 or len(batch).bit_count() == 1
        left -= len(batch)


@given(LENGTHS)
def test_batches_hold_neighbours_in_length(lengths):
    ordered = [lengths[i] for batch in plan(lengths, 1000) for i in batch]
    assert ordered == sorted(lengths, reverse=True)


@given(st.lists(st.sampled_from(TEXTS), max_size=12), st.integers(1, 60), st.integers(1, 5))
def test_answers_come_in_the_order_of_the_texts_as_if_each_were_alone(engine, texts, budget, window):
    alone = [next(answer(engine, [text])) for text in texts]
    together = list(answer(engine, iter(texts), budget=budget, window=window))
    assert len(together) == len(texts)
    for one, other in zip(alone, together, strict=True):
        numpy.testing.assert_allclose(one, other, atol=1e-5)


def test_a_stream_is_read_a_window_at_a_time(engine):
    read = []

    def stream():
        for number in range(10):
            read.append(number)
            yield "good film"

    answers = answer(engine, stream(), window=4)
    next(answers)
    assert len(read) == 4


def test_padding_is_on_the_right_and_masked(engine):
    rows = tokenise(engine, ["a", "a good film"])
    batch = collate(rows, pad=0)
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert batch["input_ids"][0, 3:].tolist() == [0, 0]


@pytest.mark.parametrize("texts", [[""], ["good", "  "], [None], [("good", "")]])
def test_a_text_without_a_word_is_refused_by_its_number(engine, texts):
    with pytest.raises(PowerBertError, match=f"text {len(texts) - 1} is empty"):
        list(answer(engine, texts))
    assert list(answer(engine, [])) == []


def test_a_text_over_the_limit_is_cut_to_it(engine):
    rows = tokenise(engine, ["good " * 100_000])
    assert len(rows[0]["input_ids"]) == engine.limits.longest

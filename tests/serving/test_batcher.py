"""The batcher: every request is answered once, with its own answer, in budget, and no length starves.

Oracle: `HeldEngine`, whose answer to a text is known; a queue that is played through by hand.
"""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import HeldEngine, expected, some_texts

from powerbert.errors import PowerBertError
from powerbert.serving.batcher import APART, EASE, LIKE, Batcher, next_batch, smaller_budgets
from powerbert.serving.limits import RequestError, ServeLimits

LENGTHS = st.lists(st.integers(1, 512), min_size=1, max_size=80)


@pytest.fixture
def engine():
    return HeldEngine()


@pytest.fixture
def batcher(engine):
    batcher = Batcher(engine, ServeLimits(waiting=64))
    yield batcher
    engine.go.set()
    batcher.close()


def busy(batcher, engine):
    """Hold the engine at a batch, so that whatever comes now has to wait."""
    engine.go.clear()
    engine.entered.clear()
    first = batcher.submit(["good"])
    assert engine.entered.wait(30)
    return first


def settled(batcher, count):
    """Wait until so many inputs are tokenised and in the queue."""
    for _ in range(3000):
        if len(batcher._queue) == count:
            return
        threading.Event().wait(0.01)
    raise AssertionError(batcher.waiting())


@given(LENGTHS, st.integers(1, 2048))
def test_a_batch_holds_the_oldest_input_others_of_like_length_and_keeps_the_budget(lengths, budget):
    batch = next_batch(lengths, budget)
    assert 0 in batch
    assert len(set(batch)) == len(batch)
    chosen = [lengths[i] for i in batch]
    assert len(batch) == 1 or len(batch) * max(chosen) <= budget
    assert all(max(own, lengths[0]) <= LIKE * min(own, lengths[0]) + APART for own in chosen)


@given(LENGTHS, st.integers(64, 2048))
def test_every_input_is_taken_once_and_waits_for_no_more_batches_than_inputs_before_it(lengths, budget):
    queue, batches = list(enumerate(lengths)), []
    while queue:
        chosen = set(next_batch([length for _, length in queue], budget))
        batches.append({number for i, (number, _) in enumerate(queue) if i in chosen})
        queue = [each for i, each in enumerate(queue) if i not in chosen]
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    assert all(turn <= number for turn, batch in enumerate(batches) for number in batch)


REQUESTS = st.lists(
    st.tuples(st.lists(st.sampled_from(some_texts(40)), min_size=1, max_size=4), st.sampled_from([None, "2x", "3x"])),
    min_size=1,
    max_size=15,
)


@settings(max_examples=15)
@given(REQUESTS)
def test_every_request_gets_the_answers_to_its_own_texts_in_batches_of_one_budget(requests):
    engine = HeldEngine()
    batcher = Batcher(engine, ServeLimits(word_vectors=128))
    first = busy(batcher, engine)
    futures = [batcher.submit(texts, budget) for texts, budget in requests]
    engine.go.set()
    for (texts, budget), future in zip(requests, futures, strict=True):
        reply = future.result(30)
        assert reply.logits == [expected(engine, text) for text in texts]
        assert reply.budget == budget
    assert first.result(30).logits == [expected(engine, "good")]
    batcher.close()
    inputs = sum(len(texts) for texts, _ in requests)
    assert sum(len(lengths) for _, lengths, _ in engine.batches) == 1 + inputs
    asked = {engine.dial.get(budget) for _, budget in requests} | {None}
    assert {retention for retention, _, _ in engine.batches} == asked
    assert all(len(lengths) == 1 or len(lengths) * width <= 128 for _, lengths, width in engine.batches)


def test_requests_that_come_while_the_engine_is_busy_share_the_next_batch(batcher, engine):
    busy(batcher, engine)
    futures = [batcher.submit(["a good film"]) for _ in range(8)]
    settled(batcher, 8)
    engine.go.set()
    assert [future.result(30).tokens for future in futures] == [5] * 8
    assert [len(lengths) for _, lengths, _ in engine.batches] == [1, 8]


def test_a_request_that_was_cancelled_is_not_computed_and_frees_its_place(batcher, engine):
    busy(batcher, engine)
    gone = [batcher.submit(["bad"] * 32), batcher.submit(["dull"] * 32)]
    settled(batcher, 64)
    with pytest.raises(RequestError, match="too many inputs"):
        batcher.submit(["good"])
    assert all(future.cancel() for future in gone)
    kept = batcher.submit(["a great film"])
    engine.go.set()
    assert kept.result(30).logits == [expected(engine, "a great film")]
    assert sum(len(lengths) for _, lengths, _ in engine.batches) == 2
    with pytest.raises(CancelledError):
        gone[0].result(1)


def test_a_full_queue_refuses_and_a_closed_one_too(batcher, engine):
    busy(batcher, engine)
    with pytest.raises(RequestError) as refusal:
        batcher.submit(["a"] * 65)
    assert (refusal.value.status, refusal.value.kind, refusal.value.retry) == (429, "overloaded", 1)
    waiting = batcher.submit(["a", "very good film"])
    closing = threading.Thread(target=batcher.close)
    closing.start()
    while not batcher._closing:
        closing.join(0.01)
    with pytest.raises(RequestError) as refusal:
        batcher.submit(["a"])
    assert (refusal.value.status, refusal.value.kind) == (503, "unhealthy")
    engine.go.set()
    assert len(waiting.result(30).logits) == 2  # what was there is answered
    closing.join(30)
    assert not closing.is_alive()


def test_an_engine_that_fails_answers_its_batch_alone(batcher, engine):
    engine.error = RuntimeError("secret")
    with pytest.raises(RequestError) as failure:
        batcher.submit(["good"]).result(30)
    assert (failure.value.status, failure.value.kind) == (424, "backend")
    assert "secret" not in str(failure.value)
    engine.error = None
    assert batcher.submit(["good"]).result(30).logits == [expected(engine, "good")]


def test_a_text_that_is_too_long_is_cut_or_refused_as_asked(batcher):
    long = "good " * 600
    assert batcher.submit([long]).result(30).tokens == 512
    with pytest.raises(RequestError, match="input 1 is too long") as refusal:
        batcher.submit(["bad", long], truncate=False).result(30)
    assert refusal.value.status == 413


def test_an_unknown_budget_is_refused_before_it_waits(batcher):
    with pytest.raises(PowerBertError, match="the model has 2x, 3x"):
        batcher.submit(["good"], "9x")


def test_an_adaptive_batcher_spends_less_while_its_queue_is_long_and_says_so(engine):
    assert smaller_budgets(engine) == ["2x", "3x"]
    batcher = Batcher(engine, ServeLimits(word_vectors=32), adaptive=True)
    busy(batcher, engine)
    futures = []
    while len(futures) < 40:
        futures.append(batcher.submit(["the film was very good"]))
        settled(batcher, len(futures))
    engine.go.set()
    found = [future.result(30).budget for future in futures]
    assert found[0] is None
    assert found[-1] == "3x"
    assert found == sorted(found, key=[None, "2x", "3x"].index)
    assert found.index("2x") == -(-EASE * 32 // 7)  # as soon as so many batches of 32 word-vectors wait
    assert batcher.submit(["good"]).result(30).budget is None  # the queue is short again
    assert batcher.submit(["good"], "2x").result(30).budget == "2x"  # whoever asks gets what was asked
    batcher.close()


def test_a_warm_up_meets_every_budget_at_both_ends_of_the_lengths(batcher, engine):
    batcher.warm_up()
    assert {retention for retention, _, _ in engine.batches} == {None, *engine.dial.values()}
    assert {width for _, _, width in engine.batches} == {3, 512}

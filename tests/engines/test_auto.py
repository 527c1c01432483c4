"""engine="auto": the fastest arms, elimination only where it pays, and the answers of the arm it names."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import FAMILIES, batch_of, tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.engines.auto import PAYS, Arms, AutoEngine, Choice, calibrate, choose, shapes, without_elimination
from powerbert.engines.classifier import Classifier
from powerbert.engines.engine import Answer, Engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.modeling.limits import Limits, eliminates

TEXTS = ["good", "good film", "a film and a plot", "the plot is dull and the film is bad", "it is"]
HALF = RetentionConfiguration.relative((0.5, 0.1, 0.1, 0.1))


# ---- calibration and choice, with arms whose time is known -------------------------------


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Paced(Engine):
    """Takes on a clock the seconds that `cost` says for rows and length."""

    name = "paced"
    precisions = ("fp32",)

    def __init__(self, clock, cost, longest=512):
        self.clock, self.cost, self.calls = clock, cost, []
        self.limits = Limits(("input_ids", "attention_mask"), longest, 60, 0)

    @classmethod
    def load(cls, folder, precision, threads):
        raise NotImplementedError

    def retaining(self, retention):
        raise NotImplementedError

    def answer(self, inputs, retained):
        rows, length = inputs["input_ids"].shape
        self.calls.append((rows, length))
        self.clock.now += self.cost(rows, length)
        return Answer(np.zeros((rows, 2), np.float32), None)


def straight(fixed, each):
    """Seconds of a batch: something per call and something per word-vector."""
    return lambda rows, length: fixed + each * rows * length


def chosen(costs, longest=512):
    """The choice among engines of given costs: name -> (full, eliminated)."""
    clock = Clock()
    arms = {
        name: Arms(*(None if cost is None else Paced(clock, cost, longest) for cost in both))
        for name, both in costs.items()
    }
    return choose(calibrate(arms, clock=clock))


def test_the_faster_engine_is_chosen_and_elimination_from_where_it_pays():
    # Scoring costs 20 ms and saves half of 1 ms per word-vector: even at 40 of them.
    slow = straight(0.02, 0.002), straight(0.04, 0.001)
    fast = straight(0.01, 0.001), straight(0.03, 0.0005)
    choice = chosen({"torch": slow, "onnx": fast})
    assert (choice.engine, choice.crossover) == ("onnx", 64)
    assert chosen({"torch": fast, "onnx": slow}).engine == "torch"


def test_elimination_that_never_pays_is_not_used():
    costs = {"torch": (straight(0.01, 0.001), straight(0.02, 0.001))}
    assert chosen(costs).crossover is None
    assert chosen({"torch": (straight(0.01, 0.001), None)}).crossover is None


def test_elimination_that_always_pays_is_used_from_the_shortest_length_on():
    assert chosen({"torch": (straight(0.01, 0.001), straight(0.005, 0.0005))}).crossover == 8


def test_a_gain_within_the_noise_is_none():
    assert chosen({"torch": (straight(0.01, 0.001), straight(0.0098, 0.00098))}).crossover is None


def test_an_engine_is_judged_with_elimination_only_where_it_uses_it():
    # Alone, "onnx" is slower with elimination at short inputs than "torch"; the full model there is faster.
    costs = {"torch": (straight(0.012, 0.001), None), "onnx": (straight(0.010, 0.001), straight(0.5, 0.0001))}
    choice = chosen(costs)
    assert choice.engine == "onnx"
    assert choice.crossover is None or choice.crossover > 8


def test_a_disturbance_of_every_third_call_changes_nothing():
    def disturbed(cost):
        calls = iter(range(10**6))
        return lambda rows, length: cost(rows, length) * (10 if next(calls) % 3 == 0 else 1)

    quiet = {
        "torch": (straight(0.02, 0.002), straight(0.04, 0.001)),
        "onnx": (straight(0.01, 0.001), straight(0.03, 0.0005)),
    }
    loud = {name: tuple(disturbed(cost) for cost in both) for name, both in quiet.items()}
    assert (chosen(loud).engine, chosen(loud).crossover) == (chosen(quiet).engine, chosen(quiet).crossover)


@pytest.mark.parametrize("longest", [1, 2, 8, 9, 40, 128, 512, 8192])
def test_calibration_reads_no_longer_than_the_model_does(longest):
    lengths = [length for _, length in shapes(longest)]
    assert max(lengths) == min(longest, 512)
    assert len(set(shapes(longest))) == len(shapes(longest))
    for _, length in shapes(longest):
        assert (1, length) in shapes(longest)
    clock = Clock()
    arm = Paced(clock, straight(0.01, 0.001), longest)
    calibrate({"torch": Arms(arm, None)}, clock=clock)
    assert max(length for _, length in arm.calls) == min(longest, 512)


def test_calibration_takes_turns_and_ends():
    clock = Clock()
    arms = {
        name: Arms(Paced(clock, straight(each, 0)), Paced(clock, straight(each / 2, 0)))
        for name, each in (("torch", 1.0), ("onnx", 0.001))
    }
    timings = calibrate(arms, clock=clock)
    assert len(timings) == 4 * len(shapes(512))
    times = {"torch": 1.0, "onnx": 0.001}
    for (engine, eliminated, _, _), seconds in timings.items():
        assert seconds == pytest.approx(times[engine] / (2 if eliminated else 1))
    # One round more than counts; a quick call is timed twice in each.
    assert len(arms["torch"].full.calls) == 3 * len(shapes(512))
    assert len(arms["onnx"].full.calls) == 6 * len(shapes(512))


BATCHES = [(1, 8), (8, 8), (1, 32), (4, 32), (1, 128)]


ENGINES = ("torch", "onnx", "openvino")
ARMS = [(engine, eliminated, *batch) for engine in ENGINES for batch in BATCHES for eliminated in (False, True)]
TABLES = st.lists(st.integers(1, 10_000), min_size=len(ARMS), max_size=len(ARMS)).map(
    lambda milliseconds: {arm: ms / 1000 for arm, ms in zip(ARMS, milliseconds, strict=True)}
)


@given(TABLES)
def test_from_the_crossover_on_elimination_pays_everywhere_and_just_below_it_does_not(timings):
    choice = choose(timings)

    def share(rows, length):
        return timings[choice.engine, True, rows, length] / timings[choice.engine, False, rows, length]

    pays = {length: all(share(r, n) < PAYS for r, n in BATCHES if n == length) for _, length in BATCHES}
    used = [length for length in pays if choice.crossover is not None and length >= choice.crossover]
    assert all(pays[length] for length in used)
    unused = [length for length in pays if length not in used]
    assert not unused or not pays[max(unused)]
    assert choice.timings == timings


@given(TABLES, st.sampled_from(ENGINES))
def test_an_engine_that_is_slower_in_every_arm_is_never_chosen(timings, name):
    slower = {arm: seconds * (100_000 if arm[0] == name else 1) for arm, seconds in timings.items()}
    assert choose(slower).engine != name


# ---- routing -----------------------------------------------------------------------------


def arms_of(model):
    tokenizer = tokenizer_for()
    return Arms(TorchEngine(powerbert.remove(copy.deepcopy(model)), tokenizer), TorchEngine(model, tokenizer))


@pytest.fixture(scope="module")
def arms():
    return arms_of(powerbert.apply(tiny("bert"), HALF))


@pytest.mark.parametrize("crossover", [None, 1, 6, 40])
def test_the_length_of_each_text_alone_decides_which_arm_answers_it(arms, crossover):
    engine = AutoEngine(arms, Choice("torch", crossover, {}))
    classify = Classifier(engine)
    together = classify(TEXTS, top_k=None)
    for text, answer in zip(TEXTS, together, strict=True):
        batch = tokenizer_for()([text], return_tensors="np")
        long = crossover is not None and batch["input_ids"].shape[1] >= crossover
        logits = (arms.eliminated if long else arms.full).run(batch).logits[0]
        expected = np.exp(logits) / np.exp(logits).sum()
        for i, share in enumerate(expected):
            found = {entry["label"]: entry["score"] for entry in answer}
            assert found[f"LABEL_{i}"] == pytest.approx(float(share), abs=1e-5)
        alone = classify(text, top_k=None)
        assert [entry["label"] for entry in alone] == [entry["label"] for entry in answer]


def test_a_short_text_gets_the_full_models_own_answer(arms):
    engine = AutoEngine(arms, Choice("torch", 10, {}))
    model, batch = tiny("bert"), batch_of([4, 9])
    with torch.no_grad():
        expected = model(**batch).logits.numpy()
    np.testing.assert_allclose(engine.run(batch).logits, expected, atol=1e-5)
    assert np.abs(arms.eliminated.run(batch).logits - expected).max() > 1e-3  # or this would show nothing


def test_retained_words_come_from_the_arm_that_answered(arms):
    engine = AutoEngine(arms, Choice("torch", 10, {}))
    batch = batch_of([4, 20, 9, 12])
    retained = engine.run(batch, retained=True).retained
    expected = arms.eliminated.run(batch, retained=True).retained
    assert [len(row) for row in retained[0]] != [len(row) for row in expected[0]]
    assert retained[0] == arms.full.run(batch, retained=True).retained[0]
    assert (retained[1], retained[3]) == (expected[1], expected[3])


def test_counts_of_n_words_cut_text_to_n_whichever_arm_answers():
    model = powerbert.apply(tiny("bert"), RetentionConfiguration.absolute((8, 4, 2, 1), 16))
    for crossover in (None, 8):
        assert AutoEngine(arms_of(model), Choice("torch", crossover, {})).limits.longest == 16


@pytest.mark.parametrize("family", FAMILIES)
def test_the_full_model_shares_every_weight_and_answers_as_if_untouched(family):
    model = powerbert.apply(tiny(family), HALF)
    whole = without_elimination(model)
    assert eliminates(model)
    assert not eliminates(whole)
    own = {name: weight.data_ptr() for name, weight in model.named_parameters()}
    assert {name: weight.data_ptr() for name, weight in whole.named_parameters()} == own
    batch = batch_of([7, 20], pad=model.config.pad_token_id or 0)
    with torch.no_grad():
        assert torch.equal(whole(**batch).logits, tiny(family)(**batch).logits)
        eliminated = powerbert.apply(tiny(family), HALF)(**batch).logits
        assert torch.equal(model(**batch).logits, eliminated)

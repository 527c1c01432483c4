"""Which arms run, what is said of each, curves and the paper's protocol on a tiny model.

Oracle: the rules of the module and the shapes that were asked for, counted by hand.
"""

from __future__ import annotations

import pytest
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.bench.arms import Arm, Workbench
from powerbert.bench.run import choose_arms, curves, headline, paper_protocol
from powerbert.machine.measure import Timing

TEXTS = ["good film", "it is a film and it is good"]


@pytest.fixture(scope="module")
def workbench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("curves") / "model"
    retention = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2))
    powerbert.save(powerbert.apply(tiny("bert"), retention), tokenizer_for(), folder)
    return Workbench(folder, folder.parent / "work", TEXTS, 16)


def test_both_curves_hold_every_shape_of_both_models(workbench):
    shapes = []
    found = curves(workbench, [("stock", "fp32"), ("torch", "fp32")], 1, 32, lambda all: shapes.extend(all) or all)
    assert [point["length"] for point in found["by_length"]] == [32] * 3  # the tiny model reads no more
    assert {point["batch"] for point in found["by_batch"]} == {1, 2, 4, 8, 16, 32}
    assert len(shapes) == 1 + 6
    for point in (*found["by_length"], *found["by_batch"]):
        assert point["ms_per_input"] > 0
        if point["model"] == "eliminated":
            assert point["engine"] == "torch"
            assert point["flop_ratio"] > 1
            assert point["efficiency"] == point["speed_up"] / point["flop_ratio"]


def test_the_papers_protocol_is_128_inputs_of_n_words_and_a_ratio_of_means(workbench):
    found = paper_protocol(workbench, 2)
    assert (found["batch"], found["length"], found["runs"]) == (128, 16, 2)
    slow, fast = found["mean_seconds"].values()
    assert found["ratio"] == slow / fast
    assert next(iter(found["mean_seconds"])) == "stock fp32 fixed 128 full"


def test_stock_runs_the_full_model_only():
    arms = choose_arms([("stock", "fp32"), ("torch", "fp32")], [1, 8], ["dynamic", "sorted"], True)
    assert {a.model for a in arms if a.engine == "stock"} == {"full"}
    assert {a.feed for a in arms if a.model == "truncated"} == {"sorted"}
    assert len(arms) == len(set(arms)) == 4 + 4 + 4 + 2


def test_without_feeds_every_engine_is_fed_as_it_is_at_its_best():
    arms = choose_arms([("stock", "fp32"), ("torch", "fp32"), ("onnx", "int8")], [1, 32], [], True)
    assert {(a.engine, a.feed) for a in arms} == {("stock", "dynamic"), ("torch", "packed"), ("onnx", "sorted")}
    assert len(arms) == len(set(arms)) == 2 * (1 + 2 + 2)


def timing(seconds: float) -> Timing:
    return Timing([seconds] * 3, [seconds] * 3)


def test_the_headline_is_against_the_best_full_arm_not_the_easiest():
    timings = {
        Arm("full", "dynamic", "stock", "fp32", 8): timing(10.0),
        Arm("full", "fixed", "stock", "fp32", 8): timing(30.0),
        Arm("full", "sorted", "torch", "fp32", 8): timing(6.0),
        Arm("full", "sorted", "onnx", "int8", 32): timing(2.0),
        Arm("eliminated", "sorted", "torch", "fp32", 8): timing(3.0),
        Arm("eliminated", "fixed", "torch", "fp32", 8): timing(0.1),  # a protocol, not a way to answer
        Arm("eliminated", "sorted", "onnx", "int8", 8): timing(1.0),
    }
    found = {(row["precision"], row["against"]): row["ratio"] for row in headline(timings)}
    assert found["fp32", "best full arm in fp32"] == 2.0
    assert found["fp32", "best full arm in any precision"] == pytest.approx(2 / 3)
    assert found["fp32", "stock transformers, batches padded to their longest"] == pytest.approx(10 / 3)
    assert found["fp32", "stock transformers, padded to N"] == 10.0
    assert found["int8", "best full arm in int8"] == 2.0

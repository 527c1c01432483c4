"""Curves and the paper's protocol on a tiny model. Oracle: the shapes that were asked for, counts by hand."""

from __future__ import annotations

import pytest
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.bench.arms import Workbench
from powerbert.bench.curves import curves, paper_protocol

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

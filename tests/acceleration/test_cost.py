"""The cost of a configuration from three small graphs; oracle: sums by hand, and the order of real timings."""

from __future__ import annotations

import json
import time

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import tiny
from texts import tokenizer_for

from powerbert.acceleration import cost
from powerbert.acceleration.cost import CostTable, _table, measure_costs
from powerbert.engines.graph_engines import OnnxEngine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.machine.verdicts import CRASHES, WORKS, Verdict
from powerbert.retention import RetentionConfiguration

LENGTHS = (1, 10, 100)
TABLE = CostTable(LENGTHS, whole=(2.0, 20.0, 200.0), alone=(1.0, 10.0, 100.0), last=(0.5, 5.0, 50.0), rest=7.0)


def test_an_encoder_reads_what_came_and_feeds_forward_what_it_retains():
    retention = RetentionConfiguration.relative((1.0, 0.5, 0.1, 0.1))
    # All of 100; scores 100 and feeds 50 forward; scores 50, feeds 10; the last asks with CLS over 10.
    assert TABLE.per_encoder(retention, 100) == pytest.approx([200, 100 + (100 - 50), 50 + (20 - 10), 5])
    assert TABLE.seconds(retention, [100]) == pytest.approx(7 + 200 + 150 + 60 + 5)


def test_an_encoder_that_is_left_out_costs_nothing():
    assert len(TABLE.per_encoder(RetentionConfiguration.relative((1.0, 0.5, 0, 0)), 100)) == 2


@given(st.floats(0.1, 5), st.floats(0.1, 5), st.floats(0.1, 5), st.floats(0, 5))
def test_the_parts_are_found_again_from_the_three_graphs(whole, alone, last, rest):
    n = numpy.asarray(LENGTHS)
    one = rest + last * n
    two, first = one + whole * n, rest + alone * n + last
    found = _table(LENGTHS, one, two, first)
    # At one word-vector the two graphs differ by a further encoder; that is how rest and last are told apart.
    bias = alone - last
    assert found.whole == pytest.approx(tuple(whole * n), abs=1e-6)
    assert found.rest + found.last[0] == pytest.approx(float(one[0]))
    assert found.rest == pytest.approx(max(0.0, rest - bias) if alone >= 0 else rest, abs=1e-6)


def test_inputs_of_several_lengths_cost_their_mean():
    retention = RetentionConfiguration.full(3)
    each = [TABLE.seconds(retention, [length]) for length in (10, 10, 100)]
    assert TABLE.seconds(retention, [10, 10, 100]) == pytest.approx(sum(each) / 3)


def test_a_table_survives_json():
    named = TABLE._replace(engine="onnx", precision="int8")
    assert CostTable.from_json(json.loads(json.dumps(named))) == named


def test_a_real_model_is_measured_and_more_words_cost_more(monkeypatch):
    monkeypatch.setattr(cost, "fastest", lambda verdicts: None)  # torch: nothing is traced
    model = tiny("bert", max_position_embeddings=512)
    found = measure_costs(model, tokenizer_for(max_length=512), 512, 4, ["good film"])
    assert found.lengths == cost.COSTED
    assert (found.engine, found.precision) == ("torch", "fp32")
    assert found.whole[-1] > found.whole[0]
    full, half = RetentionConfiguration.full(4), RetentionConfiguration.relative((0.5, 0.2, 0.1, 0.1))
    assert found.seconds(half, [512]) < found.seconds(full, [512])


def test_between_runtimes_the_model_itself_decides_and_not_a_probe_of_one_layer(monkeypatch):
    monkeypatch.setattr(cost, "_candidates", lambda: [("onnx", "fp32"), ("torch", "fp32")])
    for slow, expected in (("onnx", "torch"), ("torch", "onnx")):
        with monkeypatch.context() as patch:
            for engine in (OnnxEngine, TorchEngine):
                patch.setattr(engine, "run", delayed(engine.run, 0.05 * (engine.name == slow)))
            found = measure_costs(tiny("bert"), tokenizer_for(), 32, 2, ["good film"])
        assert found.engine == expected


def delayed(run, seconds):
    def later(self, *given, **more):
        time.sleep(seconds)
        return run(self, *given, **more)

    return later


def test_the_candidates_are_the_best_precision_of_each_runtime_or_torch(monkeypatch):
    speeds = {("onnx", "fp32"): 1.0, ("onnx", "int8"): 9.0, ("openvino", "fp32"): 2.0, ("openvino", "int8"): 3.0}
    monkeypatch.setattr(cost, "probe", lambda *pair: Verdict(*pair, WORKS, speeds.get(pair, 0.5), 1.0))
    assert cost._candidates() == [("onnx", "int8"), ("openvino", "int8")]
    monkeypatch.setattr(cost, "probe", lambda *pair: Verdict(*pair, CRASHES))
    assert cost._candidates() == [("torch", "fp32")]

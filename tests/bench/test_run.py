"""Which arms run, and what is said of each. Oracle: the rules of the module, counted by hand."""

from __future__ import annotations

from powerbert.bench.run import choose_arms


def test_stock_runs_the_full_model_only():
    arms = choose_arms([("stock", "fp32"), ("torch", "fp32")], [1, 8], ["dynamic", "sorted"], True)
    assert {a.model for a in arms if a.engine == "stock"} == {"full"}
    assert {a.feed for a in arms if a.model == "truncated"} == {"sorted"}
    assert len(arms) == len(set(arms)) == 4 + 4 + 4 + 2


def test_without_feeds_every_engine_is_fed_as_it_is_at_its_best():
    arms = choose_arms([("stock", "fp32"), ("torch", "fp32"), ("onnx", "int8")], [1, 32], [], True)
    assert {(a.engine, a.feed) for a in arms} == {("stock", "dynamic"), ("torch", "packed"), ("onnx", "sorted")}
    assert len(arms) == len(set(arms)) == 2 * (1 + 2 + 2)

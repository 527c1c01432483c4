"""Every engine retains the same words and gives the same label as eager torch, the oracle, at any shape."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
import reference
import torch
from exports import Exports, assert_parity
from models import FAMILIES, batch_of, tiny

import powerbert
from powerbert import RetentionConfiguration
from powerbert.engines.graph_engines import OnnxEngine
from powerbert.modeling import ops
from powerbert.modeling.limits import Limits

ENGINES = ("onnx", "openvino")
K = 16  # what encoder 1 of `absolute` retains
LENGTHS = (1, 2, 3, K - 1, K, K + 1, 512)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["relative", "absolute"])
def test_the_same_words_and_label_at_every_length(request, kind, engine):
    exports = request.getfixturevalue(kind)
    opened = exports.opened(engine)
    assert parity_at_every_length(opened, exports) >= 6


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("side", ["right", "left"])
def test_the_same_words_and_label_in_any_batch(relative, engine, side):
    opened = relative.opened(engine)
    batch = batch_of([20, 1, 9, 33, 2, 20], width=40, side=side)
    assert assert_parity(opened, relative, batch) >= 5
    whole = opened.run(batch, retained=True)
    for i, length in enumerate([20, 1, 9, 33, 2, 20]):
        start = 40 - length if side == "left" else 0
        alone = opened.run({name: rows[i : i + 1, start:][:, :length] for name, rows in batch.items()}, retained=True)
        np.testing.assert_allclose(alone.logits[0], whole.logits[i], atol=1e-5)
        moved = tuple(tuple(place + start for place in row) for row in alone.retained[0])
        assert moved == whole.retained[i]


@pytest.mark.parametrize("engine", ENGINES)
def test_holes_in_the_mask_and_token_types_are_read(relative, engine):
    opened = relative.opened(engine)
    batch = batch_of([24, 18])
    batch["attention_mask"][0, 3:7] = 0
    batch["token_type_ids"] = torch.randint(0, 2, batch["input_ids"].shape)
    assert assert_parity(opened, relative, batch) == 2
    without = {name: batch[name] for name in ("input_ids", "attention_mask")}
    assert not np.allclose(opened.run(batch).logits, opened.run(without).logits)


@pytest.mark.parametrize("engine", ENGINES)
def test_ties_go_to_the_lowest_position(absolute, engine):
    """Encoder 2 sees 16 words that each attend evenly: every score is 4 heads x 16 x 1/16, exactly."""
    opened = absolute.opened(engine)
    batch = batch_of([16, 40, 100])
    expected = absolute.torch.run(batch, retained=True)
    answer = opened.run(batch, retained=True)
    for row, (first, second, _) in enumerate(answer.retained):
        assert second == first[:5]
        assert answer.retained[row] == expected.retained[row]


def test_a_graph_leaves_encoders_out_with_their_weights(tmp_path):
    model = powerbert.apply(tiny("bert"), RetentionConfiguration.relative((0.5, 0.0, 0.0, 0.0)))
    exports = Exports(model, tmp_path)
    assert assert_parity(exports.opened("onnx"), exports, batch_of([20, 1, 9, 33])) >= 3
    graph = onnx.load(str(exports.made("onnx") / "model.onnx"))
    held = sum(np.prod(weight.dims, dtype=int) for weight in graph.graph.initializer)
    left_out = sum(weight.numel() for layer in model.bert.encoder.layer[1:] for weight in layer.parameters())
    assert held < sum(weight.numel() for weight in model.parameters()) - 0.9 * left_out


class Selection(torch.nn.Module):
    """`select` alone, with the width read off the counts as the encoder loop does."""

    def forward(self, scores, lengths, counts):
        width = counts.max().item()
        torch._check(width >= 1)
        torch._check(width <= scores.shape[1])
        return ops.select_rows(scores, lengths, counts, width)


@pytest.fixture(scope="module")
def selections(tmp_path_factory):
    path = tmp_path_factory.mktemp("selection") / "selection.onnx"
    free = torch.export.Dim.DYNAMIC
    example = (torch.rand(3, 7), torch.tensor([7, 6, 5]), torch.tensor([4, 3, 2]))
    shapes = ({0: free, 1: free}, {0: free}, {0: free})
    torch.onnx.export(Selection().eval(), example, dynamic_shapes=shapes, verbose=False).save(path)
    session = onnxruntime.InferenceSession(path)
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    names = [given.name for given in session.get_inputs()]
    return {
        "onnx": lambda *given: session.run(None, dict(zip(names, given, strict=True)))[0],
        "openvino": lambda *given: compiled(list(given))[0],
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_selection_agrees_with_plain_loops_whatever_the_ties(selections, engine):
    draw = np.random.default_rng(0)
    for _ in range(60):
        batch, length, values = draw.integers(1, 5), draw.integers(1, 40), draw.integers(1, 6)
        scores = draw.integers(0, values, (batch, length)).astype(np.float32)
        scores[draw.random((batch, length)) < 0.05] = draw.choice([np.nan, np.inf, -np.inf])
        lengths = draw.integers(1, length + 1, batch)
        counts = np.array([draw.integers(1, most + 1) for most in lengths])
        rows = selections[engine](scores, lengths, counts)
        assert rows.shape == (batch, counts.max())
        finite = np.nan_to_num(scores, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        for i in range(batch):
            assert rows[i, : counts[i]].tolist() == reference.select(finite[i], lengths[i], counts[i])
            assert len(set(rows[i].tolist())) == rows.shape[1]


class Counts(torch.nn.Module):
    """The counts of one configuration."""

    retention = RetentionConfiguration.relative((1.0, 0.9999, 0.6667, 0.07, 0.0001))

    def forward(self, lengths):
        return torch.stack([stage.counts for stage in ops.stages(self.retention, lengths, 8192)])


def test_counts_are_exact_at_every_length_any_family_reads(tmp_path):
    """OpenVINO divides whole numbers in fp32, which is wrong from 2**24 on."""
    path = tmp_path / "counts.onnx"
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    torch.onnx.export(Counts().eval(), (torch.tensor([5, 6, 7]),), dynamic_shapes=shapes, verbose=False).save(path)
    lengths = np.arange(1, 8193)
    expected = np.array([Counts.retention.counts(int(length)) for length in lengths]).T
    session = onnxruntime.InferenceSession(path)
    assert np.array_equal(session.run(None, {"lengths": lengths})[0], expected)
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    assert np.array_equal(compiled([lengths])[0], expected)


def bake_length(graph):
    for given in graph.input:
        given.type.tensor_type.shape.dim[1].dim_value = 17


def bake_count(graph):
    """Every top-k of the selection takes as many rows as an input of 17 words would."""
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([14]), "baked"))
    for node in [node for node in graph.node if node.op_type == "TopK"][1:3]:
        node.input[1] = "baked"


def parity_at_every_length(engine, exports):
    return sum(assert_parity(engine, exports, batch_of([length])) for length in LENGTHS)


@pytest.mark.parametrize("bake", [bake_length, bake_count])
def test_a_graph_with_a_number_baked_in_fails_these_tests(relative, bake):
    errors = onnxruntime.capi.onnxruntime_pybind11_state
    refusals = (errors.InvalidArgument, errors.RuntimeException, errors.Fail)
    exported = relative.opened("onnx")
    model = onnx.load(relative.made("onnx") / "model.onnx")
    bake(model.graph)
    # ONNX Runtime refuses to run it, or the comparison fails.
    exported.session = onnxruntime.InferenceSession(model.SerializeToString())
    with pytest.raises((AssertionError, *refusals)):
        parity_at_every_length(exported, relative)


FIVE = (1, 2, 7, 20, 39)
QUICK = ("modernbert",)  # rotary angles and windows: the most to gather


@pytest.mark.parametrize(
    "family", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES]
)
def test_every_family_at_five_lengths_in_both_engines(tmp_path, family):
    layers = 2 if family in QUICK else 3
    model = powerbert.apply(
        tiny(family, num_hidden_layers=layers), RetentionConfiguration.relative((0.7, 0.4, 0.1)[:layers])
    )
    exports = Exports(model, tmp_path)
    pad = model.config.pad_token_id or 0
    for engine in ENGINES:
        opened = exports.opened(engine)
        for length in FIVE:
            assert_parity(opened, exports, batch_of([length], pad=pad))
        assert assert_parity(opened, exports, batch_of(list(FIVE), pad=pad)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "changes", "retention", "strategy"),
    [
        ("modernbert", {"classifier_pooling": "mean"}, (0.7, 0.4, 0.1), "attn-ws"),
        ("deberta-v2", {"conv_kernel_size": 3}, (0.7, 0.4, 0.1), "attn-ws"),
        ("bert", {}, (0.7, 0.4, 0.1), "rand-ws"),
        ("bert", {}, (0.7, 0.4, 0.1), "head-ws"),
        ("bert", {}, (1.0, 1.0, 0.4), "attn-ws"),
        ("bert", {}, (1.0, 1.0, 1.0), "attn-ws"),
        ("modernbert", {}, (1.0, 1.0, 1.0), "attn-ws"),
    ],
    ids=str,
)
def test_other_heads_strategies_and_configurations(tmp_path, family, changes, retention, strategy):
    model = tiny(family, num_hidden_layers=3, **changes)
    powerbert.apply(model, RetentionConfiguration.relative(retention), strategy)
    exports = Exports(model, tmp_path)
    for engine in ENGINES:
        opened = exports.opened(engine)
        for lengths in ([1], [2], [20], [13, 30, 4]):
            expected, answer = (run(batch_of(lengths), retained=True) for run in (exports.torch.run, opened.run))
            assert answer.retained == expected.retained
            np.testing.assert_allclose(answer.logits, expected.logits, atol=1e-4, rtol=0)


def test_an_engine_says_what_it_supports(relative):
    assert (OnnxEngine.name, OnnxEngine.precisions) == ("onnx", ("fp32", "int8"))
    opened = relative.opened("onnx")
    assert opened.precision == "fp32"
    assert opened.labels == {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    assert opened.limits == Limits(("input_ids", "attention_mask", "token_type_ids"), 512, 60, 2)
    assert opened.tokenizer("good film")["input_ids"] == relative.tokenizer("good film")["input_ids"]

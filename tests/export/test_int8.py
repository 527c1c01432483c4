"""int8 in ONNX Runtime: a scale per word-vector and per output. Oracle: numpy, and the same text alone."""

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from models import batch_of
from onnx import TensorProto, helper, numpy_helper

from powerbert.export import int8
from powerbert.export.int8 import quantise_onnx

INNER, OUTER = 8, 5
WEIGHTS = np.random.default_rng(0).standard_normal((INNER, OUTER)).astype(np.float32)
WEIGHTS[:, 1] = 0
rows = arrays(np.float32, (2, 3, INNER), elements=st.floats(-1e4, 1e4, width=32))


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    """Two linear layers on the same words, with the same weights, and a reader of the weights themselves."""
    folder = tmp_path_factory.mktemp("layer")
    shape = [None, None, INNER]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["words", "weights"], ["first"]),
            helper.make_node("MatMul", ["words", "weights"], ["second"]),
            helper.make_node("Add", ["weights", "weights"], ["doubled"]),
        ],
        "layer",
        [helper.make_tensor_value_info("words", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("first", "second", "doubled")],
        [numpy_helper.from_array(WEIGHTS, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, folder / "plain.onnx")
    quantise_onnx(folder / "plain.onnx", folder / "int8.onnx")
    return onnxruntime.InferenceSession(folder / "int8.onnx", providers=["CPUExecutionProvider"])


def expected(words):
    """Round words by the largest element of their row, weights by the largest pair of their column."""
    row = np.maximum(np.abs(words).max(axis=-1, keepdims=True), np.float32(1e-20))
    column = np.maximum([largest_pair(weights) for weights in WEIGHTS.T], 1e-20) / 127
    integers = np.clip(np.rint(words / row * 127), -128, 127).astype(np.int64)
    return (integers @ np.rint(WEIGHTS / column).astype(np.int64)) * column / 127 * row


def largest_pair(weights):
    """What two neighbouring inputs of an output come to at most, counting weights of one sign only."""
    pairs = weights.reshape(-1, 2)
    return max(np.clip(pairs, 0, None).sum(axis=1).max(), np.clip(-pairs, 0, None).sum(axis=1).max())


@given(words=rows)
def test_a_linear_layer_rounds_each_word_vector_by_its_own_largest_element(layer, words):
    first, second, doubled = layer.run(None, {"words": words})
    # A value half-way between two integers may round either way.
    step = np.abs(words).max(axis=-1, keepdims=True) / 127 * np.abs(WEIGHTS).max()
    assert (np.abs(first - expected(words)) <= 1e-4 * np.abs(words).max() + step).all()
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(doubled, WEIGHTS * 2)


@pytest.mark.parametrize("inner", [7, 8])
@pytest.mark.parametrize("draw", [np.ones, lambda shape: np.random.default_rng(2).uniform(-1, 1, shape)])
def test_no_product_saturates_on_a_machine_that_adds_pairs_in_16_bits(inner, draw):
    """The oracle is x86 without VNNI by hand: the largest inputs, 255, times neighbouring weights."""
    weight = draw((inner, 64)).astype(np.float32)
    integers = np.rint(weight / int8._scales(weight)).astype(np.int64)
    padded = np.concatenate([integers, np.zeros((inner % 2, 64), np.int64)]).reshape(-1, 2, 64)
    assert 255 * np.clip(padded, 0, None).sum(axis=1).max() <= 2**15 - 1
    assert -255 * np.clip(-padded, 0, None).sum(axis=1).max() >= -(2**15)
    assert np.abs(integers).max() in range(63, 128)  # and no bit is wasted


def test_zeros_and_an_outlier_in_one_word_leave_the_others_alone(layer):
    words = np.random.default_rng(1).standard_normal((1, 3, INNER)).astype(np.float32)
    usual = layer.run(None, {"words": words})[0]
    words[0, 0], words[0, 1] = 0, 1e6
    found = layer.run(None, {"words": words})[0]
    np.testing.assert_array_equal(found[0, 0], 0)
    np.testing.assert_array_equal(found[0, 2], usual[0, 2])


def test_a_text_has_the_same_int8_answer_alone_and_in_any_batch(relative):
    engine, lengths = relative.opened("onnx", "int8"), (3, 40, 17, 9)
    batch = batch_of(lengths)
    together = engine.run(batch, retained=True)
    for i in range(len(lengths)):
        alone = engine.run({name: tensor[i : i + 1] for name, tensor in batch.items()}, retained=True)
        np.testing.assert_allclose(alone.logits[0], together.logits[i], atol=1e-4)
        assert alone.retained[0] == together.retained[i]

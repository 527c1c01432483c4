"""Post-training quantisation to int8."""

import logging
import os
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from powerbert.errors import require
from powerbert.text.batches import Integers

_RUNTIME = "com.microsoft"  # domain of ONNX Runtime's own operators
_LARGEST, _LEAST = 127, 1e-20  # the latter instead of a largest element of 0, which cannot divide


def quantise_onnx(source: Path, target: Path) -> None:
    """Linear layers to int8: weights per output, activations per word-vector as they come.

    ONNX Runtime's own dynamic quantiser takes one scale for the whole batch, so that a text's answer depends
    on its neighbours and an outlier coarsens every word-vector. Here each word-vector is divided by its
    largest element before a fixed scale, and the product is multiplied by it again. Scores, softmax and
    selection stay in fp32. The products are exact on every machine: see `_scales`.
    """
    onnx = require("onnx", "onnx")
    model = onnx.load(str(source))
    # The shapes that the exporter noted are of the weights that go.
    del model.graph.value_info[:]
    model.opset_import.append(onnx.helper.make_opsetid(_RUNTIME, 1))
    weights = {tensor.name: tensor for tensor in model.graph.initializer if len(tensor.dims) == 2}
    rewriter = _Rewriter(onnx)
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in weights:
            rewriter.linear(node, onnx.numpy_helper.to_array(weights[node.input[1]]))
        else:
            rewriter.nodes.append(node)
    read = {name for node in rewriter.nodes for name in node.input}
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in read]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(rewriter.nodes)
    model.graph.initializer.extend([*tensors, *rewriter.constants.values()])
    onnx.save(model, str(target))


class _Rewriter:
    """Collects the nodes of a graph in their order, linear layers as products of integers."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self._rows: dict[str, tuple[str, str]] = {}
        self._step = self._constant("int8/step", np.float32(1 / _LARGEST))
        self._middle = self._constant("int8/middle", np.uint8(_LARGEST + 1))
        self._least = self._constant("int8/least", np.float32(_LEAST))
        self._last_axis = self._constant("int8/last_axis", np.array([-1], dtype=np.int64))

    def linear(self, node: Any, weight: NDArray[np.float32]) -> None:
        """Replace `words (.., in) @ weight (in, out)`."""
        words, name = node.input
        integers, largest = self._quantised(words)
        scale = _scales(weight)
        whole = self._constant(f"{name}/int8", np.rint(weight / scale).astype(np.int8))
        inputs = [integers, whole, self._step, self._constant(f"{name}/scale", scale.astype(np.float32)), self._middle]
        product = self._node("MatMulIntegerToFloat", inputs, f"{node.output[0]}/product", domain=_RUNTIME)
        self._node("Mul", [product, largest], node.output[0])

    def _quantised(self, words: str) -> tuple[str, str]:
        """Name the integers of (.., in) and the largest element of each word-vector (.., 1), made once."""
        if words not in self._rows:
            size = self._node("Abs", [words], f"{words}/size")
            largest = self._node("ReduceMax", [size, self._last_axis], f"{words}/maximum", keepdims=1)
            largest = self._node("Max", [largest, self._least], f"{words}/largest")
            unit = self._node("Div", [words, largest], f"{words}/unit")
            integers = self._node("QuantizeLinear", [unit, self._step, self._middle], f"{words}/int8")
            self._rows[words] = integers, largest
        return self._rows[words]

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self._onnx.helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def _constant(self, name: str, value: Any) -> str:
        self.constants.setdefault(name, self._onnx.numpy_helper.from_array(np.asarray(value), name))
        return name


def _scales(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """A scale for each output of weights (in, out) at which no product saturates anywhere: (out,).

    x86 without VNNI adds the products of two neighbouring inputs in 16 bits: at most 255 times the sum of
    their two weights, if these have one sign, and 255 * 128 fits. Unsigned weights would be exact as well,
    but take 2.3 times as long with VNNI; weights in 7 bits double the rounding, where this adds a fifth.
    """
    signs = np.stack([np.maximum(weight, 0), np.maximum(-weight, 0)])  # (2, in, out)
    pairs = np.add.reduceat(signs, range(0, len(weight), 2), axis=1)  # (2, in / 2, out)
    scales: NDArray[np.float32] = np.maximum(pairs.max(axis=(0, 1)), _LEAST) / _LARGEST
    return scales


def quantise_openvino(model: Any, batches: list[dict[str, Integers]]) -> Any:
    """Weights and activations of matrix products to int8, with scales from the user's own text.

    Weights have 7 of the 8 bits: oneDNN, too, adds the products of two neighbours in 16 bits where there is
    no VNNI (`_scales`).
    """
    os.environ.setdefault("NNCF_CI", "1")  # or it reports to Intel
    nncf = require("nncf", "openvino")
    # Not its set_log_level, which also silences handlers that others have put there.
    logging.getLogger("nncf").setLevel(logging.ERROR)
    options = {"model_type": nncf.ModelType.TRANSFORMER, "subset_size": len(batches)}
    options["advanced_parameters"] = nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE)
    with redirect_stdout(StringIO()):  # its progress bars
        return nncf.quantize(model, nncf.Dataset(batches), **options)

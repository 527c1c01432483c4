"""What the child process of a probe runs: one linear layer in an engine and precision, in turn with fp32.

For training it is the way there and back of the layer, under autocast as training runs it.

It is run as a file of its own and imports nothing of the project: it has to be quick, and it may die.
The layer is that of a BERT-base (768 to 3,072) on 256 word-vectors, on one core and in CPU time: others
at work on the machine change little about it.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS, HIDDEN, INTERMEDIATE = 256, 768, 3072
ROUNDS = 25
WRONG = {"fp32": 1e-3, "bf16": 0.03, "int8": 0.03, "int8+bf16": 0.03}
"""Relative error from which numbers are not those of the precision, but of a broken product."""

Floats = NDArray[np.float32]
Product = Callable[[], Any]  # one call gives rows (256, 768) times weights (768, 3072), as an array or a tensor


def show_speed(engine: str, precision: str) -> None:
    """Print GFLOP/s per core of the precision, and of fp32 in the same engine measured in turn, as JSON."""
    with suppress(ImportError, OSError, ValueError):  # dying is in order here: no image of it on the user's disk
        resource: Any = import_module("resource")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rows, weights = numbers()
    build = PRODUCTS[engine, precision]
    products = {name: build(name, rows, weights) for name in dict.fromkeys(("fp32", precision))}
    _check(products[precision](), rows @ weights, WRONG[precision])
    seconds: dict[str, list[float]] = {name: [] for name in products}
    for round in range(ROUNDS + 2):
        for name, product in products.items():
            start = time.process_time()
            product()
            if round >= 2:  # the first calls pack weights
                seconds[name].append(time.process_time() - start)
    flop = 2 * ROWS * HIDDEN * INTERMEDIATE * (3 if build is _trained else 1)  # the way back has two products
    rates = {name: flop / statistics.median(found) / 1e9 for name, found in seconds.items()}
    print(json.dumps({"gflops": rates[precision], "fp32_gflops": rates["fp32"]}))  # noqa: T201


def numbers() -> tuple[Floats, Floats]:
    """Rows and weights in which every number of the range is as frequent: sums that saturate are found."""
    random = np.random.default_rng(0)
    rows, weights = random.uniform(-1, 1, (ROWS, HIDDEN)), random.uniform(-1, 1, (HIDDEN, INTERMEDIATE))
    return rows.astype(np.float32), weights.astype(np.float32)


def _torch(_: str, rows: Floats, weights: Floats) -> Product:
    """fp32 on packed weights, as the engine runs it."""
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    left, right = torch.from_numpy(rows), torch.from_numpy(weights.T.copy())
    if not torch.backends.mkldnn.is_available():
        return lambda: torch.nn.functional.linear(left, right)
    packed = torch.ops.mkldnn._reorder_linear_weight(right, None)
    return lambda: torch.ops.mkldnn._linear_pointwise(left, packed, None, "none", [], "")


def _trained(precision: str, rows: Floats, weights: Floats) -> Product:
    """The layer there and back."""
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    left, right = (torch.from_numpy(each).requires_grad_() for each in (rows, weights.T.copy()))

    def step() -> Any:
        left.grad = right.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            out = torch.nn.functional.linear(left, right)
            out.float().sum().backward()
        return out.detach()

    return step


def _onnx(precision: str, rows: Floats, weights: Floats) -> Product:
    """In int8 by the operators, and with the scales, that an export has."""
    onnx: Any = import_module("onnx")
    onnxruntime: Any = import_module("onnxruntime")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes, constants = [helper.make_node("MatMul", ["rows", "weights"], ["out"])], dict[str, Any](weights=weights)
    if precision == "int8":
        signs = np.stack([np.maximum(weights, 0), np.maximum(-weights, 0)])
        scale = np.add.reduceat(signs, range(0, HIDDEN, 2), axis=1).max(axis=(0, 1)) / 127
        constants = {"step": np.float32(np.abs(rows).max() / 127), "middle": np.uint8(128), "scale": scale}
        constants["weights"] = np.rint(weights / scale).astype(np.int8)
        given = ["integers", "weights", "step", "scale", "middle"]
        nodes = [helper.make_node("QuantizeLinear", ["rows", "step", "middle"], ["integers"])]
        nodes += [helper.make_node("MatMulIntegerToFloat", given, ["out"], domain="com.microsoft")]
    layer = [helper.make_tensor_value_info("rows", kind, [None, HIDDEN])]
    layer += [helper.make_tensor_value_info("out", kind, [None, INTERMEDIATE])]
    held = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "layer", layer[:1], layer[1:], held)
    # Versions that every runtime of the last years reads, whatever this onnx writes by itself.
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=8).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(["out"], {"rows": rows})[0]


def _openvino(precision: str, rows: Floats, weights: Floats) -> Product:
    openvino: Any = import_module("openvino")
    ops: Any = import_module("openvino.opset13")
    given = ops.parameter([-1, HIDDEN], np.float32, name="rows")
    left, right = given, ops.constant(weights)
    if precision.startswith("int8"):
        left = _quantised(ops, left, rows, 256)
        right = _quantised(ops, right, 2 * weights, 255)  # 7 of the 8 bits, as exports have them
    model = openvino.Model([ops.matmul(left, right, False, False)], [given], "layer")
    hint = "bf16" if precision.endswith("bf16") else "f32"
    options = {"INFERENCE_PRECISION_HINT": hint, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": "1"}
    request = openvino.Core().compile_model(model, "CPU", options).create_infer_request()
    return lambda: request.infer({0: rows})[0]


def _quantised(ops: Any, values: Any, of: Floats, levels: int) -> Any:
    """Mark values as int8, with the scales of what they will be."""
    high = np.float32(np.abs(of).max())
    low = np.float32(-high * levels / (levels - 1) if levels % 2 == 0 else -high)
    return ops.fake_quantize(values, low, high, low, high, levels)


TRAINING = ("torch", "bf16")  # what only training uses; the torch engine answers in fp32
PRODUCTS: dict[tuple[str, str], Callable[[str, Floats, Floats], Product]] = {
    ("torch", "fp32"): _torch,
    TRAINING: _trained,
    **dict.fromkeys((("onnx", "fp32"), ("onnx", "int8")), _onnx),
    **dict.fromkeys((("openvino", one) for one in ("fp32", "int8", "bf16", "int8+bf16")), _openvino),
}


def _check(found: Any, expected: Floats, limit: float) -> None:
    numbers = np.asarray(found.float() if hasattr(found, "float") else found)  # numpy has no bf16
    error = float(np.linalg.norm(numbers - expected) / np.linalg.norm(expected))
    if not error < limit:  # NaN is not
        sys.exit(f"the numbers are wrong: relative error {error:.2g}, at most {limit:g}")


if __name__ == "__main__":
    show_speed(*sys.argv[1:])

"""Packed weights: linear layers that keep their weights in the order the matrix product reads them.

A BERT-base runs faster on them with and without elimination, above all with the few rows that
elimination leaves (docs/results/notes/scheme.md).
The answers agree to fp32 rounding. The price is a second copy of the linear weights.
"""

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from powerbert.modeling import ops

_Model = TypeVar("_Model")
WATCHED = 8
"""Numbers of a weight that are compared at every call, half a microsecond."""


class PackedLinear:
    """The forward pass of one linear layer on packed weights; packs at its first call.

    Falls back to the plain product wherever packing does not serve: gradients, other types and devices, a
    graph being traced. Weights that were changed since are packed anew. Torch counts the changes of
    optimisers, of `load_state_dict` and of operations in place, but none through `.data`, as averaging of
    weights and PEFT's merging make them; those change a weight as a whole, and show in a few numbers of it.
    Whoever changes single numbers through `.data` calls `pack` again.
    """

    def __init__(self, layer: nn.Linear) -> None:
        self.layer = layer
        self.packed: Tensor | None = None
        self.watched = np.empty(0)  # a view of numbers spread over the weight
        self.of: tuple[int, int, bytes] | None = None  # what was packed: address, version, watched numbers

    def __call__(self, rows: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        weight, bias = self.layer.weight, self.layer.bias
        serves = rows.dtype == weight.dtype == torch.float32 and rows.is_cpu
        if not serves or torch.is_grad_enabled() or ops.is_traced():
            return linear(rows, weight, bias)
        # Tensors made in inference mode carry no version; they cannot be trained either.
        address, version = weight.data_ptr(), 0 if weight.is_inference() else weight._version
        if self.packed is None or self.of != (address, version, self.watched.tobytes()):
            self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
            numbers = weight.detach().numpy().reshape(-1)
            self.watched = numbers[:: max(1, len(numbers) // WATCHED)]
            self.of = address, version, self.watched.tobytes()
        return torch.ops.mkldnn._linear_pointwise(rows, self.packed, bias, "none", [], "")

    def __reduce__(self) -> Any:
        """Copies and pickles pack anew: packed weights are opaque to both."""
        return PackedLinear, (self.layer,)


def pack(model: _Model) -> _Model:
    """Run the linear layers of a model on packed weights from now on; same object, same state dict.

    For fp32 inference on a CPU: faster, above all with few rows, at the price of a second copy of the weights.
    Steps aside while gradients are recorded; `unpack` undoes it.
    """
    if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        for layer in _linear_layers(model):
            layer.forward = PackedLinear(layer)
    return model


def unpack(model: _Model) -> _Model:
    """Take packing off again."""
    for layer in _linear_layers(model):
        vars(layer).pop("forward", None)
    return model


def _linear_layers(model: Any) -> list[Any]:
    """The plain ones, whose forward pass nobody has changed."""
    linear_layers = [module for module in model.modules() if type(module) is nn.Linear]
    return [layer for layer in linear_layers if isinstance(vars(layer).get("forward"), PackedLinear | None)]

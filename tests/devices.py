"""A device that no machine needs to have: the CPU computes its numbers, but no CPU tensor may join them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("meta")
"""What tensors of the device say of themselves."""
HARMLESS = ("aten::_to_copy", "aten::copy_")
"""Operations that may join two devices."""


class Elsewhere(torch.Tensor):
    """A tensor that is not on the CPU; `inner` holds its numbers."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Elsewhere:
        self: Elsewhere = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )
        self.inner = inner
        return self

    def tolist(self) -> Any:  # torch refuses it for a subclass
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("runs inside FakeDevice only")


class FakeDevice(TorchDispatchMode):
    """Runs what is asked of tensors `Elsewhere`, and refuses CPU tensors among them, as a GPU would."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        here = [tensor for tensor in tensors if not isinstance(tensor, Elsewhere) and tensor.dim() > 0]
        away = any(isinstance(tensor, Elsewhere) for tensor in tensors)
        if away and here and func._schema.name not in HARMLESS:
            raise RuntimeError(f"{func}: expected all tensors on one device, got one of {here[0].shape} on the CPU")
        if device is not None:
            away = torch.device(device) == DEVICE
            kwargs["device"] = torch.device("cpu")
        out = func(*tree_map(_bring, args), **tree_map(_bring, kwargs))
        return tree_map(_send, out) if away else out


class _Constants(TorchFunctionMode):
    """`torch.tensor` goes past a dispatch mode, so numbers are sent to the device here."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.tensor and kwargs.get("device") == DEVICE:
            return Elsewhere(func(*args, **kwargs | {"device": "cpu"}))
        return func(*args, **kwargs)


def moved(model: torch.nn.Module) -> torch.nn.Module:
    """The model with its weights on the fake device."""
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                tensors[name] = None if tensor is None else Elsewhere(tensor.detach())
    return model


def answer(run: Callable[..., Any], batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Run a model on the fake device and bring its logits back."""
    with torch.no_grad(), FakeDevice(), _Constants():
        logits = run(**{name: Elsewhere(rows) for name, rows in batch.items()}).logits
    assert logits.device == DEVICE
    return logits.inner


def _bring(value: Any) -> Any:
    return value.inner if isinstance(value, Elsewhere) else value


def _send(value: Any) -> Any:
    return Elsewhere(value) if isinstance(value, torch.Tensor) else value

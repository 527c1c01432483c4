"""Tiny model folders on disk, and ways to damage them."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from powerbert.errors import PowerBertError

TYPES = ("albert", "bert", "distilbert")
SHARED = Path(os.environ.get("POWERBERT_SHARED", Path(__file__).parents[3] / "shared"))
GTE = SHARED / "models" / "gte-small"
SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 20,
}


def saved(model: PreTrainedModel, folder: Path, **options: Any) -> dict[str, torch.Tensor]:
    """Save a model and return the weights that reading it must give back."""
    model.save_pretrained(folder, **options)
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_same_bits(model: PreTrainedModel, expected: dict[str, torch.Tensor]) -> None:
    found = model.state_dict()
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == torch.float32
        assert torch.equal(found[name].view(torch.int32), tensor.float().view(torch.int32)), name


def refusal(kind: type[PowerBertError], call: Callable[[], object]) -> str:
    """Return the message of a refusal, which is one line."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    return message


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def edit_header(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


def edit_bytes(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))

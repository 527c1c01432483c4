"""CrossEncoders of sentence-transformers, tiny and random, and some pairs; sentence-transformers is the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from models import tiny
from texts import WORDS, tokenizer_for

ACTIVATIONS = {"sigmoid": torch.nn.Sigmoid, "none": torch.nn.Identity}


def oracle(folder: Path, **options: Any) -> Any:
    """The folder as sentence-transformers opens it."""
    package = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    return package.CrossEncoder(str(folder), device="cpu", local_files_only=True, **options)


def cross_encoder(
    home: Path, activation: str | None = None, labels: int = 1, family: str = "bert", **more: Any
) -> Path:
    """The folder of a CrossEncoder, as this version of sentence-transformers saves it."""
    sizes = {"num_labels": labels, "num_hidden_layers": 2, "max_position_embeddings": 128}
    tiny(family, **sizes, **more).save_pretrained(home / "plain")
    tokenizer_for(128).save_pretrained(home / "plain")
    own = None if activation is None else ACTIVATIONS[activation]()
    oracle(home / "plain", activation_fn=own).save_pretrained(str(home / "saved"), create_model_card=False)
    return home / "saved"


def some_pairs(count: int = 12, longest: int = 30) -> list[tuple[str, str]]:
    """Different pairs of mixed lengths."""
    random = np.random.default_rng(0)

    def text() -> str:
        return " ".join(random.choice(WORDS[:18], random.integers(1, longest)))

    return [(text(), text()) for _ in range(count)]

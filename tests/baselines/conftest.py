"""A tiny fine-tuned model on disk, and its data, for the tests of every baseline."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from runs import pretrained, small_data

from powerbert.training import Data, Options, finetune

SHORT = {"epochs": 1, "batch_size": 8, "accumulation": 1, "seed": 3, "learning_rate": 1e-3}


class Tuned(NamedTuple):
    """A fine-tuned model of four encoders with four heads each, its data, and options of a short training."""

    folder: object
    encoder: object  # the folder of the model without a head
    data: Data
    short: dict


@pytest.fixture(scope="session")
def tuned(tmp_path_factory):
    root = tmp_path_factory.mktemp("tuned")
    encoder, data = pretrained(root / "pretrained"), small_data()
    finetune(encoder, data, root / "one", Options(**SHORT))
    return Tuned(root / "one", encoder, data, SHORT)

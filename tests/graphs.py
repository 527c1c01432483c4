"""Traced graphs that several tests share."""

from __future__ import annotations

import pytest
import torch
from exports import Exports
from models import tiny

import powerbert
from powerbert import RetentionConfiguration


@pytest.fixture(scope="session")
def relative(tmp_path_factory):
    """BERT that reads 512 words and retains fractions of each input's length."""
    model = tiny("bert", num_hidden_layers=3, max_position_embeddings=512)
    powerbert.apply(model, RetentionConfiguration.relative((0.8, 0.5, 0.1)))
    return Exports(model, tmp_path_factory.mktemp("relative"))


@pytest.fixture(scope="session")
def absolute(tmp_path_factory):
    """BERT with counts; encoder 2 attends evenly, so its scores tie wherever 1 / length is exact."""
    model = tiny("bert", num_hidden_layers=3, max_position_embeddings=512)
    even = model.bert.encoder.layer[1].attention.self.query
    torch.nn.init.zeros_(even.weight)
    torch.nn.init.zeros_(even.bias)
    powerbert.apply(model, RetentionConfiguration.absolute((16, 5, 2), 512))
    return Exports(model, tmp_path_factory.mktemp("absolute"))


@pytest.fixture(scope="session")
def dialled(tmp_path_factory):
    """BERT with a dial: one graph for the budgets that run all encoders, and one for those that leave one out."""
    model = tiny("bert", num_hidden_layers=3)
    powerbert.apply(model, RetentionConfiguration.relative((0.8, 0.5, 0.2)))
    shares = {"1x": (1.0, 1.0, 1.0), "1.5x": (0.6, 0.6, 0.3), "2x": (0.7, 0.7, 0.0), "3x": (0.5, 0.3, 0.0)}
    dial = {budget: RetentionConfiguration.relative(each) for budget, each in shares.items()}
    return Exports(model, tmp_path_factory.mktemp("dialled"), dial)

"""The public Python API: the three steps and one for several budgets in a few lines."""

from __future__ import annotations

import subprocess
import sys

import pytest
from runs import pretrained, small_data

import powerbert
import powerbert.training
from powerbert.training import (
    AnytimeOptions,
    Options,
    RetrainOptions,
    SearchOptions,
    anytime,
    finetune,
    retrain,
    search,
)


def test_three_steps_from_an_encoder_to_a_faster_classifier(tmp_path):
    data, fast = small_data(), {"epochs": 1, "batch_size": 16}
    encoder = pretrained(tmp_path / "encoder")
    finetune(encoder, data, str(tmp_path / "one"), Options(**fast))
    found = search(tmp_path / "one", data, tmp_path / "two", SearchOptions(bins=4, **fast))
    result = retrain(found.folder, data, tmp_path / "three", RetrainOptions(**fast))
    whole, table = anytime(tmp_path / "one", data, tmp_path / "any", AnytimeOptions(**fast), budgets=[0.5])
    assert result.retention == found.retention
    assert result.evaluation.rows == whole.evaluation.rows == table[0]["rows"] == 16
    assert powerbert.pipeline(result.folder)("good film")[0]["label"] in ("yes", "no")


def test_every_public_name_is_there_and_no_other():
    for name in powerbert.training.__all__:
        assert getattr(powerbert.training, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'Run'"):
        powerbert.training.Run  # noqa: B018


def test_options_are_read_without_torch():
    code = "import sys; from powerbert.training import SearchOptions; print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"

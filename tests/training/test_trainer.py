"""What Trainer is helped with."""

from __future__ import annotations

import torch

import powerbert.training.trainer  # noqa: F401 - importing it is what helps


def test_a_state_is_read_to_the_only_cpu_by_its_number(tmp_path):
    torch.save({"exp_avg": torch.arange(3.0)}, tmp_path / "optimizer.pt")
    state = torch.load(tmp_path / "optimizer.pt", map_location=torch.device("cpu:0"), weights_only=True)
    assert state["exp_avg"].tolist() == [0, 1, 2]
    assert state["exp_avg"].device.type == "cpu"

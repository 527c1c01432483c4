"""Peaks: of the fastest engine in each precision, and never of what does not run."""

from __future__ import annotations

import pytest
import torch

from powerbert.machine import peak
from powerbert.machine.verdicts import CRASHES, WORKS, Verdict

FOUND = {
    ("torch", "bf16"): Verdict("torch", "bf16", CRASHES, detail="died with SIGILL"),
    ("openvino", "bf16"): Verdict("openvino", "bf16", CRASHES, detail="died with SIGILL"),
    ("onnx", "int8"): Verdict("onnx", "int8", WORKS, 300.0, 3.0),
    ("openvino", "int8"): Verdict("openvino", "int8", WORKS, 400.0, 4.0),
}


def test_int8_is_that_of_the_fastest_engine_on_all_threads(monkeypatch):
    monkeypatch.setattr(peak, "probe", lambda *pair: FOUND[pair])
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert peak.peaks(["int8", "bf16", "int8"]) == {"int8": 800.0}


def test_only_what_is_asked_for_is_measured(monkeypatch):
    monkeypatch.setattr(peak, "probe", lambda *pair: pytest.fail("probed"))
    monkeypatch.setattr(peak, "SECONDS", 0.01)
    assert list(peak.peaks(["fp32"])) == ["fp32"]
    assert peak.peaks([]) == {}

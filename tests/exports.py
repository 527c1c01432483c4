"""Exports of tiny models, each graph traced once, and the comparison of an engine with eager torch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from texts import tokenizer_for

from powerbert.engines.engine import Engine
from powerbert.engines.open import ENGINES
from powerbert.engines.torch_engine import TorchEngine
from powerbert.export import write as module
from powerbert.modeling import ops
from powerbert.modeling.apply import unpad

TEXTS = ["good film", "the plot was dull but it is very great!", "bad", "this was not good, was it?"] * 4
TOLERANCE = {"onnx": 1e-4, "openvino": 1e-3}
CLOSE = 1e-4  # runtimes may differ where the scores at the cut do not


class Exports:
    """The folders of one model; a trace takes seconds and is the same for every engine, so there is one."""

    def __init__(self, model: Any, folder: Path, dial: Any = None) -> None:
        self.model, self.folder, self.tokenizer = model, folder, tokenizer_for(max_length=512)
        self.dial = dial
        self.programs: dict[Any, Any] = {}
        self.trace = module.trace_graph

    def _once(self, model: Any, limits: Any, served: Any = ()) -> Any:
        key = tuple(served)
        if key not in self.programs:
            self.programs[key] = self.trace(model, limits, served)
        return self.programs[key]

    def made(self, to: str, precision: str = "fp32") -> Path:
        folder = self.folder / f"{to}-{precision}"
        if not folder.exists():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(module, "trace_graph", self._once)
                module.export(self.model, self.tokenizer, folder, to, precision, calibration=TEXTS, dial=self.dial)
        return folder

    def opened(self, to: str, precision: str = "fp32") -> Engine:
        # Not open_engine: where bf16 is slower than fp32 it would open something else.
        return ENGINES[to].load(self.made(to, precision), None, 1)

    @property
    def torch(self) -> TorchEngine:
        return TorchEngine(self.model, self.tokenizer, dial=self.dial)


def gaps(model: Any, batch: Any) -> list[float]:
    """For each input, how far apart the scores at its closest cut are, in eager torch."""
    cuts = [[math.inf] * len(batch["input_ids"])]
    select = ops.select_rows

    def spy(scores: Any, lengths: Any, counts: Any, width: int) -> Any:
        real = [scores.shape[1]] * len(scores) if lengths is None else lengths.tolist()
        most = [width] * len(scores) if counts is None else counts.tolist()
        cuts.append([_gap(*row) for row in zip(scores.tolist(), real, most, strict=True)])
        return select(scores, lengths, counts, width)

    unpad(model, False)  # the layout that selects for the whole batch at once
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(ops, "select_rows", spy)
        model(**batch)
    unpad(model)
    return [min(column) for column in zip(*cuts, strict=True)]


def _gap(scores: list[float], length: int, count: int) -> float:
    """Between the least retained and the best eliminated word; CLS does not compete."""
    ranked = sorted(scores[1:length], reverse=True)
    if not 1 < count < length:
        return math.inf
    gap = ranked[count - 2] - ranked[count - 1]
    # Even attention over a power of two is exact in every runtime, and so is its tie: no close call.
    even = length & (length - 1) == 0 and ranked[0] == ranked[-1]
    return math.inf if even else gap


def assert_parity(engine: Engine, exports: Exports, batch: Any) -> int:
    """Same words, same label, close logits wherever no cut is close; returns how many were compared."""
    expected = exports.torch.run(batch, retained=True)
    answer = engine.run(batch, retained=True)
    assert answer.logits.shape == expected.logits.shape
    assert answer.logits.dtype == np.float32
    clear = [gap > CLOSE for gap in gaps(exports.model, batch)]
    for i, compared in enumerate(clear):
        assert [len(row) for row in answer.retained[i]] == [len(row) for row in expected.retained[i]]
        if compared:
            assert answer.retained[i] == expected.retained[i]
            difference = np.abs(answer.logits[i] - expected.logits[i]).max()
            assert difference <= TOLERANCE[engine.name]
            assert answer.logits[i].argmax() == expected.logits[i].argmax()
    return sum(clear)

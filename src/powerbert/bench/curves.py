"""Cost against length and against batch size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from powerbert.bench.arms import STOCK, Arm, Field
from powerbert.bench.measure import interleave

LENGTHS = (32, 64, 128, 256, 512)
BATCHES = (1, 2, 4, 8, 16, 32)
BATCH, LENGTH = 8, 128

Engines = Sequence[tuple[str, str]]


def by_length(field: Field, engines: Engines, rounds: int, longest: int) -> list[dict[str, Any]]:
    """Milliseconds per input at each length, one batch of eight."""
    lengths = [length for length in LENGTHS if length <= longest]
    return [point for length in lengths for point in _points(field, engines, rounds, length, BATCH)]


def by_batch(field: Field, engines: Engines, rounds: int, longest: int) -> list[dict[str, Any]]:
    """Milliseconds per input at each batch size, inputs of 128 words."""
    length = min(LENGTH, longest)
    return [point for batch in BATCHES for point in _points(field, engines, rounds, length, batch)]


def _points(field: Field, engines: Engines, rounds: int, length: int, batch: int) -> Iterable[dict[str, Any]]:
    """Both models in every engine, in turn, on one batch of inputs of one length."""
    inputs = field.of_length(length, batch)
    arms = [
        Arm(model, "sorted", engine, precision, batch)
        for engine, precision in engines
        for model in ("unpruned", "eliminated")
        if engine != STOCK or model == "unpruned"
    ]
    timings = interleave({arm.name: inputs.run(arm) for arm in arms}, rounds)
    for arm in arms:
        yield {
            "engine": arm.engine,
            "precision": arm.precision,
            "model": arm.model,
            "length": length,
            "batch": batch,
            "ms_per_input": 1e3 * timings[arm.name].median / batch,
        }

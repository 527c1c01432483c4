"""Cost against length and against batch size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from powerbert.bench.arms import STOCK, Arm, Field
from powerbert.engines.torch_engine import TorchEngine
from powerbert.machine.measure import interleave, ratio

LENGTHS = (32, 64, 128, 256, 512)
BATCHES = (1, 2, 4, 8, 16, 32)
BATCH, LENGTH = 8, 128
ROWS, MOST = 4096, 16
"""Word-vectors of a batch that is timed `rounds` times; a smaller one more often, up to so many times."""

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
    pairs = [
        tuple(_arm(model, engine, precision, batch) for model in ("unpruned", "eliminated"))
        for engine, precision in engines
    ]
    arms = [arm for pair in pairs for arm in pair if arm.engine != STOCK or arm.model == "unpruned"]
    turns = rounds * max(1, min(MOST, ROWS // (length * batch)))
    timings = interleave({arm.name: inputs.run(arm) for arm in arms}, turns)
    stock = next((timings[arm.name] for arm in arms if arm.engine == STOCK), None)
    for before, after in pairs:
        shape = {"engine": before.engine, "precision": before.precision, "length": length, "batch": batch}
        slow, fast = timings[before.name], timings.get(after.name)
        yield shape | {"model": "unpruned", "ms_per_input": 1e3 * slow.median / batch}
        if fast is not None:
            speed_up, work = ratio(slow, fast), inputs.flops(before) / inputs.flops(after)
            yield shape | {
                "model": "eliminated",
                "ms_per_input": 1e3 * fast.median / batch,
                "speed_up": speed_up,
                "flop_ratio": work,
                "efficiency": speed_up / work,
                "against_stock": None if stock is None else ratio(stock, fast),
            }


def _arm(model: str, engine: str, precision: str, batch: int) -> Arm:
    # Inputs of one length have no PAD; in torch the packed feed is the engine as users have it.
    return Arm(model, "packed" if engine == TorchEngine.name else "sorted", engine, precision, batch)

"""Cost against length and against batch size, and the paper's own protocol.

Paper: Comparison to BERT
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from powerbert.bench.arms import STOCK, Arm, Workbench, own_feed
from powerbert.engines.torch_engine import TorchEngine
from powerbert.machine.measure import Rounds, interleave, ratio

LENGTHS_MEASURED = (32, 64, 128, 256, 512)
BATCHES_MEASURED = (1, 2, 4, 8, 16, 32)
BATCH_OF_LENGTHS, LENGTH_OF_BATCHES = 8, 128
WORDS, MOST_TURNS = 4096, 16
"""Word-vectors of a batch that is timed `rounds` times; a smaller one more often, up to so many times."""
PAPER_BATCH = 128

Engines = Sequence[tuple[str, str]]


def curves(
    bench: Workbench, engines: Engines, rounds: int, longest: int, progress: Callable[..., Any] = list
) -> dict[str, list[dict[str, Any]]]:
    """Milliseconds per input at each length in batches of 8, and at each batch size with 128 words."""
    shapes = [("by_length", length, BATCH_OF_LENGTHS) for length in LENGTHS_MEASURED if length <= longest]
    shapes += [("by_batch", min(LENGTH_OF_BATCHES, longest), batch) for batch in BATCHES_MEASURED]
    found: dict[str, list[dict[str, Any]]] = {"by_length": [], "by_batch": []}
    for curve, length, batch in progress(shapes):
        found[curve] += _points(bench, engines, rounds, length, batch)
    return found


def _points(bench: Workbench, engines: Engines, rounds: int, length: int, batch: int) -> Iterator[dict[str, Any]]:
    """Both models in every engine, in turn, on one batch of inputs of one length."""
    inputs = bench.of_length(length, batch)
    pairs = [
        tuple(Arm(model, own_feed(engine), engine, precision, batch) for model in ("full", "eliminated"))
        for engine, precision in engines
    ]
    arms = [arm for pair in pairs for arm in pair if arm.engine != STOCK or arm.model == "full"]
    turns = rounds * max(1, min(MOST_TURNS, WORDS // (length * batch)))
    timings = interleave({arm: inputs.run(arm) for arm in arms}, turns)
    stock = next((timings[arm] for arm in arms if arm.engine == STOCK), None)
    for before, after in pairs:
        shape = {"engine": before.engine, "precision": before.precision, "length": length, "batch": batch}
        slow, fast = timings[before], timings.get(after)
        yield shape | {"model": "full", "ms_per_input": 1e3 * slow.median / batch}
        if fast is not None:
            speed_up, work = ratio(slow, fast), inputs.flops(before) / inputs.flops(after)
            against = None if stock is None else ratio(stock, fast)
            point = {"model": "eliminated", "ms_per_input": 1e3 * fast.median / batch, "speed_up": speed_up}
            yield shape | point | {"flop_ratio": work, "efficiency": speed_up / work, "against_stock": against}


def paper_protocol(bench: Workbench, runs: int, progress: Rounds = list) -> dict[str, Any]:
    """Times as fast as stock transformers when both are measured as the paper does; figures for JSON.

    Batches of 128, padded to N, PAD computed like words, the mean of 100 runs.
    """
    inputs = bench.of_length(bench.max_length, PAPER_BATCH)
    before = Arm("full", "fixed", STOCK, "fp32", PAPER_BATCH)
    after = Arm("eliminated", "fixed", TorchEngine.name, "fp32", PAPER_BATCH)
    timings = interleave({arm.name: inputs.run(arm) for arm in (before, after)}, runs, progress=progress)
    means = {name: statistics.mean(timing.wall) for name, timing in timings.items()}
    shape = {"batch": PAPER_BATCH, "length": bench.max_length, "runs": runs}
    return shape | {"mean_seconds": means, "ratio": means[before.name] / means[after.name]}

"""The paper's own protocol: batches of 128, padded to N, PAD computed like words, the mean of 100 runs.

Paper: Experimental Evaluation
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from powerbert.bench.arms import STOCK, Arm, Field
from powerbert.engines.torch_engine import TorchEngine
from powerbert.machine.measure import interleave

BATCH = 128


def paper_protocol(
    field: Field, runs: int, progress: Callable[[Sequence[int]], Iterable[int]] = list
) -> dict[str, Any]:
    """Times as fast as stock transformers when both are measured as the paper does; figures for JSON."""
    inputs = field.of_length(field.max_length, BATCH)
    before = Arm("unpruned", "fixed", STOCK, "fp32", BATCH)
    after = Arm("eliminated", "fixed", TorchEngine.name, "fp32", BATCH)
    timings = interleave({arm.name: inputs.run(arm) for arm in (before, after)}, runs, progress=progress)
    means = {name: statistics.mean(timing.wall) for name, timing in timings.items()}
    return {
        "batch": BATCH,
        "length": field.max_length,
        "runs": runs,
        "mean_seconds": means,
        "ratio": means[before.name] / means[after.name],
    }

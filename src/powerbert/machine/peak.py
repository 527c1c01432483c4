"""The most that this machine's matrix products give: what a share of the peak is a share of."""

from __future__ import annotations

import time
from collections.abc import Iterable

import torch

from powerbert.machine.verdicts import PAIRS, probe

SIZE = 1024
SECONDS = 0.5


def peaks(precisions: Iterable[str]) -> dict[str, float]:
    """GFLOP/s on torch's threads by precision; what does not run is left out.

    In fp32 it is that of a large product. In other precisions it is what the fastest engine's probe gave on
    one core, times the threads: a product of torch's own would be a slow reference on many machines.
    """
    found = {}
    for precision in dict.fromkeys(precisions):
        rates = [_large_product()] if precision == "fp32" else []
        for engine in (engine for engine, other in PAIRS if other == precision != "fp32"):
            rates.append((probe(engine, precision).gflops or 0.0) * torch.get_num_threads())
        if any(rates):
            found[precision] = max(rates)
    return found


@torch.inference_mode()
def _large_product() -> float:
    """GFLOP/s of the fastest of many calls: a disturbance only ever adds."""
    left, right = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    packed = torch.ops.mkldnn._reorder_linear_weight(right, None)
    seconds: list[float] = []
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until or len(seconds) < 5:
        start = time.perf_counter()
        torch.ops.mkldnn._linear_pointwise(left, packed, None, "none", [], "")
        seconds.append(time.perf_counter() - start)
    return 2 * SIZE**3 / min(seconds) / 1e9

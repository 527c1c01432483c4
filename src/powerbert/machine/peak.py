"""The most that this machine's matrix products give: what a share of the peak is a share of."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from powerbert.machine.child import BF16, survives

ROWS, INNER, OUTER = 1024, 1024, 1024
SECONDS = 0.5


def peaks() -> dict[str, float]:
    """GFLOP/s of a large product per precision; what would crash is left out."""
    left, right = torch.randn(ROWS, INNER), torch.randn(OUTER, INNER)
    products: dict[str, Callable[[], object]] = {}
    packed = torch.ops.mkldnn._reorder_linear_weight(right, None)
    products["fp32"] = lambda: torch.ops.mkldnn._linear_pointwise(left, packed, None, "none", [], "")
    if survives(BF16):
        half = left.bfloat16(), right.bfloat16()
        products["bf16"] = lambda: torch.nn.functional.linear(*half)
    if survives(INT8):
        whole = torch.randint(-9, 9, (ROWS, INNER), dtype=torch.int8)
        turned = torch.randint(-9, 9, (OUTER, INNER), dtype=torch.int8).t()
        products["int8"] = lambda: torch._int_mm(whole, turned)
    with torch.inference_mode():
        return {name: _rate(product) for name, product in products.items()}


INT8 = """
import torch
torch._int_mm(torch.ones(64, 64, dtype=torch.int8), torch.ones(64, 64, dtype=torch.int8))
"""


def _rate(product: Callable[[], object]) -> float:
    """GFLOP/s of the fastest of many calls: a disturbance only ever adds."""
    seconds: list[float] = []
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until or len(seconds) < 5:
        start = time.perf_counter()
        product()
        seconds.append(time.perf_counter() - start)
    return 2 * ROWS * INNER * OUTER / min(seconds) / 1e9

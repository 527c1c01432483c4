"""Time several arms in turn, so that a machine that slows down for a while slows all of them; and the peak."""

import random
import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from powerbert.machine.verdicts import PAIRS, probe

QUICK = 0.25  # seconds; what is over sooner meets threads of the arm before it that still spin, and is run twice
SIZE, SECONDS = 1024, 0.5  # of the large product, and how long it is repeated

Name = TypeVar("Name", bound=Hashable)
Rounds = Callable[[Sequence[int]], Iterable[int]]  # what shows a person how far the rounds are


@dataclass
class Timing:
    """The rounds of one arm, in seconds."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Median wall time of a round."""
        return statistics.median(self.wall)

    @property
    def spread(self) -> float:
        """Distance of the quartiles, as a share of the median."""
        if len(self.wall) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.wall, n=4, method="inclusive")
        return (high - low) / self.median


def interleave(
    arms: Mapping[Name, Callable[[], object]],
    rounds: int,
    *,
    seed: int = 0,
    progress: Rounds = list,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Name, Timing]:
    """Run every arm once per round, in an order drawn anew; one more round at the start is not counted."""
    timings = {name: Timing() for name in arms}
    draw = random.Random(seed)
    for turn in progress(range(rounds + 1)):
        for name in draw.sample(list(arms), len(arms)):
            wall, cpu = _seconds(arms[name], clock)
            if wall < QUICK:
                wall, cpu = _seconds(arms[name], clock)
            if turn > 0:
                timings[name].wall.append(wall)
                timings[name].cpu.append(cpu)
    return timings


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> tuple[float, float]:
    """Wall time and CPU time of one run."""
    wall, cpu = clock(), time.process_time()
    work()
    return clock() - wall, time.process_time() - cpu


def p95(seconds: Sequence[float]) -> float:
    """Time within which 95 of 100 end."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


def ratio(slower: Timing, faster: Timing) -> float:
    """How many times as fast: the median over the rounds of the ratio within a round."""
    return statistics.median(a / b for a, b in zip(slower.wall, faster.wall, strict=True))


def peaks(precisions: Iterable[str]) -> dict[str, float]:
    """GFLOP/s on torch's threads by precision; what does not run is left out.

    In fp32 it is that of a large product. In other precisions it is what the fastest engine's probe gave on
    one core, times the threads: a product of torch's own would be a slow reference on many machines.
    """
    found = {}
    for precision in dict.fromkeys(precisions):
        if precision == "fp32":
            found[precision] = _large_product()
        elif rates := [probe(*pair).gflops or 0.0 for pair in PAIRS if pair[1] == precision]:
            found[precision] = max(rates) * torch.get_num_threads()
    return {precision: rate for precision, rate in found.items() if rate}


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

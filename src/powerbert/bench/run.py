"""Run the arms in turn, describe each of them, and say which figures count; curves, and the paper's own protocol.

Paper: Comparison to BERT
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

import torch

from powerbert.bench.arms import MODELS, STOCK, Arm, Workbench, own_feed
from powerbert.engines.open import ENGINES
from powerbert.engines.torch_engine import TorchEngine
from powerbert.export.write import RUNTIMES
from powerbert.machine.describe import Watch, extra_megabytes, machine
from powerbert.machine.measure import Rounds, Timing, interleave, p95, peaks, ratio
from powerbert.machine.verdicts import hold_isa, probe

LENGTHS_MEASURED = (32, 64, 128, 256, 512)
BATCHES_MEASURED = (1, 2, 4, 8, 16, 32)
BATCH_OF_LENGTHS, LENGTH_OF_BATCHES = 8, 128
WORDS, MOST_TURNS = 4096, 16
"""Word-vectors of a batch that is timed `rounds` times; a smaller one more often, up to so many times."""
PAPER_BATCH = 128

Engines = Sequence[tuple[str, str]]


def usable(pairs: Engines) -> tuple[list[tuple[str, str]], list[str]]:
    """The engines and precisions that this process survives, and a line for each that is left out."""
    found, notes = [], []
    for engine, precision in pairs:
        verdict = None if precision == "fp32" else probe(engine, precision)
        if verdict is None or (verdict.runs and (verdict.cap is None or hold_isa(verdict.cap))):
            found.append((engine, precision))
        else:
            notes.append(f"left out: {engine} in {precision} {verdict.state} ({verdict.detail})")
    return found, notes


def installed() -> list[str]:
    """The engines that can be measured here, stock transformers among them."""
    return [name for name in (STOCK, *ENGINES) if name not in RUNTIMES or find_spec(RUNTIMES[name])]


def choose_arms(engines: Engines, batches: Sequence[int], feeds: Sequence[str], eliminates: bool) -> list[Arm]:
    """All arms of these engines with their precisions, batch sizes and feeds; without feeds, each its own.

    Stock transformers runs the full model only, and a model that eliminates nothing has no other arm.
    """
    arms = []
    for engine, precision in engines:
        models = ("full",) if engine == STOCK or not eliminates else MODELS
        for model in models:
            for feed in feeds or (own_feed(engine),):
                if model == "truncated" and (feed != "sorted" or not feeds):
                    continue  # the easiest of the baselines needs no second way to be fed, nor always one
                if feed == "packed" and engine != TorchEngine.name:
                    continue  # a graph pads
                arms += [Arm(model, feed, engine, precision, batch) for batch in batches]
    return arms


def measure_arms(
    bench: Workbench, arms: Sequence[Arm], rounds: int, progress: Rounds = list, *, memory: bool = True
) -> dict[str, Any]:
    """Measure the arms in one run; figures for JSON."""
    runs = {arm: bench.run(arm) for arm in arms}
    latencies: dict[Arm, list[float]] = {arm: [] for arm in arms}

    def timed(arm: Arm) -> Callable[[], object]:
        return lambda: latencies[arm].extend(runs[arm]())

    precisions = [arm.precision for arm in arms]
    before, watch = peaks(precisions), Watch()
    timings = interleave({arm: timed(arm) for arm in arms}, rounds, progress=progress)
    warning = watch.warning()
    # Twice, and with what the arms reached: they may run while the machine is faster than before or after.
    rates = [before, peaks(precisions)]
    rates += [{arm.precision: bench.flops(arm) / 1e9 / timings[arm].median} for arm in arms]
    limits = {name: max(rate.get(name, 0.0) for rate in rates) for name in rates[0]}
    described = [
        _describe(bench, arm, timings[arm], latencies[arm], limits)
        | {"extra_memory_mb": extra_megabytes(runs[arm]) if memory else None}
        for arm in arms
    ]
    ran_on = machine() | {"threads": torch.get_num_threads(), "peak_gflops": limits}
    lengths = {"mean_length": statistics.mean(bench.lengths), "max_length": bench.max_length}
    texts = {"machine": ran_on, "texts": len(bench.texts), **lengths, "rounds": rounds, "warning": warning}
    return texts | {"headline": headline(timings), "arms": described}


def headline(timings: Mapping[Arm, Timing]) -> list[dict[str, Any]]:
    """How many times as fast as the best that anybody could do without elimination.

    For each precision, the best eliminated arm against the baselines, the hardest first.
    """

    def fastest(**wanted: str) -> Arm | None:
        """The arm with the least median of those that are what is wanted."""
        # What is fed padded to N computes PAD like words: a protocol, not a way to answer.
        arms = [arm for arm in timings if arm.feed != "fixed" or "feed" in wanted]
        arms = [arm for arm in arms if wanted.items() <= asdict(arm).items()]
        return min(arms, key=lambda arm: timings[arm].median, default=None)

    rows = []
    for precision in dict.fromkeys(arm.precision for arm in timings):
        best = fastest(model="eliminated", precision=precision)
        baselines = {
            f"best full arm in {precision}": fastest(model="full", precision=precision),
            "best full arm in any precision": fastest(model="full"),
            "stock transformers, batches padded to their longest": fastest(model="full", engine=STOCK, feed="dynamic"),
            "stock transformers, padded to N": fastest(model="full", engine=STOCK, feed="fixed"),
            "best truncated arm": fastest(model="truncated", precision=precision),
        }
        for name, arm in baselines.items():
            if best is not None and arm is not None:
                times = ratio(timings[arm], timings[best])
                row = {"precision": precision, "against": name, "arm": best.name, "baseline": arm.name, "ratio": times}
                rows.append(row)
    return rows


def _describe(
    bench: Workbench, arm: Arm, timing: Timing, latencies: Sequence[float], limits: dict[str, float]
) -> dict[str, Any]:
    gflop = bench.flops(arm) / 1e9
    return {
        "arm": arm.name,
        **asdict(arm),
        "seconds": timing.median,
        "cpu_seconds": statistics.median(timing.cpu),
        "spread": timing.spread,
        "p95_ms": 1e3 * p95(latencies),
        "inputs_per_second": len(bench.texts) / timing.median,
        "word_vectors": bench.word_vectors(arm),
        "gflop": gflop,
        "share_of_peak": gflop / timing.median / limits[arm.precision] if arm.precision in limits else None,
    }


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

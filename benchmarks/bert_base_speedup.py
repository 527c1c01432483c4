"""Measure elimination against the full model: BERT-base shape, random weights, fp32, arms interleaved.

    python benchmarks/bert_base_speedup.py --batch 8 --length 128

The full model runs transformers' own SDPA attention. Every round runs each arm twice and times
the second call, as a server that runs one model does; the figure is the median over the rounds of the
ratio within a round, so that a machine that slows down for a while slows both sides of a ratio. "By
packed" compares with the full model on packed weights, the harder baseline. CPU time stands
beside wall time.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable

import torch
from transformers import BertConfig, BertForSequenceClassification

import powerbert
from powerbert.modeling.packing import pack

PAPER = (80, 73, 70, 50, 50, 40, 33, 27, 20, 15, 13, 3)


def arms(batch: int, length: int) -> dict[str, Callable[[], object]]:
    """The full model, elimination in the paper's order and as it is run, plain and with packed weights."""
    torch.manual_seed(0)
    config = BertConfig()
    weights = BertForSequenceClassification(config).state_dict()
    counts = [max(1, round(count * length / 128)) for count in PAPER]
    retention = powerbert.RetentionConfiguration.absolute(counts, max_length=length)
    words = torch.randint(1000, 30000, (batch, length))
    inputs = {"input_ids": words, "attention_mask": torch.ones_like(words)}

    def arm(eliminated: bool, packed: bool = False, reference: bool = False) -> Callable[[], object]:
        model = BertForSequenceClassification(config)
        model.load_state_dict(weights, assign=True)
        model.eval()
        if packed:
            pack(model)
        if eliminated:
            powerbert.apply(model, retention, _reference=reference)
        return lambda: model(**inputs)

    return {
        "full (SDPA)": arm(False),
        "full, packed": arm(False, packed=True),
        "paper's order": arm(True, reference=True),
        "eliminated": arm(True),
        "eliminated, packed": arm(True, packed=True),
    }


def measure(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, dict[str, float]]:
    """Median and spread of wall and CPU seconds per arm, arms interleaved."""
    wall: dict[str, list[float]] = {name: [] for name in runs}
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    with torch.inference_mode():
        for run in runs.values():
            run()
        for _ in range(rounds):
            for name, run in runs.items():
                run()  # untimed: the first call after another arm pays for that arm's memory
                before, cpu_before = time.perf_counter(), time.process_time()
                run()
                wall[name].append(time.perf_counter() - before)
                cpu[name].append(time.process_time() - cpu_before)
    reference, packed = "full (SDPA)", "full, packed"
    return {
        name: {
            "speedup": _paired(wall[reference], wall[name]),
            "packed_speedup": _paired(wall[packed], wall[name]),
            "cpu_speedup": _paired(cpu[reference], cpu[name]),
            "wall_ms": 1e3 * statistics.median(wall[name]),
            "wall_iqr_ms": 1e3 * (statistics.quantiles(wall[name])[2] - statistics.quantiles(wall[name])[0]),
            "cpu_ms": 1e3 * statistics.median(cpu[name]),
        }
        for name in runs
    }


def _paired(reference: list[float], arm: list[float]) -> float:
    return statistics.median(before / after for before, after in zip(reference, arm, strict=True))


def main() -> None:
    """Print the table and the ratios."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    figures = measure(arms(options.batch, options.length), options.rounds)
    shape = f"{options.batch} x {options.length}"
    print(f"BERT-base, fp32, {shape}, {options.threads} threads, {options.rounds} rounds")
    print(f"{'arm':<20}{'wall ms':>10}{'iqr':>8}{'cpu ms':>10}{'speed-up':>10}{'by cpu':>8}{'by packed':>11}")
    for name, row in figures.items():
        print(
            f"{name:<20}{row['wall_ms']:>10.1f}{row['wall_iqr_ms']:>8.1f}{row['cpu_ms']:>10.1f}"
            f"{row['speedup']:>10.2f}{row['cpu_speedup']:>8.2f}{row['packed_speedup']:>11.2f}"
        )
    if options.json:
        record = {"options": vars(options), "machine": platform.machine(), "arms": figures}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=2)


if __name__ == "__main__":
    main()

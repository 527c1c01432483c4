"""The figures that count: how many times as fast as the best that anybody could do without elimination."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from powerbert.bench.arms import STOCK, Arm
from powerbert.machine.measure import Timing, ratio


def headline(timings: Mapping[Arm, Timing]) -> list[dict[str, Any]]:
    """For each precision, the best eliminated arm against the baselines, the hardest first."""
    rows = []
    for precision in dict.fromkeys(arm.precision for arm in timings):
        best = _fastest(timings, _eliminated(timings, precision))
        if best is None:
            continue
        answering = [arm for arm in _full(timings) if arm.feed != "fixed"]
        baselines = {
            f"best full arm in {precision}": [a for a in answering if a.precision == precision],
            "best full arm in any precision": answering,
            "stock transformers, batches padded to their longest": [
                a for a in _full(timings) if (a.engine, a.feed) == (STOCK, "dynamic")
            ],
            "stock transformers, padded to N": [a for a in _full(timings) if (a.engine, a.feed) == (STOCK, "fixed")],
            "best truncated arm": [a for a in timings if a.model == "truncated" and a.precision == precision],
        }
        for name, arms in baselines.items():
            baseline = _fastest(timings, arms)
            if baseline is not None:
                rows.append(
                    {
                        "precision": precision,
                        "against": name,
                        "arm": best.name,
                        "baseline": baseline.name,
                        "ratio": ratio(timings[baseline], timings[best]),
                    }
                )
    return rows


def _fastest(timings: Mapping[Arm, Timing], arms: Iterable[Arm]) -> Arm | None:
    """The arm with the least median, if there is any."""
    return min(arms, key=lambda arm: timings[arm].median, default=None)


def _eliminated(timings: Mapping[Arm, Timing], precision: str) -> list[Arm]:
    # What is fed padded to N computes PAD like words: it is a protocol, not a way to answer.
    return [a for a in timings if a.model == "eliminated" and a.precision == precision and a.feed != "fixed"]


def _full(timings: Mapping[Arm, Timing]) -> list[Arm]:
    return [arm for arm in timings if arm.model == "full"]

"""The load of serve_load.py, for Locust: users that ask one text after the other, without a pause, and know the answer.

    KNOWN=known.json FOUND=found.json locust -f benchmarks/serve_locust.py --headless -u 64 -r 64 -t 61s -H ADDRESS

KNOWN has [text, label, score] of every text. The first second does not count.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import time
from pathlib import Path
from typing import Any

from locust import FastHttpUser, constant, events, task

KNOWN = json.loads(Path(os.environ["KNOWN"]).read_text("utf-8"))
WRONG, BEFORE = 0.02, 1.0  # a score that differs by more is another text's; seconds before anything counts

times: list[float] = []
errors: dict[str, int] = {}
apart: list[float] = []  # from the known scores
start = time.perf_counter() + BEFORE


class Asking(FastHttpUser):  # type: ignore[misc]
    """One connection."""

    wait_time = constant(0)

    def on_start(self) -> None:
        """Every user draws texts of its own, the same in every run."""
        self.draw = random.Random(len(self.environment.runner.user_greenlets))

    @task  # type: ignore[untyped-decorator]
    def ask(self) -> None:
        """Ask a text, and compare."""
        text, label, score = self.draw.choice(KNOWN)
        begin = time.perf_counter()
        with self.client.post("/predict", json={"inputs": text}, catch_response=True) as answer:
            try:
                answer.raise_for_status()
                found = {each["label"]: each["score"] for each in answer.json()}
                apart.append(abs(found[label] - score))
            except Exception as error:  # whatever goes wrong with one request is counted, by its kind
                kind = f"{type(error).__name__} {answer.status_code}"
                errors[kind] = errors.get(kind, 0) + 1
                answer.failure(kind)
                return
        if begin >= start:
            times.append(time.perf_counter() - begin)


@events.test_start.add_listener  # type: ignore[untyped-decorator]
def begin(**given: Any) -> None:
    """The clock starts when the users do."""
    global start
    start = time.perf_counter() + BEFORE


@events.test_stop.add_listener  # type: ignore[untyped-decorator]
def write(**given: Any) -> None:
    """What was seen."""
    spent, some = time.perf_counter() - start, times if len(times) > 1 else [0.0, 0.0]
    centiles = [1000 * cut for cut in statistics.quantiles(some, n=100)]
    figures = {
        "requests": len(times),
        "per_second": round(len(times) / spent, 1),
        "p50_ms": round(centiles[49], 1),
        "p99_ms": round(centiles[98], 1),
        "errors": sum(errors.values()),
        "kinds_of_errors": errors,
        "wrong": sum(each > WRONG for each in apart),
        "furthest_apart": max(apart, default=0.0),
    }
    Path(os.environ["FOUND"]).write_text(json.dumps(figures), encoding="utf-8")

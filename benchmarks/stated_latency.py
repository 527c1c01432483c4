"""State ten latencies, accelerate for each, and measure what came of it again in a process of its own.

    python benchmarks/stated_latency.py --model FINETUNED --texts texts.txt --output RUNS --json stated.json

Speed does not depend on the weights, so the re-training is cut to a few batches: the models of this script answer
badly, and in time. The goals are shares of what the fastest engine needs for one text of the model as it is.
Everything resumes: run the same command again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy

from powerbert.acceleration.engine import MEASURED
from powerbert.acceleration.goal import Goal
from powerbert.acceleration.parts import Parts, parts_of_texts
from powerbert.acceleration.recipe import run_acceleration
from powerbert.engines.answers import tokenise_for
from powerbert.engines.open import open_engine
from powerbert.machine.describe import machine
from powerbert.tasks.encoding import texts_of
from powerbert.text.batches import collate
from powerbert.training.options import AccelerateOptions

SHARES = tuple(numpy.linspace(0.35, 0.75, 10).round(3).tolist())  # of the time of the original model
WITHIN = 1.1  # of the stated time
ROUNDS = 5
FEW = AccelerateOptions(retraining_epochs=0.05)


def ms_again(folder: Path, parts: Parts) -> float:
    """Milliseconds of one text alone, as the folder opens by default: the median of a few passes over the texts."""
    engine = open_engine(folder, None, None)
    rows = tokenise_for(engine, texts_of(parts.data.splits["dev"].dataset[:MEASURED])).rows
    batches, passes = [collate([row], 0) for row in rows], []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        for batch in batches:
            engine.run(batch)
        passes.append(1e3 * (time.perf_counter() - start) / len(batches))
    return statistics.median(passes[1:])  # the first pass warms up


def measured(given: argparse.Namespace, folder: Path) -> float:
    """The same in a new process, which has nothing of this one in its caches."""
    asked = [sys.executable, __file__, *(f"--{name}={getattr(given, name)}" for name in ("model", "texts", "output"))]
    done = subprocess.run([*asked, f"--again={folder}"], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Run every goal, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "texts", "output"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--again", type=Path, help="measure this folder and nothing else")
    given = parser.parse_args()
    parts = parts_of_texts(given.model, str(given.texts), "text", None, None)
    if given.again:
        print(ms_again(given.again, parts))
        return
    least = run_acceleration(given.model, parts, Goal("latency-ms", 1e3), given.output / "mild", FEW)
    full, rows = least["original"]["ms"], list[dict[str, Any]]()
    for share in SHARES:
        goal, folder = Goal("latency-ms", round(share * full, 3)), given.output / f"{share}"
        said = run_acceleration(given.model, parts, goal, folder, FEW)
        row = {"stated": goal.value, "said": said["accelerated"]["ms"], "again": measured(given, folder)}
        rows.append(row | {"met": row["again"] <= WITHIN * goal.value, "work": said["accelerated"]["work"]})
        print("stated {stated:.2f} ms, said {said:.2f}, again {again:.2f}, met {met}".format(**rows[-1]), flush=True)
    met = sum(row["met"] for row in rows)
    print(f"met within {WITHIN - 1:.0%} in {met} of {len(rows)}; the original takes {full:.2f} ms")
    if given.json:
        figures = {"machine": machine(), "original_ms": full, "met": met, "goals": rows}
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

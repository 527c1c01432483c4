"""Time one text of 128 word-vectors with each rung of the ladder, and with the first k encoders, in turn in one run.

    python benchmarks/single_text.py --model ../shared/models/gte-small --json single-text.json

Weights do not change speed: those of the given encoder are taken as they are, with a new head. *Times* is the median
over the rounds of the ratio to the full model in the same engine and precision, within a round.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transformers import AutoModelForSequenceClassification

from powerbert.engines.auto import random_batch, without_elimination
from powerbert.engines.engine import Engine
from powerbert.engines.open import open_engine
from powerbert.export.write import export
from powerbert.machine.describe import machine
from powerbert.machine.measure import interleave, ratio
from powerbert.modeling.apply import apply, encoders_of
from powerbert.modeling.limits import limits_of
from powerbert.modeling.storage import load
from powerbert.retention import RetentionConfiguration
from powerbert.training.ladder import all_rungs, depths_of
from powerbert.training.shapes import first_encoders, work

SCALED_BY = ["a text from which int8 takes its scales"] * 4  # speed does not depend on them


def configurations(encoders: int) -> dict[str, RetentionConfiguration]:
    """All rungs, and the first k encoders for k from a quarter to three quarters."""
    found = {"full": RetentionConfiguration.full(encoders)}
    for depth in depths_of(encoders):
        found |= {f"rung {work(each.fractions):.0%} in {depth}": each for each in all_rungs(encoders, depth)}
    depths = range(encoders // 4, 3 * encoders // 4 + 1)
    return found | {f"first {depth} encoders": first_encoders(encoders, depth) for depth in depths}


def opened(model: Any, tokenizer: Any, home: Path, engine: str, precision: str) -> dict[str, Engine]:
    """Every configuration in a graph: one for the rungs of a ladder, as `accelerate` writes it, or one for itself."""
    found, all_of_them = {}, configurations(encoders_of(model))
    dial = {name: each for name, each in all_of_them.items() if name.startswith("rung")}
    for name, retention in all_of_them.items():
        if name in dial and found.keys() & dial.keys():
            continue
        own = apply(without_elimination(model), retention)
        more = {"dial": dial} if name in dial else {}
        export(own, tokenizer, home / name, engine, precision, calibration=SCALED_BY, **more)
        graph = open_engine(home / name, engine, precision)
        found |= {each: graph.at(each) for each in dial} if name in dial else {name: graph}
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--engine", default="onnx")
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    model = AutoModelForSequenceClassification.from_pretrained(given.model, num_labels=2).eval()
    _, tokenizer = load(given.model)
    with TemporaryDirectory(prefix="powerbert-") as home:
        engines = opened(model, tokenizer, Path(home), given.engine, given.precision)
        batch = random_batch(limits_of(model, tokenizer), given.rows, given.length)
        timings = interleave({name: partial(each.run, batch) for name, each in engines.items()}, given.rounds)
    rows = []
    for name, retention in configurations(encoders_of(model)).items():
        own, times = work(retention.fractions), ratio(timings["full"], timings[name])
        rows.append({"configuration": name, "ms": 1e3 * timings[name].median, "times": times, "work": own})
        print("| {configuration} | {work:.0%} | {ms:.2f} | {times:.2f} |".format(**rows[-1]), flush=True)
    if given.json:
        asked = {name: getattr(given, name) for name in ("engine", "precision", "rows", "length", "rounds")}
        given.json.write_text(json.dumps({"asked": asked, "machine": machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Compare the pipeline's answer to one short text with the engine's forward pass alone.

    python benchmarks/overhead.py --model CLASSIFIER

What the pipeline adds is tokenising, checking the batch and naming the label. Both run in turn in every
engine that is installed; the figure is the median over the rounds of the ratio within a round.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import powerbert
from powerbert.engines.answers import tokenise_for
from powerbert.engines.classifier import Classifier
from powerbert.engines.open import ENGINES
from powerbert.export.graph import trace_graph
from powerbert.export.write import export
from powerbert.machine.describe import Watch, machine
from powerbert.machine.measure import interleave, ratio
from powerbert.modeling.limits import check_batch, limits_of
from powerbert.text.batches import collate

TEXT = "a gripping , funny and altogether wonderful film"
ANSWERS = 10
"""Answers per measurement: one takes a few milliseconds."""


def main() -> None:
    """Export, measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    watch = Watch()
    with TemporaryDirectory() as temporary:
        found = {
            name: overhead(powerbert.pipeline(folder, engine=name), given.rounds)
            for name, folder in folders(given.model, Path(temporary))
        }
    figures = {"machine": machine(), "warning": watch.warning(), "text": TEXT, "engines": found}
    print(json.dumps(figures, indent=1))


def folders(model: Path, root: Path) -> Iterator[tuple[str, Path]]:
    """Each engine with a folder that it runs in fp32."""
    loaded, tokenizer = powerbert.load(model)
    program = trace_graph(loaded, limits_of(loaded, tokenizer))
    for name in ENGINES:
        if name != "torch":
            export(loaded, tokenizer, root / name, name, program=program)
        yield name, model if name == "torch" else root / name


def overhead(classify: Classifier, rounds: int) -> dict[str, float]:
    """Milliseconds of the forward pass, and what the pipeline adds as a share of it."""
    engine = classify.engine
    inputs = check_batch(collate(tokenise_for(engine, [TEXT]).rows, 0), engine.limits)
    timings = interleave(
        {
            "forward": repeated(lambda: engine.answer(inputs, retained=False)),
            "pipeline": repeated(lambda: classify(TEXT)),
        },
        rounds,
    )
    forward, whole = timings["forward"], timings["pipeline"]
    return {"forward_ms": 1e3 * forward.median / ANSWERS, "overhead": ratio(whole, forward) - 1}


def repeated(call: Callable[[], object]) -> Callable[[], None]:
    """The call so many times over."""

    def run() -> None:
        for _ in range(ANSWERS):
            call()

    return run


if __name__ == "__main__":
    main()

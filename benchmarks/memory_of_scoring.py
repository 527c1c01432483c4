"""Answer a stream of many sentences and tell how much memory it took beyond the loaded model.

    python benchmarks/memory_of_scoring.py --model CLASSIFIER --data ../shared/data/SST-2/train.jsonl.gz

The sentences of the file are repeated until there are enough; they are read as a stream.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

from powerbert.engines.answers import answer
from powerbert.engines.open import open_engine
from powerbert.machine.describe import extra_megabytes, machine


def main() -> None:
    """Open, stream, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=100_000)
    given = parser.parse_args()
    engine = open_engine(given.model)
    answered = 0

    def score() -> None:
        nonlocal answered
        again = itertools.chain.from_iterable(map(sentences, itertools.repeat(given.data)))
        texts = itertools.islice(again, given.sentences)
        answered = sum(1 for _ in answer(engine, texts))

    start = time.perf_counter()
    extra = extra_megabytes(score)
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "machine": machine(),
                "engine": f"{engine.name} {engine.precision}",
                "sentences": answered,
                "seconds": round(seconds, 1),
                "megabytes_beyond_the_loaded_model": None if extra is None else round(extra),
            },
            indent=1,
        )
    )


def sentences(file: Path) -> Iterator[str]:
    """The texts of a JSONL file, gzip."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["text"]


if __name__ == "__main__":
    main()

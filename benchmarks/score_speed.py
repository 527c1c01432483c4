"""Does `powerbert score` keep up with its engine, and how much memory does a large file take?

    python benchmarks/score_speed.py --model EXPORTED --data ../shared/data/SST-2/train.jsonl.gz --json score.json

In one process and in turn, on the same rows: what the command does, from a file to a file, and the engine alone on
sorted batches (`answer_rows`) of rows that were tokenised beforehand. The sentences of the data are repeated until
there are enough. Memory is the peak of the first scoring of all rows beyond the loaded model.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from powerbert.engines.answers import answer_rows, tokenise_for
from powerbert.engines.open import open_engine
from powerbert.machine.describe import Watch, choose_threads, extra_megabytes, machine
from powerbert.scoring.answering import Answerer, Verdicts, answered_here
from powerbert.scoring.rows import WINDOW, InputFiles
from powerbert.scoring.run import score_windows, sound_windows
from powerbert.scoring.staging import staged
from powerbert.scoring.write import FORMS
from powerbert.tasks.registry import own_task

BATCH = 32


def main() -> None:
    """Measure in turn, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="JSONL, gzip, with a column text")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--timed", type=int, default=20_000, help="rows of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window", type=int, default=WINDOW)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    texts, watch = read(given.data, given.rows), Watch()
    engine = open_engine(given.model, threads=choose_threads()[0])
    answerer = Answerer(engine, own_task("text", labels=tuple(engine.labels.values())), BATCH)
    with tempfile.TemporaryDirectory() as temporary:
        some, whole = (write(Path(temporary), texts[:n]) for n in (given.timed, given.rows))
        start = time.perf_counter()
        extra = extra_megabytes(lambda: score(answerer, whole, given.window))
        seconds = time.perf_counter() - start
        ready = tokenise_for(engine, texts[: given.timed]).rows
        arms: tuple[Callable[[], object], ...] = (
            lambda: score(answerer, some, given.window),
            lambda: answer_rows(engine, ready, most=BATCH),
        )
        rates = [[given.timed / timed(arm) for arm in arms] for _ in range(given.rounds)]
    figures = {
        "machine": machine(),
        "engine": f"{engine.name} {engine.precision}",
        "window": given.window,
        "rows_per_second": {"score": [a for a, _ in rates], "sorted_arm": [b for _, b in rates]},
        "ratio": statistics.median(a / b for a, b in rates),
        "all_rows": {
            "rows": given.rows,
            "rows_per_second": given.rows / seconds,
            "megabytes_beyond_the_model": None if extra is None else round(extra),
        },
        "warning": watch.warning(),
    }
    print(json.dumps(figures, indent=1))
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def score(answerer: Answerer, source: Path, window: int) -> None:
    """From a file to a file, as the command does it."""
    target = source.with_suffix(".out.csv")
    target.unlink(missing_ok=True)
    verdicts = Verdicts(answerer.engine, answerer.task)
    form = FORMS["csv"](verdicts.columns)
    windows = sound_windows(InputFiles((source,), answerer.task, window=window).windows(), verdicts, "fail")
    with staged(target, {}) as place:
        score_windows(answered_here(answerer, windows), verdicts, form, place.add, place.counts, "fail")
        place.finish(form)


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def read(file: Path, rows: int) -> list[str]:
    """The texts of the file, repeated until there are enough."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    return list(itertools.islice(itertools.cycle(texts), rows))


def write(folder: Path, texts: list[str]) -> Path:
    """The texts as JSON lines with a number beside each."""
    file = folder / f"{len(texts)}.jsonl"
    lines = (json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts))
    file.write_text("".join(lines), encoding="utf-8")
    return file


if __name__ == "__main__":
    main()

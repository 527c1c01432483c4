"""Does `powerbert score` keep up with its engine, and how much memory does a large file take?

    python benchmarks/score_speed.py --model FOLDER --data ../shared/data/SST-2/train.jsonl.gz --rows 1000000 --json F

In one process and in turn, on the same `--timed` rows: what the command does, from a file to a file, and the engine
alone on sorted batches (`answer_rows`), as the bench's sorted arm feeds it, of rows that were tokenised beforehand. The
sentences of the data are repeated until there are enough. Then the command itself answers all `--rows` in a process of
its own, and a file of one row in another: what the two peaks differ by is the memory that many rows take.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from powerbert.engines.answers import answer_rows, tokenise_for
from powerbert.engines.open import open_engine
from powerbert.machine.describe import Watch, choose_threads, machine
from powerbert.machine.measure import interleave, ratio
from powerbert.scoring.answering import Answerer, Verdicts, answered_here
from powerbert.scoring.rows import WINDOW, InputFiles
from powerbert.scoring.run import score_windows, sound_windows
from powerbert.scoring.staging import staged
from powerbert.scoring.write import FORMS
from powerbert.tasks.registry import own_task

BATCH = 32
COMMAND = "import sys; from powerbert.cli.main import main; main(sys.argv[1:])"


def main() -> None:
    """Measure in turn, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="JSONL, gzip, with a column text")
    parser.add_argument("--rows", type=int, default=100_000, help="of the large file")
    parser.add_argument("--timed", type=int, default=20_000, help="rows of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window", type=int, default=WINDOW)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    watch, threads = Watch(), choose_threads()[0]
    texts = read(given.data)
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        large, one = (write(home / f"{n}.jsonl", repeated(texts, n)) for n in (given.rows, 1))
        whole, single = (commanded(given, threads, source) for source in (large, one))
        rates = in_turn(given, threads, home, list(repeated(texts, given.timed)))
    figures = {
        "machine": machine(),
        "threads": threads,
        "model": given.model.name,
        "window": given.window,
        **rates,
        "command": whole
        | {"peak_mb_of_one_row": single["peak_mb"], "mb_of_rows": whole["peak_mb"] - single["peak_mb"]},
        "warning": watch.warning(),
    }
    print(json.dumps(figures, indent=1))
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def in_turn(given: argparse.Namespace, threads: int, home: Path, texts: list[str]) -> dict[str, Any]:
    """Rows a second of the command's own loop and of the engine alone, and the first as a share of the second."""
    engine = open_engine(given.model, threads=threads)
    answerer = Answerer(engine, own_task("text", labels=tuple(engine.labels.values())), BATCH)
    source, ready = write(home / "timed.jsonl", texts), tokenise_for(engine, texts).rows
    gc.freeze()  # as the command does
    arms = {
        "score": lambda: score(answerer, source, given.window),
        "sorted_arm": lambda: answer_rows(engine, ready, most=BATCH),
    }
    found = interleave(arms, given.rounds)
    return {
        "engine": f"{engine.name} {engine.precision}",
        "timed_rows": len(texts),
        "rows_per_second": {
            name: [round(len(texts) / seconds, 1) for seconds in each.wall] for name, each in found.items()
        },
        "ratio": ratio(found["sorted_arm"], found["score"]),
    }


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


def commanded(given: argparse.Namespace, threads: int, source: Path) -> dict[str, Any]:
    """What the command counts, in a process of its own, and the most memory that this had."""
    counts = source.with_suffix(".json")
    flags = ["--model", given.model, "--window", given.window, "--threads", threads, "--json", counts]
    command = [sys.executable, "-c", COMMAND, "score", source, source.with_suffix(".csv"), *flags]
    process = subprocess.Popen(list(map(str, command)))
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the command failed: {os.waitstatus_to_exitcode(status)}")
    return json.loads(counts.read_bytes()) | {"peak_mb": round(usage.ru_maxrss / 1024)}


def read(file: Path) -> list[str]:
    """The texts of the file."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def repeated(texts: list[str], rows: int) -> Iterable[str]:
    """The texts again and again, until there are enough."""
    return itertools.islice(itertools.cycle(texts), rows)


def write(file: Path, texts: Iterable[str]) -> Path:
    """The texts as JSON lines with a number beside each."""
    with file.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts))
    return file


if __name__ == "__main__":
    main()

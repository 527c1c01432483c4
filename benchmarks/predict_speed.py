"""Does `powerbert predict` keep up with its engine, and how much memory does a large file take?

    python benchmarks/predict_speed.py --model EXPORTED --data ../shared/data/SST-2/train.jsonl.gz --json predict.json

In turn, on the same rows: the command on a file, by its own clock after loading, and the engine alone on batches of
like length that were tokenised beforehand, as the sorted arm of `powerbert bench` is fed. Memory is the peak of the
command on the whole file beyond that on 64 rows.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from powerbert.engines.answers import tokenise_for
from powerbert.engines.open import open_engine
from powerbert.machine.describe import choose_threads, machine
from powerbert.text.batches import collate, length_order

BATCH = 32


def main() -> None:
    """Measure in turn, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="JSONL, gzip, with a column text")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--timed", type=int, default=20_000, help="rows of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    texts = read(given.data, given.rows)
    with tempfile.TemporaryDirectory() as temporary:
        few, some, all_rows = (write(Path(temporary), texts[:n]) for n in (64, given.timed, given.rows))
        arm = SortedArm(given.model, texts[: given.timed])
        rates = [(predict(given.model, some)[0], arm.rate()) for _ in range(given.rounds)]
        rate, peak = predict(given.model, all_rows)
        loaded = predict(given.model, few)[1]
    figures = {
        "machine": machine(),
        "rows_per_second": {"predict": [a for a, _ in rates], "sorted_arm": [b for _, b in rates]},
        "ratio": statistics.median(a / b for a, b in rates),
        "all_rows": {"rows": given.rows, "rows_per_second": rate, "megabytes_beyond_the_model": round(peak - loaded)},
    }
    print(json.dumps(figures, indent=1))
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def read(file: Path, rows: int) -> list[str]:
    """The texts of the file, repeated until there are enough."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    return list(itertools.islice(itertools.cycle(texts), rows))


def write(folder: Path, texts: list[str]) -> Path:
    """The texts as a CSV file with one column."""
    file = folder / f"{len(texts)}.csv"
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["text"], *([text] for text in texts)])
    return file


def predict(model: Path, data: Path) -> tuple[float, float]:
    """Rows per second after loading, as the command says, and its peak of memory in megabytes."""
    command = [sys.executable, "-m", "powerbert.cli", "predict", "--model", str(model), "--data", str(data)]
    command += ["--text", "text", "--output", str(data.with_suffix(".out.csv"))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    found = re.search(r"answered ([\d,]+) rows in ([\d.,]+) s", said)
    if process.returncode != 0 or found is None:
        raise SystemExit(said)
    rows, seconds = (float(number.replace(",", "")) for number in found.groups())
    return rows / seconds, usage.ru_maxrss / 1024


class SortedArm:
    """The engine alone, on batches of like length that are ready."""

    def __init__(self, model: Path, texts: list[str]) -> None:
        self.engine = open_engine(model, threads=choose_threads()[0])
        rows = tokenise_for(self.engine, texts).rows
        order = length_order([len(row["input_ids"]) for row in rows])
        parts = [order[at : at + BATCH] for at in range(0, len(order), BATCH)]
        self.batches = [collate([rows[i] for i in part], self.engine.tokenizer.pad_token_id) for part in parts]
        self.rows = len(rows)

    def rate(self) -> float:
        """Rows per second."""
        start = time.perf_counter()
        for batch in self.batches:
            self.engine.run(batch)
        return self.rows / (time.perf_counter() - start)


if __name__ == "__main__":
    main()

"""Load servers of the same task in turn and compare them: throughput, latency, errors, wrong answers, memory.

    python benchmarks/serve_load.py --fast FOLDER --full FOLDER --texts FILE --seconds 60

--fast is what `accelerate` made, --full the model it began with, --texts one text per line, of mixed lengths. Every arm
is a server in a process of its own, one at a time: `powerbert serve` with either folder, transformers' pipeline behind
a plain FastAPI route, and LitServe with batches of the full model where it is installed. As many connections as asked
ask one text after the other without a pause. Each text's answer is known beforehand, from `powerbert.pipeline` on that
text alone; an answer is wrong if its score is another by more than 0.02.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psutil

from powerbert.machine.describe import Watch, machine

HERE, WRONG, PORT = Path(__file__), 0.02, 8765


def main() -> None:
    """Measure all arms, or be one of the processes that an arm is made of."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", type=Path, help="folder with elimination")
    parser.add_argument("--full", type=Path, help="folder of the same task without it")
    parser.add_argument("--texts", type=Path, help="one text per line")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plain", help=argparse.SUPPRESS)
    parser.add_argument("--load", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.plain:
        serve_plainly(given.plain)
    elif given.load:
        print(json.dumps(asyncio.run(load(Path(given.load), given.connections, given.seconds))))
    else:
        compare(given)


def compare(given: argparse.Namespace) -> None:
    """Every arm in turn."""
    texts = [line for line in given.texts.read_text("utf-8").splitlines() if line.strip()]
    arms = {
        "powerbert serve, accelerated": (given.fast, [*own(given.fast)]),
        "powerbert serve, full model": (given.full, [*own(given.full)]),
        "FastAPI and transformers' pipeline, full model": (given.full, [HERE, "--plain", given.full]),
    }
    if find_spec("litserve"):
        arms["LitServe, full model"] = (given.full, [HERE.with_name("serve_litserve.py"), given.full, PORT])
    watch, found = Watch(), {}
    with TemporaryDirectory() as temporary:
        for name, (folder, command) in arms.items():
            known = Path(temporary) / "known.json"
            known.write_text(json.dumps(list(answers(folder, texts))))
            print(f"{name} ...", file=sys.stderr)
            with served(command) as process:
                found[name] = measured(known, given) | {"memory_mb": round(memory(process))}
    about = {"connections": given.connections, "seconds": given.seconds, "texts": len(texts)}
    figures = json.dumps({"machine": machine(), "warning": watch.warning(), **about, "arms": found}, indent=1)
    print(figures)
    if given.json:
        given.json.write_text(figures + "\n")


def own(folder: Path) -> Iterator[str]:
    """The command line of our server."""
    yield from ("-c", "import sys; from powerbert.cli.main import main; main(sys.argv[1:])")
    yield from ("serve", str(folder), "--port", str(PORT))


def answers(folder: Path, texts: list[str]) -> Iterator[tuple[str, str, float]]:
    """Each text with its label and score, computed alone."""
    import powerbert

    classify = powerbert.pipeline(folder)
    for text in texts:
        (best,) = classify(text)
        yield text, best["label"], best["score"]


@contextmanager
def served(command: list[Any]) -> Iterator[subprocess.Popen[bytes]]:
    """A server that answers, for a while."""
    process = subprocess.Popen([sys.executable, *map(str, command)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(1200):
            try:
                httpx.post(f"http://127.0.0.1:{PORT}/predict", json={"inputs": "a"}, timeout=60).raise_for_status()
                break
            except httpx.HTTPError:
                if process.poll() is not None:
                    raise
                time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait(60)


def measured(known: Path, given: argparse.Namespace) -> dict[str, Any]:
    """What a generator in a process of its own sees."""
    options = ["--connections", str(given.connections), "--seconds", str(given.seconds)]
    done = subprocess.run(
        [sys.executable, str(HERE), "--load", str(known), *options], check=True, stdout=subprocess.PIPE
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def memory(process: subprocess.Popen[bytes]) -> float:
    """Megabytes of a server and its children after the load."""
    parent = psutil.Process(process.pid)
    return sum(each.memory_full_info().uss for each in (parent, *parent.children(recursive=True))) / 2**20


async def load(known: Path, connections: int, seconds: float) -> dict[str, Any]:
    """Ask without a pause over so many connections, after a second that does not count."""
    texts, times, errors, wrong = json.loads(known.read_text()), [], 0, 0
    start = time.perf_counter() + 1
    limits = httpx.Limits(max_connections=connections)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{PORT}", timeout=120, limits=limits) as client:

        async def ask(number: int) -> None:
            nonlocal errors, wrong
            random = Random(number)
            while (begin := time.perf_counter()) < start + seconds:
                text, label, score = random.choice(texts)
                try:
                    answer = await client.post("/predict", json={"inputs": text})
                    answer.raise_for_status()
                    found = {each["label"]: each["score"] for each in answer.json()}
                    wrong += abs(found[label] - score) > WRONG
                except (httpx.HTTPError, KeyError, ValueError):
                    errors += 1
                    continue
                if begin >= start:
                    times.append(time.perf_counter() - begin)

        await asyncio.gather(*(ask(number) for number in range(connections)))
    centiles = [1000 * cut for cut in statistics.quantiles(times, n=100)] if len(times) > 1 else [0.0] * 99
    spent = time.perf_counter() - start
    return {
        "requests": len(times),
        "per_second": round(len(times) / spent, 1),
        "p50_ms": round(centiles[49], 1),
        "p99_ms": round(centiles[98], 1),
        "errors": errors,
        "wrong": wrong,
    }


def serve_plainly(folder: str) -> None:
    """One call of transformers' pipeline per request, in FastAPI's threads."""
    import uvicorn
    from fastapi import Body, FastAPI
    from transformers import pipeline

    app, classify = FastAPI(), pipeline("text-classification", model=folder, top_k=None, truncation=True)

    @app.post("/predict")
    def predict(inputs: str = Body(embed=True)) -> Any:
        (found,) = classify([inputs])
        return found

    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning")


if __name__ == "__main__":
    main()

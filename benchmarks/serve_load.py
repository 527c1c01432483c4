"""Load servers of the same task in turn and compare them: throughput, latency, errors, wrong answers, memory.

    pip install litserve locust
    python benchmarks/serve_load.py --fast FOLDER --full FOLDER --best FOLDER --texts FILE --seconds 60 --rounds 3

--fast is what `accelerate` made, --full the model it began with, --best an export of that in the fastest engine (by
default --full itself), --texts one text per line, of mixed lengths. Every arm is a server in a process of its own, one
at a time: `powerbert serve` with --fast and with --best, transformers' pipeline of --full behind a plain FastAPI route,
and LitServe with batches of --best. Locust asks over as many connections as asked, one text after the other without a
pause. Each text's answer is known beforehand, from `powerbert.pipeline` of the same folder on that text alone; an
answer is wrong if its score is another by more than 0.02. The order of the arms is drawn anew in every round.
"""

from __future__ import annotations

import argparse
import json
import os
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
from typing import Any, NamedTuple

import httpx
import psutil

import powerbert
from powerbert.machine.describe import Watch, machine, own_cores
from powerbert.serving.server import bind

HERE = Path(__file__)
OWN = ("-c", "import sys; from powerbert.cli.main import main; main(sys.argv[1:])", "serve")


class Arm(NamedTuple):
    """A server: whose answers it gives, and its command line before the port."""

    folder: Path
    command: tuple[Any, ...]


def main() -> None:
    """Measure all arms, or be the plain one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", type=Path, help="folder with elimination")
    parser.add_argument("--full", type=Path, help="folder of the same task without it, that transformers opens")
    parser.add_argument("--best", type=Path, help="the same in its fastest engine; by default --full")
    parser.add_argument("--texts", type=Path, help="one text per line")
    parser.add_argument("--seconds", type=int, default=60, help="of each arm in each round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--threads", type=int, default=own_cores(), help="of every server")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plain", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.plain:
        serve_plainly(*given.plain)
    elif missing := [name for name in ("locust", "litserve") if find_spec(name) is None]:
        parser.error(f"pip install {' '.join(missing)}")
    else:
        compare(given)


def compare(given: argparse.Namespace) -> None:
    """Every arm in turn, round after round."""
    best = given.best or given.full
    arms = {
        "powerbert serve, accelerated": Arm(given.fast, (*OWN, given.fast, "--port")),
        "powerbert serve, full model in its best engine": Arm(best, (*OWN, best, "--port")),
        "LitServe, full model in its best engine": Arm(best, (HERE.with_name("serve_litserve.py"), best)),
        "FastAPI and transformers' pipeline, full model": Arm(given.full, (HERE, "--plain", given.full)),
    }
    texts = [line for line in given.texts.read_text("utf-8").splitlines() if line.strip()]
    watch, found, draw = Watch(), {name: [] for name in arms}, Random(0)
    with TemporaryDirectory() as temporary:
        known = {folder: answers(folder, texts, Path(temporary)) for folder in {arm.folder for arm in arms.values()}}
        for turn in range(given.rounds):
            for name in draw.sample(list(arms), len(arms)):
                print(f"round {turn + 1}: {name}", file=sys.stderr)
                with served(arms[name].command, given.threads) as (process, address):
                    loaded = measured(known[arms[name].folder], address, given)
                    found[name].append(loaded | {"memory_mb": round(memory(process))})
    about = {name: getattr(given, name) for name in ("connections", "seconds", "threads")} | {"texts": len(texts)}
    about |= {"engines": {str(folder.name): engine_of(folder) for folder in known}}
    figures = {"machine": machine(), "warning": watch.warning(), **about}
    figures |= {"arms": {name: middle(rounds) | {"rounds": rounds} for name, rounds in found.items()}}
    print(json.dumps(figures, indent=1))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def answers(folder: Path, texts: list[str], home: Path) -> Path:
    """A file with each text, its label and its score, computed alone."""
    classify, known = powerbert.pipeline(folder), []
    for text in texts:
        (best,) = classify(text)
        known.append((text, best["label"], best["score"]))
    file = home / f"{len(list(home.iterdir()))}.json"
    file.write_text(json.dumps(known), encoding="utf-8")
    return file


def engine_of(folder: Path) -> str:
    """What answers in a folder."""
    engine = powerbert.pipeline(folder).engine
    return f"{engine.name} {engine.precision}"


@contextmanager
def served(command: tuple[Any, ...], threads: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server that answers, for a while, at a port that nobody else has."""
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    command, same = (sys.executable, *map(str, command), str(port)), {"OMP_NUM_THREADS": str(threads)}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | same)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1200):
            try:
                httpx.post(f"{address}/predict", json={"inputs": "a"}, timeout=60).raise_for_status()
                break
            except httpx.HTTPError:
                if process.poll() is not None:
                    raise
                time.sleep(0.1)
        yield process, address
    finally:
        below = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        process.terminate()
        for each in psutil.wait_procs(below, timeout=30)[1]:  # LitServe leaves processes behind
            each.kill()
        process.wait()


def measured(known: Path, address: str, given: argparse.Namespace) -> dict[str, Any]:
    """What Locust sees, in a process of its own."""
    found, users = known.with_suffix(".found"), str(given.connections)
    load = ["-f", HERE.with_name("serve_locust.py"), "--headless", "--only-summary", "-L", "ERROR", "-H", address]
    load += ["-u", users, "-r", users, "-t", f"{given.seconds + 1}s", "--exit-code-on-error", "0"]
    places = {"KNOWN": str(known), "FOUND": str(found)}
    command = [sys.executable, "-m", "locust", *map(str, load)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | places)
    if done.returncode:
        raise SystemExit(done.stderr)
    figures: dict[str, Any] = json.loads(found.read_bytes())
    return figures


def middle(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of the rounds, the sum of what went wrong, the most memory."""
    kinds = {"errors": sum, "wrong": sum, "memory_mb": max, "furthest_apart": max}
    names = [name for name in rounds[0] if name != "kinds_of_errors"]
    return {name: kinds.get(name, statistics.median)([each[name] for each in rounds]) for name in names}


def memory(process: subprocess.Popen[bytes]) -> float:
    """Megabytes of a server and its children after the load."""
    parent = psutil.Process(process.pid)
    return sum(each.memory_full_info().uss for each in (parent, *parent.children(recursive=True))) / 2**20


def serve_plainly(folder: str, port: str) -> None:
    """One call of transformers' pipeline per request, in FastAPI's threads."""
    import uvicorn
    from fastapi import Body, FastAPI
    from transformers import pipeline

    app, classify = FastAPI(), pipeline("text-classification", model=folder, top_k=None, truncation=True)

    @app.post("/predict")
    def predict(inputs: str = Body(embed=True)) -> Any:
        (found,) = classify([inputs])
        return found

    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main()

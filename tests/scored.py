"""A tiny classifier and rows for it, and `powerbert` in processes that can be killed at any moment."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.cli.main import main

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2))
WORDS = ["the", "film", "plot", "it", "is", "this", "that", "and", "but", "a", "good", "bad", "dull", "great", "very"]


def run(*arguments) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def sentences(count: int, longest: int = 60) -> list[str]:
    """Some of them longer than the tiny model reads."""
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(count)]


def classifier(folder: Path, **changes) -> Path:
    """A saved model with elimination."""
    powerbert.save(powerbert.apply(tiny("bert", **changes), RELATIVE), tokenizer_for(), folder)
    return folder


def json_lines(path: Path, rows) -> Path:
    """A file of rows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def many_rows(path: Path, count: int) -> Path:
    """Rows with columns beside the text, one in a hundred of them without a text."""
    texts = sentences(count, 12)
    return json_lines(path, ({"id": i, "text": text if i % 100 != 7 else "", "x": [i]} for i, text in enumerate(texts)))


def started_by(pid: int) -> list[psutil.Process]:
    """All processes below one, with their names as they call themselves."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def kill_a_worker(pid: int, rng: random.Random) -> list[int]:
    """Kill one of the workers that answer for a command on Ray, if there is one; its number."""
    with suppress(psutil.Error):
        workers = [one for one in started_by(pid) if "MapWorker" in " ".join(one.cmdline())]
        if workers:
            one = rng.choice(workers)
            one.kill()
            return [one.pid]
    return []


def kill_all(pid: int) -> None:
    """Kill a process and all that it started."""
    below = started_by(pid)
    for one in (pid, *(one.pid for one in below)):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def process(*arguments) -> multiprocessing.Process:
    """A command in a process of its own, started; its libraries are imported once, for all such processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["powerbert.cli.score", "torch", "transformers.models.bert.modeling_bert"])
    started = context.Process(target=main, args=([str(argument) for argument in arguments],))
    started.start()
    return started

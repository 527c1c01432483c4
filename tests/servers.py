"""Servers for tests: real ones in a process of their own, and some in a thread with an engine that can be held."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from models import tiny
from texts import WORDS, tokenizer_for

import powerbert
from powerbert.engines.engine import Answer, Engine
from powerbert.modeling.limits import Limits
from powerbert.retention import RetentionConfiguration
from powerbert.serving.app import Service, make_api
from powerbert.serving.server import address_of, bind, make_server

BUDGETS = {"2x": (0.5, 0.3, 0.1), "3x": (0.3, 0.1, 0.0)}


def saved_classifier(folder: Path, labels: int = 2) -> Path:
    """A tiny classifier with a dial, or with one label a reranker."""
    model = tiny("bert", num_hidden_layers=3, max_position_embeddings=512, num_labels=labels)
    powerbert.apply(model, RetentionConfiguration.relative((0.8, 0.5, 0.2)))
    model.config.id2label = {0: "bad", 1: "good"} if labels == 2 else {0: "fits"}
    dial = {name: RetentionConfiguration.relative(shares) for name, shares in BUDGETS.items()}
    powerbert.save(model, tokenizer_for(512), folder, dial=dial)
    return folder


def some_texts(count: int, longest: int = 60) -> list[str]:
    """Different texts of mixed lengths."""
    lengths = np.random.default_rng(0).integers(1, longest, count).tolist()
    return [" ".join(WORDS[(i * 7 + j * (i + 1)) % 18] for j in range(length)) for i, length in enumerate(lengths)]


@pytest.fixture(scope="session")
def classifier_folder(tmp_path_factory):
    return saved_classifier(tmp_path_factory.mktemp("served") / "reviews")


@pytest.fixture(scope="session")
def reranker_folder(tmp_path_factory):
    return saved_classifier(tmp_path_factory.mktemp("served") / "ranks", labels=1)


@contextmanager
def started(folder: Path, *flags: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`powerbert serve` in a process of its own, once /health says that it is ready: its address and the process."""
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    program = "import sys; from powerbert.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, "serve", str(folder), "--port", str(port), *flags]
    process = subprocess.Popen(command, env=os.environ | environment, stderr=subprocess.PIPE, text=True)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(3000):  # a busy machine takes its time to load torch
            if process.poll() is not None:
                break
            try:
                if httpx.get(f"{address}/health", timeout=5).status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        yield address, process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def served(classifier_folder):
    """The address of a real server of the classifier."""
    with started(classifier_folder) as (address, _):
        yield address


@contextmanager
def running(service: Service, key: str | None = None) -> Iterator[str]:
    """A server in a thread, behind a real socket."""
    server, bound = make_server(make_api(service, key), service.limits), bind("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield address_of(bound)
    finally:
        server.should_exit = True
        thread.join(30)


class HeldEngine(Engine):
    """Answers with sums that tell a text from any other; a batch waits while `go` is not set."""

    name = "held"
    precisions = ("fp32",)
    precision = "fp32"
    labels = {0: "bad", 1: "good"}
    limits = Limits(("input_ids", "attention_mask"), 512, 60, 0)
    problem_type = None
    encoders = 3

    def __init__(self) -> None:
        self.tokenizer, self.retention = tokenizer_for(512), None
        self.dial = {name: RetentionConfiguration.relative(shares) for name, shares in BUDGETS.items()}
        self.go, self.entered = threading.Event(), threading.Event()
        self.go.set()
        self.batches: list[tuple[RetentionConfiguration | None, list[int], int]] = []
        self.error: Exception | None = None

    @classmethod
    def load(cls, *given: Any) -> Any:
        raise NotImplementedError

    def retaining(self, retention: RetentionConfiguration) -> Any:
        beside = copy.copy(self)
        beside.retention = retention
        return beside

    def answer(self, inputs: dict[str, Any], retained: bool) -> Answer:
        self.entered.set()
        assert self.go.wait(30)
        if self.error is not None:
            raise self.error
        mask, ids = inputs["attention_mask"], inputs["input_ids"]
        self.batches.append((self.retention, mask.sum(axis=1).tolist(), ids.shape[1]))
        return Answer(sums(ids, mask), None)


def sums(ids: Any, mask: Any) -> Any:
    """(batch, 2): what `HeldEngine` answers."""
    places = np.arange(1, ids.shape[1] + 1)
    return np.stack([(ids * mask * places).sum(axis=1), mask.sum(axis=1)], axis=1).astype(np.float32)


def expected(engine: HeldEngine, text: str | tuple[str, str]) -> list[float]:
    """The same of one text alone."""
    made = engine.tokenizer(*((text,) if isinstance(text, str) else text), truncation=True, max_length=512)
    return sums(np.array([made["input_ids"]]), np.array([made["attention_mask"]]))[0].tolist()

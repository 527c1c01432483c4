"""What OpenVINO keeps of the shapes it has seen; several threads on one engine, also on the others."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from models import batch_of

from powerbert.engines.graph_engines import OpenVinoEngine, _few_kernels

pytest.importorskip("openvino")

CAPACITY = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
# Not in this process: what compiled a graph before has settled the size of the cache.
MANY_SHAPES = """
import sys
from pathlib import Path
import numpy as np
from powerbert.engines import graph_engines as module

module.KERNELS = 50  # so that few shapes are enough to fill it
engine = module.OpenVinoEngine.load(Path(sys.argv[1]), None, 1)
for rows in range(1, 9):
    for width in range(3, 43):
        words = np.full((rows, width), 7)
        engine.run({"input_ids": words, "attention_mask": np.ones_like(words)})
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    print(pages * 4096 // 2**20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_the_number_of_shapes(relative):
    folder = relative.made("openvino")
    environment = {name: value for name, value in os.environ.items() if name != CAPACITY}
    told = subprocess.run(
        [sys.executable, "-c", MANY_SHAPES, str(folder)], capture_output=True, text=True, check=True, env=environment
    )
    megabytes = [int(line) for line in told.stdout.split()]
    # 160 more shapes: with the caches' own sizes they take some 450 MB.
    assert megabytes[-1] - megabytes[3] < 60


@pytest.mark.parametrize("set_by_the_user", [None, "7"])
def test_the_environment_stays_as_it_was(relative, monkeypatch, set_by_the_user):
    monkeypatch.delenv(CAPACITY, raising=False)
    if set_by_the_user is not None:
        monkeypatch.setenv(CAPACITY, set_by_the_user)
    OpenVinoEngine.load(relative.made("openvino"), None, 1)
    assert os.environ.get(CAPACITY) == set_by_the_user


def test_two_threads_may_bound_the_cache_at_once(monkeypatch):
    monkeypatch.delenv(CAPACITY, raising=False)
    with _few_kernels():
        assert os.environ.pop(CAPACITY)  # as the other thread does, which also found nothing set
    assert CAPACITY not in os.environ


@pytest.mark.parametrize("name", ["torch", "onnx", "openvino"])
@pytest.mark.parametrize("retained", [False, True])
def test_six_threads_on_one_engine_get_the_answers_of_one(relative, name, retained):
    """The oracle is the same engine asked by one thread alone."""
    engine = relative.torch if name == "torch" else relative.opened(name)
    batches = [batch_of([3 + 2 * i, 20]) for i in range(6)]
    alone = [engine.run(batch, retained=retained) for batch in batches]
    start = Barrier(6)

    def ask(i):
        start.wait()
        return [engine.run(batches[i], retained=retained) for _ in range(20)]

    with ThreadPoolExecutor(6) as pool:
        for expected, answers in zip(alone, pool.map(ask, range(6)), strict=True):
            for answer in answers:
                np.testing.assert_allclose(answer.logits, expected.logits, atol=1e-6)
                assert answer.retained == expected.retained

"""Test environment: offline, and safe on machines that advertise AMX but cannot run it."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from pathlib import Path

import pytest
import torch
from hypothesis import settings

settings.register_profile("powerbert", deadline=None, max_examples=60)
settings.load_profile("powerbert")

# Tiny models; a spinning second thread only slows a busy machine, here and in the processes that tests start.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

pytest_plugins = ["graphs", "servers"]

_slow: set[str] = set()
"""Longer proofs that this run leaves out."""


def pytest_deselected(items):
    _slow.update(item.nodeid for item in items if item.get_closest_marker("slow"))


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist tells the one that reports
        session.config.workeroutput["slow"] = sorted(_slow)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    _slow.update(getattr(node, "workeroutput", {}).get("slow", ()))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter):
    if _slow:
        files = sorted({Path(name.partition("::")[0]).name for name in _slow})
        line = f"{len(_slow)} longer proofs were left for `make test-slow`: {', '.join(files)}"
        terminalreporter.write_line(line)


SHARED = Path(os.environ.get("POWERBERT_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real weights and data; never copied into the project."""
    if not SHARED.is_dir():
        pytest.skip(f"no real weights and data at {SHARED}; set POWERBERT_SHARED")
    return SHARED


@pytest.fixture
def memory(tmp_path, monkeypatch) -> Path:
    """Probes that remember nothing, and a cache file of the test's own."""
    from powerbert.machine import verdicts as probing

    monkeypatch.setattr(probing, "_known", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "powerbert" / "probe.json"

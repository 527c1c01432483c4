"""How many threads to compute with: as many as there are free cores.

OpenMP threads spin while they wait for one another. Beside a process that is busy, two of them on two cores
took 2.4 s for a training step that one alone did in 1.3 s: a core that is shared is worse than none.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import psutil

from powerbert.errors import PowerBertError
from powerbert.machine.describe import Watch

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
LISTEN = 0.25
"""Seconds for which this process is silent, to hear how many cores others use."""


def choose_threads(asked: int | None = None) -> tuple[int, str]:
    """The number of threads, and why: what was asked for, else the environment's, else the free cores."""
    if asked is not None:
        if type(asked) is not int or asked < 1:
            raise PowerBertError("--threads is out of range", got=asked, rule="a whole number from 1")
        return asked, "as asked"
    for name in VARIABLES:
        value = os.environ.get(name, "").split(",")[0].strip()
        if value.isdigit() and int(value) > 0:
            return int(value), f"{name}={value}"
    own, others = own_cores(), busy_cores()
    if others:
        return max(1, own - others), f"of {own} cores others use {others}"
    return own, f"{own} free core{'' if own == 1 else 's'}"


def own_cores() -> int:
    """Cores that this process may use: its affinity, within the quota of its control group."""
    try:
        cores = len(psutil.Process().cpu_affinity())
    except (AttributeError, psutil.Error):  # no such thing on macOS
        cores = psutil.cpu_count() or 1
    quota = _quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def busy_cores() -> int:
    """Cores that others keep busy at the moment, rounded."""
    watch = Watch()
    time.sleep(LISTEN)
    return round(watch.others() * (psutil.cpu_count() or 1))


def _quota(folder: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Cores that a container may use; None if there is no limit."""
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = " ".join((folder / file).read_text() for file in files).split()
            if int(quota) > 0 and int(period) > 0:
                return int(quota) / int(period)
        except (OSError, ValueError):  # "max" is no limit
            continue
    return None

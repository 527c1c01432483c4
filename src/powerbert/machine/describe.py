"""What a measurement ran on, how much memory it took, whether it had the machine to itself, and on how many threads.

OpenMP threads spin while they wait for one another. Beside a process that is busy, two of them on two cores
took 2.4 s for a training step that one alone did in 1.3 s: a core that is shared is worse than none.
"""

import math
import os
import platform
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from powerbert.errors import PowerBertError

_ISA = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
_PACKAGES = ("powerbert", "torch", "transformers", "onnxruntime", "openvino")
_OTHERS = 0.1  # share of the machine that others may use before a measurement is called disturbed
MOST_THREADS = 1024  # no machine gains by more, and the libraries die where the system has none to give
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_SILENCE = 0.25  # seconds for which this process is silent, to hear how many cores others use


def machine() -> dict[str, Any]:
    """The processor, its instructions, memory and the versions of what computes."""
    name, flags = processor()
    return {
        "processor": name,
        "cores": psutil.cpu_count(),
        "isa": [isa for isa in _ISA if isa in flags.split()],
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions(_PACKAGES),
        "onednn_max_cpu_isa": os.environ.get("ONEDNN_MAX_CPU_ISA"),
    }


@cache
def processor() -> tuple[str, str]:
    """The name of the CPU and the instructions that it claims, which psutil does not tell."""
    found = {}
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return found.get("model name", platform.processor() or platform.machine()), found.get("flags", "")


def versions(names: Iterable[str]) -> dict[str, str]:
    """Name -> version of those that are installed."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


class Watch:
    """Tells, at its end, how much of the machine other processes used meanwhile."""

    def __init__(self) -> None:
        self.wall, self.all, self.own = time.perf_counter(), _busy_seconds(), own_seconds()

    def others(self) -> float:
        """Share of all cores that others used since the start."""
        busy, own = _busy_seconds() - self.all, own_seconds() - self.own
        return max(0.0, (busy - own) / ((time.perf_counter() - self.wall) * (psutil.cpu_count() or 1)))

    def warning(self) -> str | None:
        """One line if the machine was busy, else None."""
        others = self.others()
        told = f"other processes used {100 * others:.0f} % of the machine: measure again when it is quiet"
        return told if others > _OTHERS else None


def own_seconds() -> float:
    """Seconds of a core that this process has used, and its children that have ended: a probe is one."""
    return sum(os.times()[:4])


def extra_megabytes(work: Callable[[], object]) -> float | None:
    """Run it once and return its peak above the start in MB; None where the system does not tell."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    except OSError:
        work()
        return None
    before = int(psutil.Process().memory_info().rss)
    work()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return max(0.0, (peak * 1024 - before) / 2**20)


def _busy_seconds() -> float:
    """Seconds that all cores together have worked since the machine started."""
    times = psutil.cpu_times()
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # counted in user and nice
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - guests)


def duration(seconds: float) -> str:
    """A time for a person: `duration(5400)` is "90 min"."""
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def choose_threads(asked: int | None = None) -> tuple[int, str]:
    """The number of threads, and why: what was asked for, else the environment's, else the free cores."""
    if asked is not None:
        if type(asked) is not int or not 1 <= asked <= MOST_THREADS:
            rule = f"a whole number from 1 to {MOST_THREADS}"
            raise PowerBertError("--threads is out of range", got=asked, rule=rule)
        return asked, "as asked"
    for name in VARIABLES:
        value = os.environ.get(name, "").split(",")[0].strip()
        if value.isdecimal() and int(value) > 0:
            return int(value), f"{name}={value}"
    own, others = own_cores(), busy_cores()
    why = f"of {own} cores others use {others}" if others else f"{own} free core{'s' * (own > 1)}"
    return max(1, own - others), why


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
    time.sleep(_SILENCE)
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

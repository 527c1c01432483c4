"""What a measurement ran on, and whether it had the machine to itself."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

from powerbert.machine.versions import versions

ISA = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
PACKAGES = ("powerbert", "torch", "transformers", "onnxruntime", "openvino")
OTHERS = 0.1
"""Share of the machine that others may use before a measurement is called disturbed."""


def machine() -> dict[str, Any]:
    """The processor, its instructions, memory and the versions of what computes."""
    info = _read("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")]
    flags = next((line.split() for line in info.splitlines() if line.startswith("flags")), [])
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "isa": [name for name in ISA if name in flags],
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions(PACKAGES),
        "onednn_max_cpu_isa": os.environ.get("ONEDNN_MAX_CPU_ISA"),
    }


class Watch:
    """Tells, at its end, how much of the machine other processes used meanwhile."""

    def __init__(self) -> None:
        self.wall, self.all, self.own = time.perf_counter(), _busy_seconds(), own_seconds()

    def others(self) -> float | None:
        """Share of all cores that others used since the start; None where the system does not tell."""
        if self.all is None or (busy := _busy_seconds()) is None:
            return None
        own, wall = own_seconds() - self.own, time.perf_counter() - self.wall
        return max(0.0, (busy - self.all - own) / (wall * (os.cpu_count() or 1)))

    def warning(self) -> str | None:
        """One line if the machine was busy, else None."""
        others = self.others()
        if others is None or others <= OTHERS:
            return None
        return f"other processes used {100 * others:.0f} % of the machine: measure again when it is quiet"


def own_seconds() -> float:
    """Seconds of a core that this process has used, and its children that have ended: a probe is one."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _busy_seconds() -> float | None:
    """Seconds that all cores together have worked since the machine started."""
    first = _read("/proc/stat").partition("\n")[0].split()
    if len(first) < 9:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, first[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def duration(seconds: float) -> str:
    """A time for a person: `duration(5400)` is "90 min"."""
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"

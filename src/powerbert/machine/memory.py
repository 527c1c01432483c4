"""How much memory a piece of work takes at its height, beyond what the process holds already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def extra_megabytes(work: Callable[[], object]) -> float | None:
    """Run it once and return its peak above the start in MB; None where the system does not tell."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
        before = _status("VmRSS")
        work()
        return max(0.0, (_status("VmHWM") - before) / 1024)
    except (OSError, KeyError):
        work()
        return None


def _status(name: str) -> int:
    """Kilobytes from the kernel's account of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    raise KeyError(name)

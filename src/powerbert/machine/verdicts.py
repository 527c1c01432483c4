"""Whether an engine runs in a precision on this machine, and how fast: tried in a child process.

Some machines promise instructions that they do not have, and a process that believes them dies. What was
found is remembered in this process, and in the user's cache folder for the next one.
"""

import hashlib
import json
import logging
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_cache_path

from powerbert.folders.atomic import write_file
from powerbert.machine.describe import processor, versions
from powerbert.machine.probes import PRODUCTS, TRAINING

PAIRS = tuple(PRODUCTS)  # every engine and precision that can be probed
PROGRAM = Path(__file__).with_name("probes.py")
NEEDED = {"torch": ("torch",), "onnx": ("onnx", "onnxruntime"), "openvino": ("openvino",)}
"""What a child imports; an engine is also the name of the extra that brings it."""
PATIENCE = 120.0  # seconds that a child may take

WORKS, CAPPED, CRASHES, MISSING = "works", "works under an ISA cap", "crashes", "missing"
ISA = "ONEDNN_MAX_CPU_ISA"
CAPS = ("AVX512_CORE_BF16", "AVX512_CORE_VNNI")
"""Limits for oneDNN, the loosest first: without AMX, and without bf16 as well."""
LASTING = ("SIGILL", "SIGSEGV", "SIGBUS", "SIGFPE")
"""Deaths that will come again; others, such as of want of memory or of a hang, may not."""
AUTO = "auto"  # the precision of training that pays here
CLEARLY = 1.2  # times as fast as fp32: below, its fewer digits are not worth it

BY_BATCH = ("bf16", "int8+bf16")
"""Precisions in which an answer depends on the batch beside it (docs/results/equality.md): rivals to be measured
against, or a user's own choice, and never ours."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Verdict:
    """What a probe found out about an engine in a precision."""

    engine: str
    precision: str
    state: str  # works; works under an ISA cap; crashes, which is also an error, a hang or wrong numbers; missing
    gflops: float | None = None  # of one linear layer of a BERT-base on 256 word-vectors, on one core: the median
    ratio: float | None = None  # times as fast as fp32 in the same engine, measured in turn with it
    cap: str | None = None  # what ONEDNN_MAX_CPU_ISA has to be for it to work
    detail: str = ""  # one line: how it died, or the pip command

    @property
    def runs(self) -> bool:
        """Whether it can be used, perhaps under a cap."""
        return self.state in (WORKS, CAPPED)

    @property
    def is_slower(self) -> bool:
        """Whether fp32 would be faster."""
        return self.ratio is not None and self.ratio < 1


def probe(engine: str, precision: str) -> Verdict:
    """What is known about an engine in a precision here; found out now, in some seconds, if nothing is."""
    key, name = _key(), f"{engine} {precision}"
    if (key, name) not in _known:
        found = _from_json(engine, precision, _read_cache().get(key, {}).get(name))
        if found is None:
            remember([examine(engine, precision)])
        else:
            _known[key, name] = found
    return _known[key, name]


class Outcome(NamedTuple):
    """How a child process ended."""

    code: int | None  # its exit code; the number of a signal below 0, None for a child that ran out of patience
    how: str = ""  # one line for a person
    output: str = ""

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended it, such as that of an illegal instruction."""
        return self.code is not None and self.code < 0


def attempt(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Outcome:
    """Run this Python with arguments, and variables beside the inherited ones; a crash stays in the child."""
    command, variables = [sys.executable, *arguments], {**os.environ, **(environment or {})}
    piped: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": PATIENCE}
    try:
        done = subprocess.run(command, env=variables, encoding="utf-8", errors="replace", check=False, **piped)
    except subprocess.TimeoutExpired:
        return Outcome(None, f"no answer within {PATIENCE:.0f} s")
    except OSError as error:  # no memory for a child, or a Python that is part of another program
        return Outcome(1, str(error))
    if done.returncode < 0:
        known = -done.returncode in set(signal.Signals)
        name = signal.Signals(-done.returncode).name if known else f"signal {-done.returncode}"
        return Outcome(done.returncode, f"died with {name}")
    last = done.stderr.strip().rpartition("\n")[2].strip()
    return Outcome(done.returncode, last or f"ended with code {done.returncode}", done.stdout)


def examine(engine: str, precision: str, program: Path = PROGRAM) -> Verdict:
    """Run a probe program in a child process; once more under each cap if a signal ended it."""
    if not all(find_spec(name) for name in NEEDED[engine]):
        return Verdict(engine, precision, MISSING, detail=f'pip install "powerbert[{engine}]"')
    # -P: or the folder of the program would be searched for modules before the installed packages.
    arguments = ["-P", str(program), engine, precision]
    plain = attempt(arguments)
    verdict = _judge(engine, precision, plain)
    if plain.was_killed and ISA not in os.environ:
        for cap in CAPS:
            capped = _judge(engine, precision, attempt(arguments, {ISA: cap}), cap)
            if capped.runs:
                return capped
    return verdict


def remember(verdicts: Iterable[Verdict]) -> None:
    """Keep verdicts for later probes: in this process all, on disk those that will hold tomorrow."""
    key, lasting = _key(), {}
    for verdict in verdicts:
        name = f"{verdict.engine} {verdict.precision}"
        _known[key, name] = verdict
        if verdict.runs or verdict.detail.endswith(LASTING):
            lasting[name] = asdict(verdict)
    if lasting:
        stored, file = _read_cache(), _cache_file()
        stored[key] = stored.get(key, {}) | lasting
        with suppress(OSError):  # where it cannot be written, the next process probes again
            file.parent.mkdir(parents=True, exist_ok=True)
            write_file(file, json.dumps(stored, indent=1).encode())


def barrier(verdict: Verdict, hold: Callable[[str], bool] | None = None) -> str | None:
    """Why something cannot be used, in a few words; None if it can. `hold` sees to a cap: `hold_isa`."""
    if verdict.state == MISSING:
        return None  # loading says it, with the pip command
    if not verdict.runs:
        return f"does not run on this machine ({verdict.detail})"
    if verdict.cap is not None and not (hold or hold_isa)(verdict.cap):
        return f"needs {ISA}={verdict.cap} in the environment before Python starts"
    return None


def slowness(verdict: Verdict) -> str | None:
    """That fp32 would be faster, in a few words; None if it would not."""
    return f"is slower than fp32 on this machine ({verdict.ratio:.2f} times as fast)" if verdict.is_slower else None


def training_precision(asked: str) -> tuple[str, str | None]:
    """The precision to train in on this CPU, and one line for the user if it is not the one asked for.

    auto: bf16 where it is clearly faster.
    """
    if asked == "fp32":
        return asked, None
    verdict = probe(*TRAINING)
    # Torch may have computed already, so a cap has to be there.
    why = barrier(verdict, lambda cap: os.environ.get(ISA) == cap) or slowness(verdict)
    if asked == AUTO:
        return (TRAINING[1] if why is None and (verdict.ratio or 0) >= CLEARLY else "fp32"), None
    return (asked, None) if why is None else ("fp32", f"{asked} in training {why}: training in fp32")


def fastest(verdicts: Iterable[Verdict], precision: str | None = None) -> Verdict | None:
    """The fastest that answers alike in any batch, of one precision or of any; None if nothing runs."""
    able = (each for each in verdicts if each.runs and precision in (None, each.precision))
    able = (each for each in able if each.precision not in BY_BATCH)
    return max(able, key=lambda each: each.gflops or 0, default=None)


def hold_isa(cap: str) -> bool:
    """Hold oneDNN to a cap, in this process and its children; False if it is too late for that.

    oneDNN reads its limit once, when OpenVINO loads its CPU plugin, or torch computes its first product.
    Where the user has set it, it stays.
    """
    if os.environ.get(ISA) == cap:
        return True
    if ISA in os.environ or _openvino_is_running():
        return False
    os.environ[ISA] = cap
    logger.warning("this CPU claims instructions that it does not have: %s=%s is set", ISA, cap)
    return True


def prepare_openvino() -> None:
    """Call before OpenVINO compiles its first graph: a cap that int8 needs is too late afterwards.

    Costs a probe, once per machine, where the CPU claims AMX, and nothing elsewhere.
    """
    if ISA in os.environ or "amx_tile" not in processor()[1].split() or _openvino_is_running():
        return
    if (cap := probe("openvino", "int8").cap) is not None:
        hold_isa(cap)


def _judge(engine: str, precision: str, outcome: Outcome, cap: str | None = None) -> Verdict:
    if outcome.code != 0:
        return Verdict(engine, precision, CRASHES, detail=outcome.how)
    try:
        figures = json.loads(outcome.output.strip().rpartition("\n")[2])
        gflops, fp32 = float(figures["gflops"]), float(figures["fp32_gflops"])
    except (ValueError, KeyError, TypeError):
        gflops = fp32 = math.nan
    if not (0 < gflops < math.inf and 0 < fp32 < math.inf):
        return Verdict(engine, precision, CRASHES, detail="the probe gave no figures")
    detail = "" if cap is None else f"dies without {ISA}={cap}"
    return Verdict(engine, precision, WORKS if cap is None else CAPPED, gflops, gflops / fp32, cap, detail)


def _openvino_is_running() -> bool:
    try:
        return "openvino_intel_cpu_plugin" in Path("/proc/self/maps").read_text(errors="replace")
    except OSError:  # not Linux: take the worse case
        return "openvino" in sys.modules


_known: dict[tuple[str, str], Verdict] = {}


def _key() -> str:
    """What a verdict depends on, as a short digest."""
    facts = [*processor(), os.environ.get(ISA), versions(("powerbert", "torch", "onnxruntime", "openvino"))]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _cache_file() -> Path:
    return user_cache_path("powerbert") / "probe.json"


def _read_cache() -> dict[str, dict[str, Any]]:
    """Digests to verdicts by name; a file that is none is as good as no file."""
    try:
        stored = json.loads(_cache_file().read_text(encoding="utf-8"))
        return {key: dict(verdicts) for key, verdicts in stored.items()}
    except (OSError, ValueError, RecursionError, AttributeError, TypeError):
        return {}


_SHAPES = [(WORKS, float, None), *((CAPPED, float, cap) for cap in CAPS), (CRASHES, type(None), None)]


def _from_json(engine: str, precision: str, stored: Any) -> Verdict | None:
    """A verdict as `remember` writes it, or None: the file may be anybody's, and a cap goes a long way."""
    try:
        found = Verdict(**{**stored, "engine": engine, "precision": precision})
    except TypeError:  # no dict, or other fields
        return None
    sound = (found.state, type(found.gflops), found.cap) in _SHAPES and isinstance(found.ratio, float | None)
    return found if sound and isinstance(found.detail, str) else None

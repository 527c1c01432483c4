"""Probes in real child processes, what is remembered of them.

The oracle is the program that the child runs: it says itself whether it dies, hangs or computes.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.engines.open import ENGINES
from powerbert.machine import probes
from powerbert.machine import verdicts as probing
from powerbert.machine.probes import PRODUCTS, TRAINING
from powerbert.machine.verdicts import CAPPED, CAPS, CRASHES, ISA, MISSING, PAIRS, WORKS, Verdict, attempt

pytestmark = pytest.mark.usefixtures("memory")

FIGURES = 'print(\'{"gflops": 90.0, "fp32_gflops": 180.0}\')\n'
DIE = "os.kill(os.getpid(), signal.SIGILL)\n"
START = "import os, pathlib, signal, time\n"
SLOW = Verdict("openvino", "bf16", WORKS, 90.0, 0.5)
DEAD = Verdict("openvino", "bf16", CRASHES, detail="died with SIGILL")
SAVED = Verdict("openvino", "int8", CAPPED, 300.0, 3.0, CAPS[0], f"dies without {ISA}={CAPS[0]}")


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Write a probe program, to be run without a cap; it counts its runs by the lines of `runs`."""
    monkeypatch.delenv(ISA, raising=False)

    def write(body):
        file = tmp_path / "program.py"
        count = f"pathlib.Path({str(tmp_path / 'runs')!r}).open('a').write('run\\n')\n"
        file.write_text(START + count + body)
        return file

    return write


def runs(tmp_path):
    return (tmp_path / "runs").read_text().count("run")


# ---- the child ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "killed", "how"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", True, "died with SIGILL"),
        ("raise SystemExit(3)", False, "ended with code 3"),
        ("raise ValueError('no such thing')", False, "ValueError: no such thing"),
    ],
)
def test_a_crash_and_an_error_are_told_from_a_success(code, killed, how):
    outcome = attempt(["-c", code])
    assert outcome.code != 0
    assert (outcome.was_killed, outcome.how) == (killed, how)
    assert attempt(["-c", "import math; math.sqrt(2)"]).code == 0


def test_an_attempt_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(probing, "PATIENCE", 0.2)
    outcome = attempt(["-c", "import time; time.sleep(60)"])
    assert (outcome.code, outcome.how) == (None, "no answer within 0 s")


def test_a_child_that_dies_of_an_illegal_instruction_leaves_the_caller_alive(program, tmp_path):
    verdict = probing.examine("torch", "bf16", program(DIE))
    assert verdict == Verdict("torch", "bf16", CRASHES, detail="died with SIGILL")
    assert not verdict.runs
    assert runs(tmp_path) == 1 + len(CAPS)  # each cap was tried as well


@pytest.mark.parametrize("cap", CAPS)
def test_a_cap_that_cures_it_is_in_the_verdict_and_not_in_this_process(program, cap):
    verdict = probing.examine("torch", "bf16", program(f"if os.environ.get({ISA!r}) != {cap!r}: {DIE}{FIGURES}"))
    assert (verdict.state, verdict.cap, verdict.gflops) == (CAPPED, cap, 90.0)
    assert verdict.runs
    assert ISA not in os.environ


def test_a_cap_that_the_user_has_set_is_not_replaced_by_another(program, tmp_path, monkeypatch):
    monkeypatch.setenv(ISA, "AVX512_CORE_AMX")
    body = f"if os.environ[{ISA!r}] != {CAPS[0]!r}: {DIE}{FIGURES}"
    assert probing.examine("torch", "bf16", program(body)).state == CRASHES
    assert runs(tmp_path) == 1


def test_a_child_that_hangs_is_ended_and_not_tried_again(program, tmp_path, monkeypatch):
    monkeypatch.setattr(probing, "PATIENCE", 1.0)
    verdict = probing.examine("torch", "bf16", program("time.sleep(60)"))
    assert (verdict.state, verdict.detail) == (CRASHES, "no answer within 1 s")
    assert runs(tmp_path) == 1


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("", "no figures"),
        ("print('hello')", "no figures"),
        ("print('[1]')", "no figures"),
        ('print(\'{"gflops": NaN, "fp32_gflops": 1}\')', "no figures"),
        ('print(\'{"gflops": -1, "fp32_gflops": 1}\')', "no figures"),
        ("raise RuntimeError('bf16 is not\\nfor this device')", "for this device"),
        ("raise SystemExit(3)", "code 3"),
    ],
)
def test_an_error_and_bad_output_are_no_success(program, body, detail):
    verdict = probing.examine("torch", "bf16", program(body))
    assert verdict.state == CRASHES
    assert detail in verdict.detail
    assert "\n" not in verdict.detail


def test_what_a_library_prints_before_the_figures_does_no_harm(program):
    verdict = probing.examine("torch", "bf16", program("print('a banner')\n" + FIGURES))
    assert (verdict.state, verdict.ratio, verdict.is_slower) == (WORKS, 0.5, True)


def test_an_engine_that_is_not_installed_is_told_with_its_pip_command(program, tmp_path, monkeypatch):
    monkeypatch.setattr(probing, "find_spec", lambda name: None)
    verdict = probing.examine("openvino", "int8", program(FIGURES))
    assert (verdict.state, verdict.detail) == (MISSING, 'pip install "powerbert[openvino]"')
    assert not (tmp_path / "runs").exists()


def test_a_python_that_cannot_be_started_is_no_crash(monkeypatch):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert probing.examine("torch", "bf16").state == CRASHES


def test_a_real_probe_is_light_and_checks_its_numbers():
    """The child imports one engine and nothing of the project; the oracle of its numbers is numpy."""
    code = (
        "import runpy, sys\n"
        "sys.argv = ['probe', 'onnx', 'int8']\n"
        f"names = runpy.run_path({str(probing.PROGRAM)!r}, run_name='__main__')\n"
        "heavy = {'torch', 'transformers', 'powerbert', 'openvino', 'nncf'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "names['_check'](names['np'].ones(2), names['np'].zeros(2) + 1.2, 0.06)\n"
    )
    outcome = attempt(["-P", "-c", code])
    assert json.loads(outcome.output)["gflops"] > 0
    assert outcome.how == "the numbers are wrong: relative error 0.17, at most 0.06"


def test_a_probe_finds_sums_that_saturate_in_16_bits():
    """The oracle is x86 without VNNI, by hand: pairs of products of the probe's numbers, cut to int16."""
    rows, weights = (np.rint(127 * part).astype(np.int64) for part in probes.numbers())
    rows, weights = rows[:64] + 128, weights[:, :64]  # unsigned, as the kernel has them
    pairs = np.einsum("rkp,kpo->rko", rows.reshape(64, -1, 2), weights.reshape(-1, 2, 64))
    exact = pairs.sum(axis=1) - 128 * weights.sum(axis=0)
    cut = np.clip(pairs, -(2**15), 2**15 - 1).sum(axis=1) - 128 * weights.sum(axis=0)
    with pytest.raises(SystemExit, match="the numbers are wrong"):
        probes._check(cut, exact, probes.WRONG["int8"])
    probes._check(exact, exact, probes.WRONG["int8"])


def test_every_precision_of_every_engine_can_be_probed():
    """The oracle is the registry of engines; training alone has one more."""
    known = {(name, precision) for name, engine in ENGINES.items() for precision in engine.precisions}
    assert set(PAIRS) == set(PRODUCTS) == known | {TRAINING}
    assert set(probing.NEEDED) == set(ENGINES)


# ---- memory ------------------------------------------------------------------------------


@pytest.fixture
def examined(monkeypatch):
    """Answers of `examine` by pair, and the list of what was examined."""
    asked, answers = [], {}

    def examine(engine, precision):
        asked.append((engine, precision))
        return answers.get((engine, precision), Verdict(engine, precision, WORKS, 100.0, 2.0))

    monkeypatch.setattr(probing, "examine", examine)
    return asked, answers


def test_a_probe_runs_once_per_process_and_machine(examined, memory, monkeypatch):
    asked, _ = examined
    first = probing.probe("onnx", "int8")
    assert probing.probe("onnx", "int8") == first
    probing._known.clear()  # the next process
    assert probing.probe("onnx", "int8") == first
    assert len(asked) == 1
    assert os.listdir(memory.parent) == ["probe.json"]
    monkeypatch.setenv(ISA, "AVX2")  # another machine, as far as oneDNN is concerned
    probing.probe("onnx", "int8")
    assert len(asked) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[" * 100_000,
        lambda text: "[]",
        lambda text: json.dumps(dict.fromkeys(json.loads(text), 7)),
        lambda text: text.replace('"works"', '"sings"'),
        lambda text: text.replace("100.0", '"fast"'),
        lambda text: text.replace('"cap": null', '"cap": "LD_PRELOAD"'),
        lambda text: "\udcff\udcfe",
    ],
)
def test_a_corrupt_cache_is_ignored_and_written_anew(examined, memory, damage):
    asked, _ = examined
    good = probing.probe("onnx", "int8")
    memory.write_bytes(damage(memory.read_text()).encode("utf-8", "surrogateescape"))
    probing._known.clear()
    assert probing.probe("onnx", "int8") == good
    assert len(asked) == 2
    probing._known.clear()
    assert probing.probe("onnx", "int8") == good
    assert len(asked) == 2


def test_a_cache_folder_that_cannot_be_written_is_no_error(examined, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert probing.probe("onnx", "int8").runs


@pytest.mark.parametrize(
    ("detail", "stays"),
    [
        ("died with SIGILL", True),
        ("died with SIGKILL", False),
        ("no answer within 120 s", False),
        ("MemoryError", False),
    ],
)
def test_only_a_death_that_will_come_again_is_remembered_for_the_next_process(examined, memory, detail, stays):
    asked, answers = examined
    answers["openvino", "bf16"] = replace(DEAD, detail=detail)
    probing.probe("openvino", "bf16")
    assert probing.probe("openvino", "bf16") == answers["openvino", "bf16"]
    assert len(asked) == 1
    assert memory.exists() == stays


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | st.sampled_from(CAPS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
fields = st.fixed_dictionaries(
    {
        "state": st.sampled_from([WORKS, CAPPED, CRASHES, MISSING]) | json_values,
        "gflops": st.none() | st.floats() | json_values,
        "ratio": st.none() | st.floats() | json_values,
        "cap": st.none() | st.sampled_from(CAPS) | json_values,
        "detail": st.text() | json_values,
    }
)


@given(json_values | fields)
def test_whatever_a_cache_holds_is_a_sound_verdict_or_none(stored):
    """The oracle: what runs has a speed, what crashes has none, and a cap is one of the known."""
    verdict = probing._from_json("onnx", "int8", stored)
    if verdict is not None:
        assert verdict.runs == (verdict.gflops is not None)
        assert (verdict.state == CAPPED) == (verdict.cap is not None)
        assert verdict.cap in (None, *CAPS)


# ---- the choice --------------------------------------------------------------------------


def test_the_fastest_is_of_what_runs_and_answers():
    training = Verdict(*TRAINING, WORKS, 900.0, 5.0)
    plain = Verdict("onnx", "fp32", WORKS, 100.0, 1.0)
    assert probing.fastest([plain, SAVED, SLOW, DEAD, training]) == SAVED
    assert probing.fastest([plain, SAVED, training], "fp32") == plain
    assert probing.fastest([DEAD, training]) is None


@pytest.mark.parametrize(
    ("verdict", "why"),
    [
        (replace(DEAD, engine="torch"), "does not run on this machine (died with SIGILL)"),
        (replace(SLOW, engine="torch", ratio=0.05), "is slower than fp32 on this machine (0.05 times"),
        (replace(SAVED, engine="torch", precision="bf16"), f"needs {ISA}={CAPS[0]} in the environment"),
    ],
)
def test_training_in_bf16_that_crashes_or_is_slower_falls_back_with_one_line(verdict, why, monkeypatch):
    monkeypatch.delenv(ISA, raising=False)
    monkeypatch.setattr(probing, "probe", lambda *pair: verdict)
    precision, line = probing.training_precision("bf16")
    assert precision == "fp32"
    assert line.startswith("bf16 in training " + why)
    assert line.endswith(": training in fp32")
    assert ISA not in os.environ


def test_training_in_bf16_that_is_faster_is_left_alone(monkeypatch):
    monkeypatch.setattr(probing, "probe", lambda *pair: replace(SAVED, engine="torch", precision="bf16"))
    monkeypatch.setenv(ISA, CAPS[0])
    assert probing.training_precision("bf16") == ("bf16", None)
    monkeypatch.setattr(probing, "probe", lambda *pair: pytest.fail("probed"))
    assert probing.training_precision("fp32") == ("fp32", None)


@pytest.mark.parametrize(("ratio", "expected"), [(2.0, "bf16"), (1.1, "fp32"), (0.05, "fp32"), (None, "fp32")])
def test_auto_trains_in_bf16_where_that_is_clearly_faster_and_says_nothing_elsewhere(ratio, expected, monkeypatch):
    verdict = DEAD if ratio is None else replace(SLOW, ratio=ratio)
    monkeypatch.setattr(probing, "probe", lambda *pair: verdict)
    assert probing.training_precision("auto") == (expected, None)


def test_openvino_at_work_is_noticed(relative):
    """The oracle is an engine that was just loaded."""
    engine = relative.opened("openvino")
    assert probing._openvino_is_running()
    assert engine.name == "openvino"

"""What `open_engine` makes of the verdict of a probe, and how often it reads a folder."""

from __future__ import annotations

import logging
import os
from dataclasses import replace

import pytest

import powerbert
from powerbert.engines import auto
from powerbert.engines import open as registry
from powerbert.engines.open import open_engine
from powerbert.errors import PowerBertError
from powerbert.folders import manifest
from powerbert.machine import verdicts as probing
from powerbert.machine.verdicts import CAPPED, CAPS, CRASHES, ISA, WORKS, Verdict

pytestmark = pytest.mark.usefixtures("memory")

SLOW = Verdict("openvino", "bf16", WORKS, 90.0, 0.5)
DEAD = Verdict("openvino", "bf16", CRASHES, detail="died with SIGILL")
SAVED = Verdict("openvino", "int8", CAPPED, 300.0, 3.0, CAPS[0], f"dies without {ISA}={CAPS[0]}")


@pytest.fixture
def told(relative, monkeypatch, caplog):
    """Let the probe say what the test wants, as if OpenVINO had not been used yet and no cap were set.

    In truth it runs already, under the cap of conftest.py: tests live on machines that need it, too.
    """
    relative.opened("openvino")
    monkeypatch.delenv(ISA, raising=False)
    monkeypatch.setattr(probing, "_openvino_is_running", lambda: False)
    caplog.set_level(logging.WARNING, "powerbert")

    def say(verdict):
        monkeypatch.setattr(registry, "probe", lambda engine, precision: verdict)
        return caplog

    return say


@pytest.mark.parametrize(
    ("verdict", "why"), [(DEAD, "does not run on this machine (died with SIGILL)"), (SLOW, "slower than fp32")]
)
def test_bf16_that_crashes_or_is_slower_is_replaced_by_fp32_and_told(relative, told, verdict, why):
    log = told(verdict)
    assert open_engine(relative.made("openvino"), precision="bf16").precision == "fp32"
    assert len(log.messages) == 1
    assert log.messages[0].startswith("bf16 in openvino")
    assert why in log.messages[0]


def test_bf16_that_is_faster_is_left_alone(relative, told):
    log = told(replace(SLOW, ratio=1.2))
    assert open_engine(relative.made("openvino"), precision="bf16").precision == "bf16"
    assert log.messages == []


def test_bf16_beside_int8_that_is_slower_is_replaced_by_int8(relative, told, monkeypatch):
    log = told(replace(SLOW, precision="int8+bf16"))
    fast = Verdict("openvino", "int8", WORKS, 90.0, 2.0)
    slow = registry.probe
    monkeypatch.setattr(registry, "probe", lambda *pair: fast if pair[1] == "int8" else slow(*pair))
    assert open_engine(relative.made("openvino", "int8"), precision="int8+bf16").precision == "int8"
    assert [line.partition(" is ")[0] for line in log.messages] == ["int8+bf16 in openvino"]


def test_int8_that_crashes_is_refused_in_one_line_with_the_remedy(relative, told):
    told(replace(DEAD, engine="onnx", precision="int8"))
    with pytest.raises(PowerBertError, match=r"int8 in onnx does not run.*SIGILL.*export the model in fp32"):
        open_engine(relative.made("onnx", "int8"))


def test_int8_that_is_slower_is_told_and_used(relative, told):
    log = told(replace(SLOW, engine="onnx", precision="int8"))
    assert open_engine(relative.made("onnx", "int8")).precision == "int8"
    assert "int8 in onnx is slower than fp32" in log.messages[0]


def test_a_cap_is_set_and_told_before_the_engine_is_loaded(relative, told, monkeypatch):
    log = told(SAVED)
    seen = []
    load = registry.OpenVinoEngine.load
    monkeypatch.setattr(
        registry.OpenVinoEngine, "load", lambda *given: seen.append(os.environ.get(ISA)) or load(*given)
    )
    assert open_engine(relative.made("openvino", "int8")).precision == "int8"
    assert seen == [CAPS[0]]
    assert f"{ISA}={CAPS[0]} is set" in log.messages[0]


@pytest.mark.parametrize("ratio", [3.0, 0.5])
def test_a_cap_that_comes_too_late_is_no_crash(relative, told, monkeypatch, ratio):
    """oneDNN reads its limit once; this process has used OpenVINO, so setting it now would do nothing."""
    log = told(replace(SAVED, ratio=ratio))
    monkeypatch.setattr(probing, "_openvino_is_running", lambda: True)
    with pytest.raises(PowerBertError, match=f"needs {ISA}={CAPS[0]} in the environment before Python"):
        open_engine(relative.made("openvino", "int8"))
    assert open_engine(relative.made("openvino"), precision="bf16").precision == "fp32"
    assert len(log.messages) == 1
    assert ISA not in os.environ


def test_nothing_is_probed_for_fp32_nor_for_what_is_not_in_the_folder(relative, told, monkeypatch):
    monkeypatch.setattr(registry, "probe", lambda *given: pytest.fail("probed"))
    monkeypatch.setattr(probing, "processor", lambda: ("plain", "avx2 avx512f"))
    monkeypatch.setattr(probing, "probe", lambda *given: pytest.fail("probed"))
    for engine in ("onnx", "openvino"):
        assert open_engine(relative.made(engine)).precision == "fp32"
        with pytest.raises(PowerBertError, match="export the model again in int8"):
            open_engine(relative.made(engine), precision="int8")


def test_where_amx_is_claimed_the_first_openvino_engine_settles_the_cap(relative, told, monkeypatch):
    """int8 may follow fp32 in the same process, and then it would be too late."""
    monkeypatch.setattr(probing, "processor", lambda: ("pretender", "avx512f amx_tile amx_int8"))
    monkeypatch.setattr(probing, "probe", lambda *given: SAVED)
    assert open_engine(relative.made("openvino")).precision == "fp32"
    assert os.environ[ISA] == CAPS[0]


MADE = {"onnx": ("onnx",), "openvino": ("openvino",), "an export by auto": ("onnx",), "named": ("openvino", "int8")}


@pytest.mark.parametrize("how", ["torch", "saved, by auto", *MADE])
def test_every_file_of_a_folder_is_hashed_once(relative, tmp_path, monkeypatch, how):
    """The oracle is the list of files that were hashed."""
    folder = tmp_path / "saved"
    if how in MADE:
        folder = relative.made(*MADE[how])
    else:
        powerbert.save(relative.model, relative.tokenizer, folder)
    hashed, digest = [], manifest.digest
    monkeypatch.setattr(manifest, "digest", lambda path: hashed.append(path.name) or digest(path))
    monkeypatch.setattr(auto, "open_arms", lambda *given: {"torch": auto.Arms(relative.torch, None)})
    monkeypatch.setattr(auto, "calibrate", lambda arms: ())
    monkeypatch.setattr(auto, "choose", lambda timings: auto.Choice("torch", None, ()))
    if how.endswith("auto"):
        auto.open_auto(folder)
    else:
        open_engine(folder, *(MADE[how] if how == "named" else ()))
    assert hashed
    assert sorted(hashed) == sorted(set(hashed))

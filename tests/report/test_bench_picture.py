"""A benchmark as a picture. Oracle: what matplotlib holds of the figure."""

from __future__ import annotations

from matplotlib.figure import Figure

from powerbert.report.bench_picture import _bars, _curve, bench_picture

ENGINES = [
    ("stock", "fp32"), ("torch", "fp32"), ("onnx", "fp32"), ("onnx", "int8"),
    ("openvino", "fp32"), ("openvino", "int8"), ("openvino", "bf16"),
]  # fmt: skip
POINTS = [
    {"engine": engine, "precision": precision, "model": "full", "length": length, "batch": 8}
    | {"ms_per_input": length / 8}
    for engine, precision in ENGINES
    for length in (32, 64)
]
ARM = {"engine": "torch", "precision": "fp32", "feed": "sorted", "batch": 8, "model": "full"}
FIGURES = {
    "arms": [ARM | {"inputs_per_second": 12.0}],
    "texts": 48,
    "mean_length": 20.0,
    "warning": None,
    "by_length": POINTS,
}


def test_every_engine_has_a_mark_of_its_own():
    axes = Figure().add_subplot()
    marks = _curve(axes, "length", POINTS)
    assert [mark.get_label() for mark in marks] == [f"{engine} {precision}" for engine, precision in ENGINES]
    assert len({mark.get_marker() for mark in marks}) == len(ENGINES)
    assert axes.get_title(loc="left") == "Milliseconds per input, in batches of 8"


def test_a_busy_machine_is_told_in_the_picture():
    for warning in (None, "other processes used 17 % of the machine"):
        axes = Figure().add_subplot()
        _bars(axes, FIGURES["arms"], FIGURES | {"warning": warning})
        assert axes.get_xlabel() == (warning or "")


def test_the_picture_is_a_png():
    assert bench_picture(FIGURES).startswith(b"\x89PNG")

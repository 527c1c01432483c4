"""Pictures: that of r against its own pixels, that of a benchmark against what matplotlib holds of it."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys

import numpy
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread

from powerbert.errors import MissingExtraError, RetentionError
from powerbert.report import pictures as picture
from powerbert.report.pictures import _bars, _curve, _numbers, _percent, _rank_ticks, bench_picture, retention_picture
from powerbert.report.style import BLUE, DEGREES, DPI
from powerbert.retention import RetentionConfiguration

RELATIVE = RetentionConfiguration.relative((0.75, 0.25))
HALVES = [[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
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


def pixels(parameters, retention, title="MRPC"):
    return imread(io.BytesIO(retention_picture(parameters, retention, title)))[..., :3]


def row_of(image, encoder):
    """The pixels of an encoder's row from rank 0 to 1, away from the white lines between rows."""
    y = (picture.TOP + picture.ROW * (encoder - 0.5)) * DPI
    left = picture.LEFT * DPI
    return image[round(y), round(left) : round(left + picture.RANKS_WIDTH * DPI)]


def near(colours, name, tolerance=0.03):
    return (numpy.abs(colours - numpy.array(to_rgb(name))) < tolerance).all(axis=-1)


def test_encoder_1_is_on_top_and_colour_is_r():
    image = pixels(HALVES, RELATIVE)
    first, second = row_of(image, 1), row_of(image, 2)
    for row, ones in ((first, 2), (second, 1)):
        for bin_, dark in enumerate([True] * ones + [False] * (4 - ones)):
            cell = row[round((bin_ + 0.5) / 4 * len(row))]
            assert near(cell, DEGREES[-1 if dark else 0]), (bin_, cell)


def test_the_line_stands_at_the_retained_share_of_each_encoder():
    image = pixels(HALVES, RELATIVE)
    for encoder, share in enumerate(RELATIVE.fractions, 1):
        row = row_of(image, encoder)
        where = numpy.flatnonzero(near(row, BLUE))
        assert where.mean() / len(row) == pytest.approx(share, abs=0.005)


def test_a_rank_counts_as_a_whole_cell_and_cls_is_held_at_1():
    """Of N = 4 ranks encoder 2 retains one, CLS, although its parameter has decayed to 0."""
    retention = RetentionConfiguration.absolute((3, 1), max_length=4)
    row = row_of(pixels([[0.0, 1.0, 1.0, 0.0], [0.0] * 4], retention), 2)
    assert near(row[len(row) // 8], DEGREES[-1])
    assert near(row[len(row) * 7 // 8], DEGREES[0])
    where = numpy.flatnonzero(near(row, BLUE))
    assert where.mean() / len(row) == pytest.approx(1 / 4, abs=0.005)


def test_the_numbers_are_the_retained_length_and_the_mass():
    """By hand; a mass that rises with depth is told although the configuration may not rise."""
    relative = RetentionConfiguration.relative((0.5, 0.5))
    assert _numbers([[1.0, 0.0], [1.0, 0.5]], relative) == [("50 %", "50 %"), ("50 %", "75 %")]
    absolute = RetentionConfiguration.absolute((2, 1), max_length=3)
    assert _numbers([[1.0, 0.5, 0.25], [1.0, 0.0, 0.0]], absolute) == [("2", "1.8"), ("1", "1.0")]


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (0.0001, "<1 %"), (0.01, "1 %"), (0.726, "73 %"), (0.9999, ">99 %"), (1, "100 %")]
)
def test_a_share_is_0_or_100_percent_only_where_it_is(share, text):
    assert _percent(share) == text


@pytest.mark.parametrize("size", [1, 2, 3, 11, 12, 64, 100, 128, 200, 256, 500, 512])
def test_rank_ticks_hold_the_first_and_the_last_rank_and_do_not_crowd(size):
    ticks = _rank_ticks(size)
    assert ticks[0] == 1
    assert ticks[-1] == size
    assert len(ticks) <= 14
    assert size < 12 or ticks[-1] - ticks[-2] >= size / 30


def test_every_encoder_adds_one_row_of_the_same_height():
    heights = [len(pixels([[1.0]] * encoders, RetentionConfiguration.full(encoders))) for encoders in (1, 6, 24)]
    assert heights[1] - heights[0] == pytest.approx(5 * picture.ROW * DPI, abs=1)
    assert heights[2] - heights[1] == pytest.approx(18 * picture.ROW * DPI, abs=1)


def test_colours_get_ever_darker_so_that_they_read_without_hue():
    light = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in map(to_rgb, DEGREES)]
    assert light == sorted(light, reverse=True)
    assert min(a - b for a, b in itertools.pairwise(light)) > 0.05


def test_the_same_input_gives_the_same_bytes():
    assert retention_picture(HALVES, RELATIVE, "a") == retention_picture(HALVES, RELATIVE, "a")
    assert retention_picture(HALVES, RELATIVE, "a") != retention_picture(HALVES, RELATIVE, "b")


@pytest.mark.parametrize("title", ["", "a $b^{ and \\frac", "x" * 5000, "two\nlines\x1b[31m"])
def test_any_title_stays_on_its_line(title):
    """Nothing but paper right of the numbers, and the same height as ever."""
    image = pixels(HALVES, RELATIVE, title)
    assert image.shape == pixels(HALVES, RELATIVE, "MRPC").shape
    assert near(image[:, -round(DPI * 0.2) :], "white").all()


@pytest.mark.parametrize(
    ("parameters", "retention", "says"),
    [
        ([[1.0]], RELATIVE, "2 rows"),
        ([], RELATIVE, "2 rows"),
        ([[1.0], [1.0, 1.0]], RELATIVE, "one width"),
        ([[], []], RELATIVE, "one width"),
        ([[1.0], [1.5]], RELATIVE, "encoder 2"),
        ([[float("nan")], [1.0]], RELATIVE, "encoder 1"),
        ([[1.0, 1.0]], RetentionConfiguration.absolute([2], max_length=3), "N is 3"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_in_one_line(parameters, retention, says):
    with pytest.raises(RetentionError, match=says) as error:
        retention_picture(parameters, retention, "")
    assert "\n" not in str(error.value)


def test_without_matplotlib_the_pip_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError) as error:
        retention_picture(HALVES, RELATIVE, "")
    assert 'pip install "powerbert[train]"' in str(error.value)


def test_importing_needs_no_matplotlib_and_drawing_no_pyplot():
    """In a fresh interpreter, because other tests may have imported both."""
    code = (
        "import sys\n"
        "from powerbert.report.pictures import retention_picture\n"
        "from powerbert.retention import RetentionConfiguration\n"
        "assert 'matplotlib' not in sys.modules\n"
        "retention_picture([[1.0]], RetentionConfiguration.full(1), '')\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


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

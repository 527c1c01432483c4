"""The style of pictures. Oracle: the files themselves, and the luminance of colours by its formula."""

from __future__ import annotations

import sys
from itertools import combinations

import pytest
from matplotlib.colors import to_rgb

from powerbert.errors import MissingExtraError
from powerbert.report.style import DEGREES, SERIES, drawing, label, legend, png, svg


def drawn(*size, made=png, **more):
    with drawing(*size, **more) as figure:
        axes = figure.add_subplot()
        axes.plot([1, 2], [3, 4], label="$1 and $2")
        label(axes, "what", "encoder", "seconds (s)")
        return made(figure)


@pytest.mark.parametrize(("made", "start"), [(png, b"\x89PNG"), (svg, b"<?xml")])
def test_equal_figures_are_equal_bytes(made, start):
    first, second = (drawn(2, 1, made=made, dpi=50) for _ in range(2))
    assert first == second
    assert first.startswith(start)
    assert b"<dc:date>" not in first


def test_a_picture_has_the_size_that_was_asked_for():
    found = drawn(2, 1, dpi=50)
    assert (int.from_bytes(found[16:20]), int.from_bytes(found[20:24])) == (100, 50)


def test_axes_say_what_they_show_and_the_legend_covers_nothing():
    with drawing(6, 4, layout="constrained") as figure:
        axes = figure.add_subplot()
        axes.plot([1, 2], [3, 4], label="a line")
        label(axes, "what", "encoder", "seconds (s)")
        legend(figure)
        png(figure)
        (names,) = figure.legends
        assert names.get_window_extent().y1 < axes.get_window_extent().y0
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("encoder", "seconds (s)")
    assert axes.get_title(loc="left") == "what"


def luminance(colour):
    """Of WCAG 2: what remains of a colour in grey print."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_series_differ_in_lightness_and_degrees_grow_darker():
    assert min(contrast(one, other) for one, other in combinations(SERIES, 2)) > 1.5
    shades = [luminance(colour) for colour in DEGREES]
    assert shades == sorted(shades, reverse=True)


def test_without_matplotlib_no_picture_is_begun(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r'pip install "powerbert\[train\]"'):
        drawn(2, 1, dpi=50)

"""What the pictures share. Oracle: the bytes of the file, and matplotlib gone."""

from __future__ import annotations

import sys

import pytest

from powerbert.errors import MissingExtraError
from powerbert.report.style import new_figure, png


def test_equal_figures_are_equal_bytes_of_the_size_that_was_asked_for():
    first, second = (png(new_figure(2, 1, dpi=50)) for _ in range(2))
    assert first == second
    assert first.startswith(b"\x89PNG")
    assert (int.from_bytes(first[16:20]), int.from_bytes(first[20:24])) == (100, 50)


def test_without_matplotlib_the_pip_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r'pip install "powerbert\[train\]"'):
        new_figure(2, 1, dpi=50)

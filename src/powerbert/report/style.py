"""The one style of all pictures: colours, sizes, axes, and files that are the same to the byte.

Series differ in lightness and in their mark as well as in hue, so that they are told apart in grey print and by the
colour-blind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

from powerbert.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, TRACK = "#1f1c16", "#6a6353", "#ece7db"
BLUE = "#0b5394"  # what is retained, and the model that eliminates
AMBER, RUST = "#f6ac2a", "#c0690c"
PALE = "#b9b2a3"  # what others are compared with
SERIES = (BLUE, RUST, AMBER, INK)
"""Colours of lines and bars beside one another, in order; with `MARKS` for lines."""
DEGREES = ("#fdfaf3", "#fde3b0", "#f6ac2a", "#c0690c", "#743700")  # from 0 to 1, ever darker
MARKS = "osD^vP*X"
WIDE = (7.2, 4.2)  # inches of a picture with one panel: a column of print at half its size
DPI = 160
SMALL, NORMAL, LARGE = 8.5, 10.0, 12.0  # points of type: beside what is drawn, of axes, of the title

# The font comes with matplotlib, so a picture is the same everywhere; no title is a formula.
_RULES = {"font.family": "DejaVu Sans", "text.parse_math": False}


@contextmanager
def drawing(width: float, height: float, dpi: int = DPI, **more: Any) -> Iterator[Figure]:
    """An empty white figure; matplotlib is imported when a picture is drawn, not before, and without pyplot."""
    figure = require("matplotlib.figure", "train").Figure
    with require("matplotlib", "train").rc_context(_RULES):
        yield figure(figsize=(width, height), dpi=dpi, facecolor="white", **more)


def png(figure: Figure) -> bytes:
    """The figure as a file; no version inside: equal pictures, equal bytes."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=figure.dpi, bbox_inches=None, metadata={"Software": None})
    return file.getvalue()


def svg(figure: Figure) -> bytes:
    """The figure as a drawing for print, letters as outlines; no date inside: equal pictures, equal bytes."""
    file = BytesIO()
    with require("matplotlib", "train").rc_context({"svg.hashsalt": "powerbert"}):
        figure.savefig(file, format="svg", bbox_inches=None, metadata={"Date": None, "Creator": None})
    return file.getvalue()


def plain(axes: Axes) -> None:
    """No frame, and only what is needed to read a value."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(PALE)
    axes.tick_params(colors=MUTED, labelcolor=INK, labelsize=SMALL, length=3)


def legend(figure: Figure) -> None:
    """Name what is drawn below the axes, where it covers nothing; the layout of the figure is constrained."""
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles,
        names,
        loc="outside lower center",
        ncols=4 if len(names) <= 4 else 3,
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
    )


def label(axes: Axes, title: str, across: str, upwards: str) -> None:
    """Say what is drawn, and what stands on both axes, each with its unit."""
    plain(axes)
    axes.set_title(title, loc="left", fontsize=LARGE, color=INK, weight="bold", pad=12)
    axes.set_xlabel(across, fontsize=NORMAL, color=MUTED)
    axes.set_ylabel(upwards, fontsize=NORMAL, color=MUTED)

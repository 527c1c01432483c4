"""What the pictures share: colours, and a figure that is drawn without a screen."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from powerbert.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, MUTED, TRACK = "#1f1c16", "#6a6353", "#ece7db"
BLUE = "#0b5394"
"""What is retained, and the model that eliminates."""
FONT = "DejaVu Sans"
"""Comes with matplotlib, so a picture is the same everywhere."""


def new_figure(width: float, height: float, dpi: int, **more: Any) -> Figure:
    """An empty white figure; matplotlib is imported when a picture is drawn, not before."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("a picture needs matplotlib", remedy='pip install "powerbert[train]"') from None
    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white", **more)
    FigureCanvasAgg(figure)  # without pyplot
    return figure


def png(figure: Figure) -> bytes:
    """The figure as a file; no version inside: equal pictures, equal bytes."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=figure.dpi, bbox_inches=None, metadata={"Software": None})
    return file.getvalue()

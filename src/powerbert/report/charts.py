"""Charts without a script or a picture: HTML bars and an SVG scatter.

Places are in percent and text is text, so that a chart fits any width and follows the page's colours. Whatever is
told apart by colour is told apart by shape or by words as well. All text is escaped here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

MARK = "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z"  # a circle


@dataclass(frozen=True)
class BarRow:
    """A row of bars: what it is, a share of the track for each bar in it, and what stands beside them."""

    name: str
    shares: tuple[float, ...]
    text: str
    out: bool = False  # left out: an empty, dashed track


def bars(rows: Sequence[BarRow], heading: str) -> str:
    """A table of bars under one heading for those who hear it; the second bar of a row is the accelerated one."""
    return (
        f'<table class="bars"><caption>{escape(heading)}</caption><tbody>{"".join(map(_bar_row, rows))}</tbody></table>'
    )


def _bar_row(bar: BarRow) -> str:
    fills = "".join(f'<i style="width:{100 * min(max(share, 0), 1):.2f}%"></i>' for share in bar.shares)
    return (
        f'<tr class="{"out" if bar.out else "in"}"><th scope="row">{escape(bar.name)}</th>'
        f'<td class="track" aria-hidden="true"><div>{fills}</div></td><td>{escape(bar.text)}</td></tr>'
    )


@dataclass(frozen=True)
class Point:
    """A place in a scatter, with the words that it shows when pointed at."""

    x: float
    y: float
    text: str
    name: str = ""  # written beside it, and its class; such a point is drawn large


@dataclass(frozen=True)
class Limit:
    """A line that a goal draws, at a height `y` or a place `x`; what is on its good side is tinted."""

    text: str
    x: float | None = None
    y: float | None = None


class _Scale:
    """From a value to percent of the width or height."""

    def __init__(self, values: Sequence[float], room: float, start: float | None = None) -> None:
        low, high = min(values) if start is None else start, max(values)
        spare = room * (high - low or abs(high) or 1.0)
        self.low, self.high = low - spare if start is None else start, high + spare

    def __call__(self, value: float) -> float:
        return 100 * (value - self.low) / (self.high - self.low)

    def ticks(self, about: int = 5) -> list[float]:
        """Round values within the scale, about so many."""
        rough = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = min((size * power for size in (1, 2, 5, 10)), key=lambda size: abs(size - rough))
        return [step * k for k in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def scatter(points: Sequence[Point], limit: Limit | None, across: str, upwards: str) -> str:
    """Points, the larger ones last; the axis `across` starts at 0, the other one at what is shown."""
    lines = [limit] if limit else []
    x = _Scale([*(point.x for point in points), *(line.x for line in lines if line.x is not None)], 0.08, start=0.0)
    y = _Scale([*(point.y for point in points), *(line.y for line in lines if line.y is not None)], 0.12)
    drawn = "".join(
        f'<line class="grid" x1="0" x2="100%" y1="{100 - y(tick):.2f}%" y2="{100 - y(tick):.2f}%"/>'
        f'<text class="tick" x="-8" y="{100 - y(tick):.2f}%" dy="4" text-anchor="end">{tick:g}</text>'
        for tick in map(_clean, y.ticks())
    )
    drawn += "".join(
        f'<text class="tick" x="{x(tick):.2f}%" y="100%" dy="18" text-anchor="middle">{tick:g}</text>'
        for tick in map(_clean, x.ticks())
    )
    drawn += "".join(_limit(line, x, y) for line in lines)
    drawn += "".join(_point(point, x, y) for point in sorted(points, key=lambda point: bool(point.name)))
    return (
        f'<figure class="plot"><p class="axis">{escape(upwards)}</p>'
        f'<svg class="scatter" width="100%" height="320" role="img" aria-label="{escape(upwards)} against '
        f'{escape(across)}, {len(points)} points">{drawn}</svg><p class="axis across">{escape(across)}</p></figure>'
    )


def _clean(value: float) -> float:
    """Without what binary fractions add: 0.1 * 3 is 0.3."""
    return round(value, 9)


def _limit(limit: Limit, x: _Scale, y: _Scale) -> str:
    if limit.y is not None:
        at, words = f"{100 - y(limit.y):.2f}%", escape(limit.text)
        return (
            f'<rect class="within" width="100%" height="{at}"/><line class="limit" x1="0" x2="100%" y1="{at}" '
            f'y2="{at}"/><text class="limit" x="6" y="{at}" dy="-6">{words}</text>'
        )
    at, end = f"{x(limit.x or 0):.2f}%", x(limit.x or 0) > 60
    return (
        f'<rect class="within" width="{at}" height="100%"/><line class="limit" x1="{at}" x2="{at}" y1="0" y2="100%"/>'
        f'<text class="limit" x="{at}" y="100%" dx="{-6 if end else 6}" dy="-8" '
        f'text-anchor="{"end" if end else "start"}">{escape(limit.text)}</text>'
    )


def _point(point: Point, x: _Scale, y: _Scale) -> str:
    """Its name stands above it, below it near the top, and before it near the right end."""
    name = ""
    if point.name:
        above = f'y="{26 if y(point.y) > 88 else -14}" text-anchor="{"start" if x(point.x) < 15 else "middle"}"'
        where = 'x="-17" y="5" text-anchor="end"' if x(point.x) > 75 else above
        name = f"<text {where}>{escape(point.name)}</text>"
    return (
        f'<svg class="{escape(point.name or "tried")}" x="{x(point.x):.2f}%" y="{100 - y(point.y):.2f}%">'
        f'<title>{escape(point.text)}</title><path d="{MARK}" transform="scale({1.6 if point.name else 1:g})"/>'
        f"{name}</svg>"
    )

"""Charts: places against plain arithmetic, ticks against what makes a number round."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.report.charts import BarRow, Limit, Point, _Scale, bars, scatter

VALUES = st.lists(st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 3)), min_size=1, max_size=8)


def marks(html):
    """Class and place of every point, as it is drawn: (class, percent from the left, percent from the top)."""
    found = re.findall(r'<svg class="(\w+)" x="([-\d.]+)%" y="([-\d.]+)%">', html)
    return [(style, float(x), float(y)) for style, x, y in found]


@given(VALUES)
def test_a_scale_holds_all_values_in_their_order(values):
    scale = _Scale(values, 0.1)
    places = [scale(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(0 < place < 100 for place in places)


@given(VALUES)
def test_ticks_are_few_round_and_within(values):
    scale = _Scale(values, 0.1)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 12
    assert all(scale.low <= tick <= scale.high for tick in ticks)
    steps = {f"{after - before:.6g}" for before, after in itertools.pairwise(ticks)}
    assert all(re.fullmatch(r"[125]", step.replace(".", "").split("e")[0].strip("0")) for step in steps)


def test_points_stand_where_their_values_are_and_named_ones_are_drawn_last():
    points = [Point(10, 90, "a", "chosen"), Point(5, 80, "b"), Point(0, 85, "c")]
    drawn = marks(scatter(points, None, "time", "metric"))
    assert [style for style, _, _ in drawn] == ["tried", "tried", "chosen"]
    (_, half, low), (_, left, middle), (_, whole, high) = drawn
    assert left == 0  # the axis starts at 0
    assert whole == pytest.approx(2 * half, abs=0.02)
    assert low - middle == pytest.approx(middle - high, abs=0.02)


def test_a_limit_widens_the_picture_and_tints_its_good_side():
    points = [Point(10, 90, "a")]
    by_height = scatter(points, Limit("at least", y=50), "time", "metric")
    height = float(re.search(r'class="within" width="100%" height="([\d.]+)%"', by_height).group(1))
    assert marks(by_height)[0][2] < height < 100
    by_time = scatter(points, Limit("at most", x=40), "time", "metric")
    width = float(re.search(r'class="within" width="([\d.]+)%" height="100%"', by_time).group(1))
    assert marks(by_time)[0][1] < width < 100


def test_bars_are_as_long_as_their_shares_and_never_longer_than_the_track():
    html = bars([BarRow("1", (0.5, 1.7), "a"), BarRow("2", (-1.0,), "b", out=True)], "heading")
    assert re.findall(r"width:([\d.]+)%", html) == ["50.00", "100.00", "0.00"]
    assert html.count('class="out"') == 1
    assert "<caption>heading</caption>" in html


def test_text_is_escaped():
    evil = '"><b>'
    point, bar = Point(1, 1, evil, evil), BarRow(evil, (1,), evil)
    html = scatter([point], Limit(evil, y=0), evil, evil) + bars([bar], evil)
    assert "<b>" not in html
    assert html.count("&quot;&gt;&lt;b&gt;") == 4 + 1 + 3 + 3  # axes twice, limit, point, bars

"""The picture of a comparison. Oracle: the numbers that matplotlib was given."""

from __future__ import annotations

import pytest

from powerbert.report.pictures import drawing
from powerbert.studies.pareto_picture import PANEL, draw_pareto, pareto_size


def figures(seeds: int = 2):
    points = []
    for engine, precision, factor in (("torch", "fp32", 1.0), ("openvino", "int8", 0.4)):
        for method, times in (("fine-tuned", [10]), ("PoWER-BERT", [6, 2, 4]), ("DistilBERT", [3, 5])):
            for ms in times:
                values = [0.5 + ms / 40 + 0.01 * seed for seed in range(seeds)]
                one = {"method": method, "point": str(ms), "engine": engine, "precision": precision}
                points.append(one | {"ms": factor * ms, "values": values, "mean": sum(values) / seeds})
    return {"task": "CoLA", "metric": "matthews", "points": points}


def test_a_panel_for_each_precision_with_lines_in_the_order_of_time():
    with drawing(9, 4, dpi=50) as figure:
        draw_pareto(figure, figures())
        first, second = figure.axes
        assert [axes.get_title(loc="left") for axes in figure.axes] == ["fp32, torch", "int8, openvino"]
        lines = {line.get_label(): line for line in first.get_lines()}
        assert lines["PoWER-BERT"].get_xdata().tolist() == [2, 4, 6]
        assert lines["PoWER-BERT"].get_ydata() == pytest.approx([55.5, 60.5, 65.5])
        assert lines["fine-tuned"].get_xdata().tolist() == [10]
        assert second.get_lines()[-1].get_xdata() == pytest.approx([1.2, 2.0])
        band = first.collections[0].get_paths()[0].vertices[:, 1]
        assert (min(band), max(band)) == pytest.approx((55.0, 66.0))
        assert len(first.collections) == 2
        marks = [line.get_marker() for line in lines.values() if line.get_label()[0] != "_"]
        assert len({*marks}) == 3


def test_every_panel_has_room():
    both = figures(1)
    one = {**both, "points": [point for point in both["points"] if point["precision"] == "fp32"]}
    assert pareto_size(both)[0] - pareto_size(one)[0] == pytest.approx(PANEL)

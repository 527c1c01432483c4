"""Groups of flags refuse what they cannot be. Oracle: the message, and that nothing else was needed."""

from __future__ import annotations

import pytest

from powerbert.cli.flags import BenchFlags, Columns, ExplainFlags, Figures, Reported, TrainingData, asked_retention
from powerbert.errors import PowerBertError


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Figures(json="nowhere/a.json"), "the folder of --json does not exist"),
        (lambda: Columns(max_length=0), "--max-length is too small; got 0; N is at least 8"),  # was: as if not given
        (lambda: Columns(max_length=-1), "--max-length is too small"),
        (lambda: TrainingData(max_length=7), "--max-length is too small"),
        (lambda: BenchFlags(model="m"), "which texts"),
        (lambda: BenchFlags(model="m", texts="t", data="d"), "not both"),
        (lambda: BenchFlags(model="m", texts="t", batches="1,none"), "--batches"),
        (lambda: BenchFlags(model="m", texts="t", batches="²"), "--batches"),
        (lambda: BenchFlags(model="m", texts="t", rounds=0), "--rounds"),
        (lambda: Reported(budgets="half"), "--budgets"),
        (lambda: ExplainFlags(text="t", model="m", max_length=8), "--max-length belongs to counts"),
        (lambda: asked_retention("9,8", None), "counts need the length N"),
    ],
)
def test_a_group_refuses_in_one_line(make, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PowerBertError, match=says) as error:
        make()
    assert "\n" not in str(error.value)


def test_defaults_of_a_benchmark_are_few_and_thorough_has_more():
    assert BenchFlags(model="m", texts="t").batch_sizes() == [1, 32]
    assert BenchFlags(model="m", texts="t", thorough=True).batch_sizes() == [1, 8, 32]
    assert BenchFlags(model="m", texts="t", thorough=True, batches="4").batch_sizes() == [4]


def test_a_dash_leaves_standard_output_to_the_figures():
    assert Figures().shows
    assert not Figures(json="-").shows

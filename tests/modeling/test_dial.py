"""A dial in powerbert.json: what it carries, the rules it keeps, and the plan of a graph for all of its budgets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.errors import PowerBertError
from powerbert.folders.manifest import Manifest, folder_digest, read_manifest
from powerbert.modeling.apply import retention_of
from powerbert.modeling.dial import at_budget, by_depth, check_dial, covering, dial_in, dial_to_json

OWN = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.1))
DIAL = {
    "2x": RetentionConfiguration.relative((0.7, 0.5, 0.2, 0.1)),
    "3x": RetentionConfiguration.relative((0.5, 0.3, 0, 0)),
}
ENTRY = {"budget": "2x", "retention": OWN.to_json()}


def refusal(call, *arguments):
    with pytest.raises(PowerBertError) as error:
        call(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_dial_is_saved_with_the_model_and_changes_nothing_of_what_load_gives(tmp_path):
    model = powerbert.apply(tiny("bert"), OWN)
    powerbert.save(model, tokenizer_for(), tmp_path / "plain")
    powerbert.save(model, tokenizer_for(), tmp_path / "dial", dial=DIAL)
    written = json.loads((tmp_path / "dial" / "powerbert.json").read_text())["dial"]
    assert written == [{"budget": name, "retention": each.to_json()} for name, each in DIAL.items()]
    assert dial_in(tmp_path, read_manifest(tmp_path / "dial"), OWN) == DIAL
    assert dial_in(tmp_path, read_manifest(tmp_path / "plain"), OWN) == {}
    assert retention_of(powerbert.load(tmp_path / "dial")[0]) == OWN
    assert folder_digest(tmp_path / "dial") == folder_digest(tmp_path / "plain")


WRONG = {
    "no elimination": (DIAL, None),
    "another depth": ({"2x": RetentionConfiguration.relative((0.5,))}, OWN),
    "counts": ({"2x": RetentionConfiguration.absolute((9, 8, 7, 6), 40)}, OWN),
    "counts of its own": (DIAL, RetentionConfiguration.absolute((9, 8, 7, 6), 40)),
    "no configuration": ({"2x": "0.9,0.6,0.4,0.1"}, OWN),
    "no name": ({"": OWN}, OWN),
    "a blank name": ({" ": OWN}, OWN),
    "a long name": ({"x" * 33: OWN}, OWN),
    "a number": ({2: OWN}, OWN),
    "an escape": ({"\x1b[2J": OWN}, OWN),
    "too many": ({f"{i}x": OWN for i in range(17)}, OWN),
}


@pytest.mark.parametrize(("dial", "own"), WRONG.values(), ids=WRONG)
def test_a_dial_that_breaks_a_rule_is_neither_written_nor_read(dial, own, tmp_path):
    refusal(check_dial, dial, own)
    model = tiny("bert") if own is None else powerbert.apply(tiny("bert"), own)
    with pytest.raises(PowerBertError):
        powerbert.save(model, tokenizer_for(), tmp_path / "model", dial=dial)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "entries",
    [None, {}, "2x", [None], [{}], [ENTRY | {"more": 1}], [ENTRY, ENTRY], [ENTRY | {"budget": 2}], [ENTRY] * 17,
     [ENTRY | {"retention": [0.5]}], [ENTRY | {"retention": {"kind": "relative", "fractions": [0.5]}}]],
    ids=str,
)  # fmt: skip
def test_a_dial_of_another_shape_is_refused_in_one_line(entries):
    refusal(dial_in, Path("folder"), Manifest(dial=entries), OWN)


def test_a_budget_is_found_by_its_name_and_others_are_told_the_known_ones():
    assert at_budget(DIAL, "3x") == DIAL["3x"]
    assert "2x, 3x" in refusal(at_budget, DIAL, "40x")
    assert "2x, 3x" in refusal(at_budget, DIAL, 2)
    assert "no dial" in refusal(at_budget, {}, "2x")
    assert dial_to_json({}) == []


def test_a_number_of_times_without_a_name_is_the_mildest_configuration_that_saves_as_much():
    rungs = [RetentionConfiguration.relative((1.0, share, share, 0.0)) for share in (0.9, 0.4, 0.2)]
    dial = {"1.43x": rungs[0], "2.22x": rungs[1], "2.86x": rungs[2]}
    assert at_budget(dial, "1x") == at_budget(dial, "1.4x") == rungs[0]
    assert at_budget(dial, "2x") == rungs[1]
    assert at_budget(dial, "2.5x") == rungs[2]
    for asked in ("3x", "x", "-1x", "2 x", "nanx", "0x", "\u0661x"):
        assert "1.43x, 2.22x, 2.86x" in refusal(at_budget, dial, asked)


@st.composite
def several(draw):
    """Configurations of one model that run equally many encoders."""
    encoders, left_out = draw(st.integers(1, 6)), draw(st.integers(0, 2))
    rows = st.lists(st.integers(1, 4), min_size=encoders, max_size=encoders).map(lambda row: sorted(row, reverse=True))
    values = draw(st.lists(rows, min_size=1, max_size=4))
    return [RetentionConfiguration.relative([value / 4 for value in row] + [0] * left_out) for row in values]


@given(several())
def test_what_covers_configurations_falls_where_one_of_them_falls_and_nowhere_else(configurations):
    cover = covering(configurations)
    assert (len(cover), cover.depth) == (len(configurations[0]), configurations[0].depth)
    for j in range(cover.depth):
        falls = [each.values[j] < (each.values[j - 1] if j else 10_000) for each in configurations]
        assert (cover.values[j] < (cover.values[j - 1] if j else 10_000)) == any(falls)


def test_budgets_that_run_equally_many_encoders_stand_together_and_none_twice():
    assert by_depth(OWN, {}) == by_depth(None, {}) == {}
    dial = {**DIAL, "same": OWN, "also 3x": DIAL["3x"]}
    assert by_depth(OWN, dial) == {4: [OWN, DIAL["2x"]], 2: [DIAL["3x"]]}

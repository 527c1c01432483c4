"""Flags of the commands that answer: what they refuse. Oracle: the message, and that nothing else was needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.cli.answering import Answering, ScoreFlags, ServeFlags, with_addresses
from powerbert.errors import PowerBertError


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Answering(model="m", budget="2x", retention="0.5"), "--budget"),
        (lambda: ScoreFlags(model="m", data="d"), "where do the answers go"),
        (lambda: ScoreFlags(model="m", target="o"), "what is to be answered"),
        (lambda: ScoreFlags(model="m", source="a", data="b", target="o"), "IN and --data are one thing"),
        (lambda: ScoreFlags(model="m", source="a", target="o", on_error="stop"), "unknown --on-error"),
        (lambda: ScoreFlags(model="m", source="a", target="o", ray="nowhere"), "--ray is not an address"),
        (lambda: ScoreFlags(model="m", source="a", target="-", json="-"), "both ask for standard output"),
        (lambda: ServeFlags(model="m", queue=2, max_inputs=3), "does not fit into the queue"),
        (lambda: ServeFlags(model="m", host="0.0.0.0"), "key"),
    ],
)
def test_a_group_refuses_in_one_line(make, says, monkeypatch):
    monkeypatch.delenv("POWERBERT_API_KEY", raising=False)
    with pytest.raises(PowerBertError, match=says) as error:
        make()
    assert "\n" not in str(error.value)


@given(st.lists(st.sampled_from(["--ray", "auto", "host:6379", "in.csv", "--model", "m"])))
def test_a_bare_ray_gets_an_address_and_nothing_else_changes(arguments):
    found = with_addresses(arguments)
    for this, then, made in zip(arguments, [*arguments, ""][1:], found, strict=True):
        assert made == ("--ray=local" if this == "--ray" and then not in ("auto", "host:6379") else this)

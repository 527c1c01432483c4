"""Tables as a terminal of a given width shows them."""

from __future__ import annotations

import io
import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from powerbert.report.tables import WIDEST_BAR, arms_table, efficiency_table, headline_table, retention_table
from powerbert.retention import SCALE, RetentionConfiguration


def shown(retention, width=80, file=None, **options):
    file = file or io.StringIO()
    Console(file=file, width=width, highlight=False, **options).print(retention_table(retention))
    return file.getvalue() if isinstance(file, io.StringIO) else ""


def rows(text):
    """The lines below the header, as (encoders, retains, bar)."""
    return [re.fullmatch(r" *(\S+) +(\S+(?: %)?) +(\S+)", line).groups() for line in text.splitlines()[2:]]


def test_an_encoder_that_is_left_out_is_said_to_be():
    assert "left out" in shown(RetentionConfiguration.relative((1.0, 0.5, 0.0)))


def test_shares_of_the_inputs_own_length():
    text = shown(RetentionConfiguration.relative((1.0, 0.5, 0.5, 0.0625)))
    assert text.splitlines()[0].split() == ["encoder", "retains", "of", "the", "input's", "own", "length"]
    assert rows(text) == [
        ("1", "100.00 %", "█" * 40),
        ("2-3", "50.00 %", "█" * 20 + "░" * 20),
        ("4", "6.25 %", "█" * 2 + "░" * 38),
    ]


def test_counts_of_n():
    text = shown(RetentionConfiguration.absolute((96, 1), max_length=128))
    assert text.splitlines()[0].split() == ["encoder", "retains", "of", "N=128"]
    assert rows(text) == [("1", "96", "█" * 30 + "░" * 10), ("2", "1", "█" + "░" * 39)]


values = st.lists(st.integers(1, SCALE), min_size=1, max_size=24).map(lambda some: sorted(some, reverse=True))


@given(values, st.booleans(), st.sampled_from([40, 80, 200]))
def test_rows_tell_the_configuration_within_the_width(entries, relative, width):
    """Expand the rows again; a bar is empty for no encoder, and full only where all is retained."""
    retention = RetentionConfiguration(tuple(entries), None if relative else SCALE)
    text = shown(retention, width)
    assert max(map(cell_len, text.splitlines())) <= min(width, 80)
    found = []
    for encoders, retains, bar in rows("\n".join(text.splitlines()[-len(set(entries)) - 2 :])):
        first, _, last = encoders.partition("-")
        value = round(float(retains.removesuffix(" %")) * (100 if relative else 1))
        assert set(bar) <= {"█", "░"}
        assert len(bar) <= WIDEST_BAR
        assert bar[0] == "█"
        assert (bar[-1] == "█") == (value == SCALE)
        found += [value] * (int(last or first) - int(first) + 1)
    assert tuple(found) == retention.values


def test_piped_rows_do_not_end_in_spaces_and_have_no_escapes():
    text = shown(RetentionConfiguration.relative((0.9, 0.1)))
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines()[1:])


def test_a_terminal_without_unicode_gets_ascii():
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    shown(RetentionConfiguration.relative((0.5,)), file=file)
    file.flush()
    assert b"#" * 20 + b"." * 20 in file.buffer.getvalue()


def test_no_color_is_honoured_and_the_bar_still_tells(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(RetentionConfiguration.relative((0.5,)), force_terminal=True)
    assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|9[0-7])", text)
    assert "█" * 20 in text
    assert "░" * 20 in text


def test_no_table_of_a_benchmark_is_cut_on_80_columns():
    """The longest names and numbers that a benchmark has; a cut one would end in an ellipsis."""
    arm = {"model": "eliminated", "engine": "openvino", "precision": "int8", "feed": "dynamic", "batch": 128}
    arm |= {"inputs_per_second": 12345.6, "spread": 1.25, "p95_ms": 12345.6, "gflop": 12345.6}
    arm |= {"share_of_peak": 1.25, "extra_memory_mb": 1234.5}
    row = {"arm": "openvino int8 dynamic 128 eliminated", "baseline": "openvino int8 dynamic 128 full"}
    row |= {"ratio": 12.345, "against": "stock transformers, batches padded to their longest"}
    point = {"engine": "openvino", "precision": "int8", "length": 512, "batch": 128, "model": "eliminated"}
    point |= {"speed_up": 12.345, "flop_ratio": 12.345, "efficiency": 1.234, "against_stock": 12.345}
    mean = {"stock fp32 fixed 128 full": 2.0, "torch fp32 fixed 128 eliminated": 1.0}
    figures = {"texts": 64, "mean_length": 20.0, "rounds": 3, "headline": [row], "arms": [arm]}
    figures |= {"paper": {"batch": 128, "length": 128, "runs": 100, "mean_seconds": mean, "ratio": 2.0}}
    figures |= {"by_length": [point], "by_batch": [point]}
    for table in (arms_table, headline_table, efficiency_table):
        file = io.StringIO()
        Console(file=file, width=80).print(table(figures))
        assert "…" not in file.getvalue()
        assert "openvino int8" in file.getvalue()
        assert max(map(cell_len, file.getvalue().splitlines())) <= 80

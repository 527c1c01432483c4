"""Errors are one line, and nothing in them steers a terminal."""

from __future__ import annotations

import pytest

from powerbert.errors import DataError, ExportError, ModelFolderError, PowerBertError, one_line, printable

HOSTILE = {
    "a title and a colour": "\x1b]0;pwned\x07\x1b[31mred",
    "a bell": "\x07",
    "a C1 sequence": "\x9b31m",
    "an override of direction": "\u202egnp.exe",
    "isolates and marks": "\u2066a\u2069\u200f\u061c",
    "a backspace": "safe\x08\x08\x08\x08evil",
    "a surrogate": "\udcff",
    "a line separator": "a\u2028b",
    "a null": "\x00",
}
PLAIN = "Straße, 東京, नमस्ते, می‌خواهم, עברית, 👩‍👩‍👧, e\u0301, naïve"


def steers(text: str) -> bool:
    """Spelled out, unlike the rule it checks: C0, DEL, C1, overrides of direction, surrogates."""
    return any(
        code < 32
        or 0x7F <= code < 0xA0
        or code in (0x61C, 0x200E, 0x200F, 0x2028, 0x2029)
        or 0x202A <= code <= 0x202E
        or 0x2066 <= code <= 0x2069
        or 0xD800 <= code < 0xE000
        for code in map(ord, text)
    )


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_in_a_message_steers_a_terminal(text: str) -> None:
    error = DataError(f"unknown label {text}", got=text, rule=f"one of {text}", remedy=text)
    assert steers(text)
    assert not steers(str(error))
    assert not steers(str(PowerBertError("what", got=[text])))
    assert not steers(printable(text))


def test_normal_text_stays() -> None:
    assert printable(PLAIN) == PLAIN
    assert str(PowerBertError(PLAIN)) == PLAIN
    assert printable("two\n\tlines") == "two\n\tlines"
    assert str(PowerBertError("two\n\tlines")) == "two lines"


def test_what_fails_is_told_in_one_line_of_the_kind_asked_for() -> None:
    message = r"^it failed; got 'OSError: disk full'; try again$"
    with pytest.raises(ModelFolderError, match=message), one_line("it failed", "try again"):
        raise OSError("disk\nfull")
    with pytest.raises(ExportError), one_line("it failed", kind=ExportError):
        raise ValueError
    with pytest.raises(DataError, match="ours"), one_line("it failed"):
        raise DataError("ours")
    with pytest.raises(MemoryError), one_line("it failed"):
        raise MemoryError

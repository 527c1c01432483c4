"""Who is served without a key, where a key comes from, and how errors are told."""

from __future__ import annotations

import pytest

from powerbert.errors import PowerBertError
from powerbert.serving.limits import KEY, RequestError, is_loopback, read_key, refused


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv(KEY, raising=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_this_machine_alone_needs_no_key(host):
    assert is_loopback(host)
    assert read_key(None, host) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "localhost.example.org", ""])
def test_any_other_address_is_refused_without_a_key(host, monkeypatch):
    with pytest.raises(PowerBertError, match=KEY):
        read_key(None, host)
    monkeypatch.setenv(KEY, "sesame")
    assert read_key(None, host) == "sesame"


def test_a_key_file_wins_over_the_environment_and_is_stripped(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY, "sesame")
    (tmp_path / "key").write_text("open-wide\n")
    assert read_key(str(tmp_path / "key"), "0.0.0.0") == "open-wide"


@pytest.mark.parametrize("key", ["", " ", "two words", "schlüssel", "a\x00b", "x" * 1001])
def test_what_cannot_be_a_key_is_refused_and_not_told(key, tmp_path):
    (tmp_path / "key").write_text(key, encoding="utf-8")
    with pytest.raises(PowerBertError) as refusal:
        read_key(str(tmp_path / "key"), "127.0.0.1")
    assert "is not an API key" in str(refusal.value)
    assert "words" not in str(refusal.value)


def test_a_key_file_that_is_not_there_or_not_text_is_one_line(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("missing", "binary", "."):
        with pytest.raises(PowerBertError, match="cannot be read"):
            read_key(str(tmp_path / name), "127.0.0.1")


def test_an_error_has_a_status_a_kind_and_says_when_to_ask_again():
    assert [RequestError(status, "x", "y").retry for status in (400, 429, 503, 504)] == [None, 1, 1, None]
    assert (refused("a").status, refused("a").kind, refused("a", status=413).status) == (422, "validation", 413)

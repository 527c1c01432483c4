"""The gate: keys, counting, and requests that never arrive. Oracle: plain sockets."""

from __future__ import annotations

import base64
import socket
import time
from contextlib import contextmanager, suppress

import httpx
import pytest
from servers import HeldEngine, running

from powerbert.serving.app import Service
from powerbert.serving.gate import error_body, has_key
from powerbert.serving.limits import ServeLimits, refused


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with a key that waits for a request for 0.4 seconds."""
    service = Service(HeldEngine(), tmp_path_factory.mktemp("gate"), limits=ServeLimits(sending=0.4))
    with running(service, key="sesame") as address:
        yield address


@contextmanager
def connected(address):
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        yield connection


def told(connection):
    """All that a server says until it closes the connection, and the seconds that took."""
    start, said = time.perf_counter(), b""
    while part := connection.recv(4096):
        said += part
    return said, time.perf_counter() - start


def basic(text):
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("given", ["Bearer sesame", "bearer sesame", basic(":sesame"), basic("anybody:sesame")])
def test_the_key_opens(given):
    assert has_key([(b"authorization", given.encode())], "sesame")


@pytest.mark.parametrize(
    "given", ["", "sesame", "Bearer", "Bearer sesam", "Bearer sesame2", basic("sesame:"), "Basic %%%", basic("é:ü")]
)
def test_anything_else_does_not(given):
    assert not has_key([(b"authorization", given.encode())], "sesame")
    assert not has_key([], "sesame")


def test_every_route_but_health_asks_for_the_key(guarded):
    assert httpx.get(f"{guarded}/health").status_code == 200
    for path in ("/", "/info", "/metrics", "/docs", "/openapi.json", "/nothing"):
        answer = httpx.get(guarded + path)
        assert answer.status_code == 401
        assert answer.json()["error_type"] == "unauthorized"
        assert "Basic" in answer.headers["www-authenticate"]
    assert httpx.post(f"{guarded}/predict", json={"inputs": "good"}).status_code == 401
    key = {"authorization": "Bearer sesame"}
    assert httpx.post(f"{guarded}/predict", json={"inputs": "good"}, headers=key).status_code == 200
    assert httpx.get(guarded, auth=("", "sesame")).status_code == 200


def test_strangers_cannot_make_many_counters(guarded):
    key = {"authorization": "Bearer sesame"}
    for name in "abc":
        assert httpx.get(f"{guarded}/{name}", headers=key).status_code == 404
    said = httpx.get(f"{guarded}/metrics", headers=key).text
    assert 'route="other",status="404"' in said
    assert 'route="/a"' not in said


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"POST /predict HT",
        b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-len",
        b"POST /predict HTTP/1.1\r\nhost: a\r\nauthorization: Bearer sesame\r\ncontent-length: 100\r\n\r\n{",
    ],
)
def test_a_request_that_stops_half_way_is_cut(guarded, begun, caplog):
    with connected(guarded) as connection:
        connection.sendall(begun)
        said, seconds = told(connection)
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b'"error_type": "timeout"' in said
    assert 0.2 < seconds < 5
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []  # no traceback of ours


def test_a_byte_now_and_then_gains_nothing(guarded):
    with connected(guarded) as connection:
        connection.settimeout(0.05)
        start, said = time.perf_counter(), b""
        while not said:
            assert time.perf_counter() - start < 5
            connection.sendall(b"x")
            with suppress(TimeoutError):
                said = connection.recv(4096)
    assert said.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("request_", [b"nonsense\r\n\r\n", b"GET /?" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"])
def test_what_is_no_http_is_a_typed_400(guarded, request_):
    with connected(guarded) as connection:
        connection.sendall(request_)
        said, _ = told(connection)
    assert said.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b'"error_type": "validation"' in said


def test_a_connection_stays_open_between_requests_and_the_next_one_has_its_own_clock(guarded):
    request = b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n"
    with connected(guarded) as connection:
        for _ in range(2):
            connection.sendall(request)
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
            time.sleep(0.6)
        connection.sendall(request[:9])
        assert told(connection)[0].startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("body", [None, b"", b"{"])
def test_a_request_whose_beginning_comes_with_the_last_one_is_cut_too(guarded, body):
    """Its head has been read by then: nothing of it waits any more, and it would hold its place for ever."""
    request = b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n"
    head = b"POST /predict HTTP/1.1\r\nhost: a\r\nauthorization: Bearer sesame\r\ncontent-length: 14\r\n\r\n"
    with connected(guarded) as connection:
        connection.sendall(request + (request[:9] if body is None else head + body))
        said, _ = told(connection)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in said


def test_an_error_is_told_as_tei_does():
    assert error_body(refused("no", got=1)) == {"error": "no; got 1", "error_type": "validation"}

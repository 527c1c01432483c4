"""Listening and stopping. Oracle: sockets."""

from __future__ import annotations

import socket
import threading
import time

import httpx
import pytest
from servers import HeldEngine

from powerbert.errors import PowerBertError
from powerbert.serving.app import Service, make_api
from powerbert.serving.server import address_of, bind, make_server


def test_an_address_is_taken_but_refuses_until_the_server_runs():
    with bind("127.0.0.1", 0) as bound:
        address = address_of(bound)
        assert address.startswith("http://127.0.0.1:")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(bound.getsockname(), timeout=5)


def test_an_address_that_cannot_be_had_is_one_line():
    with bind("127.0.0.1", 0) as bound:
        bound.listen()
        for host, port in (
            bound.getsockname(),
            ("256.1.1.1", 1),
            ("127.0.0.1", 70_000),
            ("192.0.2.1", 8080),
            ("é" * 300, 1),
        ):
            with pytest.raises(PowerBertError, match="cannot be served") as refusal:
                bind(host, port)
            assert "\n" not in str(refusal.value)


def test_a_server_that_stops_refuses_what_is_new_and_answers_what_is_there(tmp_path):
    engine = HeldEngine()
    service = Service(engine, tmp_path)
    server, bound = make_server(make_api(service), service.limits), bind("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    engine.go.clear()
    answers = []

    def ask():
        answers.append(httpx.post(f"{address_of(bound)}/predict", json={"inputs": "good"}, timeout=30))

    address, asking = address_of(bound), threading.Thread(target=ask)
    asking.start()
    assert engine.entered.wait(30)
    server.should_exit = True
    for _ in range(500):
        try:
            httpx.get(f"{address}/health", timeout=1)
        except httpx.TransportError:
            break
        time.sleep(0.01)
    else:
        raise AssertionError("it still takes requests")
    assert thread.is_alive()
    engine.go.set()
    thread.join(30)
    asking.join(30)
    assert [answer.status_code for answer in answers] == [200]
    assert not service.batcher._thread.is_alive()


def test_a_client_that_keeps_its_connection_is_told_that_it_ends_before_it_is_closed(tmp_path):
    service = Service(HeldEngine(), tmp_path)
    server, bound = make_server(make_api(service), service.limits), bind("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    with httpx.Client(base_url=address_of(bound), timeout=30) as client:
        assert "connection" not in client.get("/health").headers
        server.should_exit = True
        time.sleep(0.3)  # the server looks every tenth of a second
        answer = client.post("/predict", json={"inputs": "good"})  # on the connection that was at rest
    assert (answer.status_code, answer.headers["connection"]) == (200, "close")
    thread.join(30)
    assert not thread.is_alive()

"""What stands before the routes: the key, the clock, and an end to requests that never arrive."""

import asyncio
import base64
import binascii
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, ClassVar

import h11
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from powerbert.serving.limits import RequestError
from powerbert.serving.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

CLOSING, LINGER = (b"connection", b"close"), 1.0  # seconds that a connection at rest has left once the server stops
OPEN = "/health"  # needs no key: who may knock may know that somebody is in


class Gate:
    """Lets requests with the key pass, and counts all of them."""

    def __init__(self, app: Asgi, *, key: str | None, metrics: Metrics, routes: frozenset[str]) -> None:
        self.app, self._key, self._metrics, self._routes = app, key, metrics, routes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status = time.perf_counter(), 499  # a client that goes away gets no status

        async def sending(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            if self._key is None or scope["path"] == OPEN or has_key(scope["headers"], self._key):
                await self.app(scope, receive, sending)
            else:
                await _refuse(sending)
        finally:
            route = scope["path"] if scope["path"] in self._routes else "other"  # paths of strangers are many
            self._metrics.answered(route, status, time.perf_counter() - start)


def has_key(headers: list[tuple[bytes, bytes]], key: str) -> bool:
    """Whether a request bears the key: as a bearer, or as the password that a browser asks a person for."""
    scheme, _, given = dict(headers).get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"basic":
        try:
            given = base64.b64decode(given, validate=True).partition(b":")[2]
        except binascii.Error:
            return False
    elif scheme.lower() != b"bearer":
        return False
    return hmac.compare_digest(given.strip(), key.encode())


def error_body(error: RequestError) -> dict[str, str]:
    """An error as Text Embeddings Inference says it."""
    return {"error": str(error), "error_type": error.kind}


async def _refuse(send: Send) -> None:
    error = RequestError(401, "unauthorized", "the API key is missing or wrong", rule="Authorization: Bearer KEY")
    content = json.dumps(error_body(error)).encode()
    asks = [(b"www-authenticate", b"Bearer"), (b"www-authenticate", b'Basic realm="powerbert"')]
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode()), *asks]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


class CuttingProtocol(H11Protocol):
    """Ends a connection whose request has not arrived in time; uvicorn itself would wait for ever.

    The clock runs from the first byte, or from the connection, to the last byte of the body: a client that sends
    a byte now and then gains nothing by it.
    """

    seconds: ClassVar[float]
    _clock: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.trailing_data[0] or self.conn.their_state is h11.SEND_BODY:
            self._look()  # the beginning of the next request, or its whole head, came with the last one

    @override
    def shutdown(self) -> None:
        """Tell the client with its next answer that the connection ends: one at rest may just be sending."""
        told = self.server_state.default_headers
        if CLOSING not in told:
            self.server_state.default_headers = told = [*told, CLOSING]
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(LINGER, self._leave)
        else:
            self.cycle.default_headers = told
            self._leave()

    def _leave(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Start the clock while a request is arriving, and stop it once it is here."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop()
        elif self._clock is None:
            self._clock = self.loop.call_later(self.seconds, self._cut)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _cut(self) -> None:
        self._end(RequestError(408, "timeout", "the request took too long to arrive", rule=f"{self.seconds:g} s"))

    @override
    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is told as everything else is."""
        self._end(RequestError(400, "validation", "the request is not HTTP, or its head is too long"))

    def _end(self, error: RequestError) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE, h11.ERROR):  # else an answer is on its way
            content = json.dumps(error_body(error)).encode()
            head = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\ncontent-type: application/json\r\n"
            length = f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
            self.transport.write((head + length).encode() + content)
        self.transport.close()

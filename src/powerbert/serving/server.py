"""Listening: a socket that is bound before the model is loaded, and a server that ends well."""

import signal
import socket

import uvicorn
from fastapi import FastAPI

from powerbert.errors import PowerBertError
from powerbert.serving.gate import CuttingProtocol
from powerbert.serving.limits import ServeLimits

MAX_PORT = 65_535
HEAD = 65_536  # bytes of the first lines of a request: the page has its text in the address
IDLE = 75  # seconds that a connection may stay open between two requests


def bind(host: str, port: int) -> socket.socket:
    """Take the address; whoever asks before the server runs is refused, and does not wait."""
    try:
        if port > MAX_PORT:  # the system would take its lowest bits for it
            raise OverflowError(f"a port is at most {MAX_PORT}")
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, OverflowError, UnicodeError) as error:  # a name may be too long to be one
        raise PowerBertError("the address cannot be served", got=f"{host}:{port}", rule=str(error)) from error
    return bound


def address_of(bound: socket.socket) -> str:
    """The address that a person opens."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if bound.family == socket.AF_INET6 else host}:{port}"


def make_server(app: FastAPI, limits: ServeLimits) -> uvicorn.Server:
    """A server that cuts off who sends too slowly; told to stop it refuses what is new and answers what is there."""

    class Protocol(CuttingProtocol):
        seconds = limits.sending

    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        log_config=None,
        access_log=False,  # a text may stand in an address
        server_header=False,
        h11_max_incomplete_event_size=HEAD,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=int(limits.deadline + limits.sending) + 1,
    )
    return uvicorn.Server(config)


def run_server(server: uvicorn.Server, bound: socket.socket) -> None:
    """Serve until a signal ends it."""
    # Once it has stopped uvicorn raises the signal again, which would end the process as if it had failed.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    server.run(sockets=[bound])

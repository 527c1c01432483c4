"""What a server takes, whom it answers, and how it says no. Nothing heavy is imported: the flags ask here too."""

import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from powerbert.errors import PowerBertError

KEY = "POWERBERT_API_KEY"  # the environment variable
MAX_KEY = 1000  # characters; a key file is a line, not a model


@dataclass(frozen=True)
class ServeLimits:
    """What one request may cost, and all of them together."""

    body: int = 2_000_000  # bytes of a request, as in TEI
    inputs: int = 128  # of a request
    characters: int = 100_000  # of an input
    word_vectors: int = 1024
    """Of a batch at encoder 1. A CPU is busy with a few hundred; a larger batch only lets its inputs wait longer."""
    waiting: int = 512  # inputs of all requests that are not being computed yet
    deadline: float = 30.0  # seconds from a request that was read to its answer
    sending: float = 10.0  # seconds that a client may take to send a request


class RequestError(PowerBertError):
    """A request that gets no answer: its status in HTTP, and its kind as Text Embeddings Inference names it."""

    def __init__(self, status: int, kind: str, what: str, *, got: object = None, rule: str = "") -> None:
        super().__init__(what, got=got, rule=rule)
        self.status, self.kind = status, kind

    @property
    def retry(self) -> int | None:
        """Seconds after which it is worth asking again; None where it never is."""
        return 1 if self.status in (429, 503) else None


def refused(what: str, *, got: object = None, rule: str = "", status: int = 422) -> RequestError:
    """A request that is not what a route takes."""
    return RequestError(status, "validation", what, got=got, rule=rule)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_key(file: str | None, host: str) -> str | None:
    """The API key of the file, else of the environment; an address that others can reach needs one."""
    key, home = os.environ.get(KEY), KEY
    if file is not None:
        home = "--api-key-file"
        try:
            with Path(file).open(encoding="utf-8") as opened:
                key = opened.read(MAX_KEY + 1).strip()
        except (OSError, ValueError) as error:
            raise PowerBertError(f"{home} cannot be read", got=file, rule=str(error)) from error
    if key is None:
        if not is_loopback(host):
            remedy = f"set {KEY}, give --api-key-file FILE, or leave out --host"
            raise PowerBertError("an address that others can reach needs an API key", got=host, remedy=remedy)
        return None
    if not (1 <= len(key) <= MAX_KEY and key.isascii() and key.isprintable() and " " not in key):
        rule = f"1 to {MAX_KEY} ASCII characters without a space"
        raise PowerBertError(f"{home} is not an API key", rule=rule)  # what it is instead stays untold
    return key

"""A LitServe server of a folder in its own engine, for serve_load.py: batches of requests, collected for a stated time.

    python benchmarks/serve_litserve.py FOLDER PORT

A file of its own, because LitServe starts processes that import the class.
"""

from __future__ import annotations

import sys
from typing import Any

import litserve

from powerbert.engines.classifier import Classifier
from powerbert.engines.open import open_engine
from powerbert.machine.describe import choose_threads

BATCH, WAIT = 32, 0.01  # requests of a batch, and seconds to wait for them


class Api(litserve.LitAPI):  # type: ignore[misc]
    """The same route and answers as the other arms."""

    def setup(self, device: str) -> None:
        """Load the model in the process that runs it."""
        self.classify = Classifier(open_engine(sys.argv[1], threads=choose_threads()[0]))

    def decode_request(self, request: dict[str, str]) -> str:
        """The text."""
        return request["inputs"]

    def predict(self, texts: list[str]) -> Any:
        """Labels and scores of a batch."""
        return self.classify(texts, top_k=None)

    def encode_response(self, output: Any) -> Any:
        """As they are."""
        return output


if __name__ == "__main__":
    api = Api(max_batch_size=BATCH, batch_timeout=WAIT)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False, log_level="warning")

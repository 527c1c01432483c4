"""What a server tells Prometheus."""

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from powerbert.serving.batcher import Ran

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters of one server; many may live in a process, as in tests."""

    def __init__(self, encoders: int) -> None:
        self._encoders, self.registry = encoders, CollectorRegistry()
        own: Any = {"registry": self.registry}
        self._requests = Counter("powerbert_requests", "Requests by route and status", ["route", "status"], **own)
        self._seconds = Histogram("powerbert_request_seconds", "Time to answer", ["route"], buckets=_SECONDS, **own)
        self._inputs = Counter("powerbert_inputs", "Inputs that were computed", **own)
        self._words = Counter("powerbert_word_vectors", "Word-vectors that all encoders processed", **own)
        self._full = Counter("powerbert_word_vectors_full", "What they would have been without elimination", **own)
        self._rows = Histogram("powerbert_batch_inputs", "Inputs of a batch", buckets=_SIZES, **own)
        self._batches = Histogram("powerbert_batch_seconds", "Time of a batch", buckets=_SECONDS, **own)
        self._waiting = Gauge("powerbert_waiting_inputs", "Inputs that are not being computed yet", **own)

    def watch(self, waiting: Callable[[], float]) -> None:
        """Ask this for the length of the queue."""
        self._waiting.set_function(waiting)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def ran(self, batch: Ran) -> None:
        """Count a batch."""
        self._inputs.inc(len(batch.lengths))
        self._rows.observe(len(batch.lengths))
        self._batches.observe(batch.seconds)
        self._words.inc(batch.word_vectors)
        self._full.inc(self._encoders * sum(batch.lengths))

    def text(self) -> bytes:
        """All of it in Prometheus' format."""
        return generate_latest(self.registry)

"""Batches of like length, formed while the engine is busy.

Requests are tokenised in threads and wait in one queue. One thread runs the engine: whenever it is free it takes the
input that has waited longest, and with it whatever is of like length and fits into the budget of word-vectors.
Nobody waits for a batch to fill, and no length starves: the oldest input is always in the next batch.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from powerbert.engines.answers import tokenise_for
from powerbert.engines.engine import Engine
from powerbert.modeling.dial import at_budget
from powerbert.serving.limits import RequestError, ServeLimits, refused
from powerbert.text.batches import collate, plan_batches
from powerbert.text.tokenise import Row, Text

LIKE, APART = 1.25, 16  # lengths that share a batch: so many times apart at most, or so many word-vectors
EASE = 2  # batches that wait for every step to a smaller budget
TOKENISERS = 2  # threads; what they run releases Python's lock

logger = logging.getLogger(__name__)


class Reply(NamedTuple):
    """The answer to a request."""

    logits: list[list[float]]  # (labels,) of each text, in the order of the texts
    tokens: int
    budget: str | None  # of the dial; None is the model's own
    tokenising: float  # seconds
    queueing: float  # seconds until the last of its texts was taken into a batch
    computing: float  # seconds of the batches that its texts were in


class Ran(NamedTuple):
    """What a batch was."""

    lengths: list[int]
    word_vectors: int  # that all encoders processed
    seconds: float


@dataclass(eq=False)
class _Job:
    """One request on its way."""

    texts: Sequence[Text]
    budget: str | None
    truncate: bool
    future: "Future[Reply]" = field(default_factory=Future)
    logits: list[list[float]] = field(default_factory=list)
    left: int = 0
    tokens: int = 0
    tokenised: float = 0.0
    tokenising: float = 0.0
    queueing: float = 0.0
    computing: float = 0.0

    def fail(self, error: Exception) -> None:
        """Answer with an error, unless nobody waits, or another batch has failed before."""
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)

    def finish(self) -> None:
        """Answer, unless nobody waits or a batch has failed."""
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            times = (self.tokenising, self.queueing, self.computing)
            self.future.set_result(Reply(self.logits, self.tokens, self.budget, *times))


class _Waiting(NamedTuple):
    """One input in the queue."""

    job: _Job
    place: int  # among the texts of its request
    row: Row

    @property
    def length(self) -> int:
        return len(self.row["input_ids"])


def next_batch(lengths: Sequence[int], word_vectors: int) -> list[int]:
    """Of the lengths of waiting inputs, the oldest first, the indices of the next batch; 0 is always one of them."""
    own = lengths[0]
    like = [i for i, length in enumerate(lengths) if max(own, length) <= LIKE * min(own, length) + APART]
    planned = plan_batches([lengths[i] for i in like], word_vectors)
    return [like[i] for i in next(batch for batch in planned if 0 in batch)]


class Batcher:
    """Answers requests of any number of threads with one engine, in batches."""

    def __init__(
        self,
        engine: Engine,
        limits: ServeLimits | None = None,
        *,
        adaptive: bool = False,
        ran: Callable[[Ran], object] = lambda batch: None,
    ) -> None:
        limits = limits or ServeLimits()
        self.engine, self._word_vectors, self._most, self._ran = engine, limits.word_vectors, limits.waiting, ran
        self._pad = engine.tokenizer.pad_token_id
        self._ladder = [None, *smaller_budgets(engine)] if adaptive else [None]
        self._queue: list[_Waiting] = []
        self._coming = 0  # inputs that are being tokenised
        self._closing = False
        self._changed = threading.Condition()
        self._tokenisers = ThreadPoolExecutor(TOKENISERS, "tokenise")
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def warm_up(self) -> None:
        """Answer a short and a long text at every budget, so that no request waits for a graph to be opened."""
        rows = tokenise_for(self.engine, ["a", "a " * self.engine.limits.longest]).rows
        for budget in (None, *self.engine.dial):
            for row in rows:
                self.engine.at(budget).run(collate([row], self._pad))

    def waiting(self) -> int:
        """Inputs that are not being computed yet."""
        return self._coming + len(self._queue)

    def submit(self, texts: Sequence[Text], budget: str | None = None, *, truncate: bool = True) -> "Future[Reply]":
        """Take a request; cancel what comes back where nobody waits for the answer any more.

        budget: of the dial; without one the model's own or, if adaptive, a smaller one while the queue is long.
        truncate: cut a text to what the model reads; otherwise such a text is refused.
        """
        if budget is not None:
            at_budget(self.engine.dial, budget)
        with self._changed:
            if self._closing:
                raise RequestError(503, "unhealthy", "the server is stopping")
            if self.waiting() + len(texts) > self._most:
                self._forget_cancelled()
            if self.waiting() + len(texts) > self._most:
                raise RequestError(429, "overloaded", "too many inputs are waiting", rule=f"at most {self._most}")
            job = _Job(texts, self._eased() if budget is None else budget, truncate, left=len(texts))
            self._coming += len(texts)
            self._tokenisers.submit(self._tokenise, job)  # within the lock: close() waits for what is coming
        return job.future

    def close(self) -> None:
        """Refuse new requests, and return when all that wait are answered."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._tokenisers.shutdown()

    def _eased(self) -> str | None:
        """The budget of a request that asks for none: a step smaller for every few batches that wait."""
        if len(self._ladder) == 1:
            return None
        batches = sum(each.length for each in self._queue) / self._word_vectors
        return self._ladder[min(int(batches / EASE), len(self._ladder) - 1)]

    def _tokenise(self, job: _Job) -> None:
        """Put the texts of a request into the queue."""
        found: list[_Waiting] = []
        try:
            if not job.future.cancelled():
                found = self._rows(job)
        except Exception as error:
            job.fail(error)
        with self._changed:
            self._coming -= len(job.texts)
            self._queue += found
            self._changed.notify_all()

    def _rows(self, job: _Job) -> list[_Waiting]:
        start = time.perf_counter()
        made = tokenise_for(self.engine, job.texts)
        if any(made.cut) and not job.truncate:
            rule = f"at most {self.engine.limits.longest} word pieces, or truncate"
            raise refused(f"input {made.cut.index(True)} is too long", rule=rule, status=413)
        job.logits = [[] for _ in made.rows]
        job.tokens = sum(len(row["input_ids"]) for row in made.rows)
        job.tokenised = time.perf_counter()
        job.tokenising = job.tokenised - start
        return [_Waiting(job, place, row) for place, row in enumerate(made.rows)]

    def _work(self) -> None:
        """Run the engine on one batch after the other; ends when it is told to and nothing waits."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or (self._closing and not self._coming))
                if not self._queue:
                    return
                batch = self._take()
            if batch:
                self._run(batch)

    def _forget_cancelled(self) -> None:
        self._queue = [each for each in self._queue if not each.job.future.done()]

    def _take(self) -> list[_Waiting]:
        """The next batch, out of the queue: all at one budget, and the oldest input among them."""
        self._forget_cancelled()  # a client that went away is not computed for
        if not self._queue:
            return []
        budget = self._queue[0].job.budget
        same = [i for i, each in enumerate(self._queue) if each.job.budget == budget]
        chosen = {same[i] for i in next_batch([self._queue[i].length for i in same], self._word_vectors)}
        batch = [self._queue[i] for i in sorted(chosen)]
        self._queue = [each for i, each in enumerate(self._queue) if i not in chosen]
        return batch

    def _run(self, batch: list[_Waiting]) -> None:
        start, jobs = time.perf_counter(), {each.job for each in batch}
        try:
            engine = self.engine.at(batch[0].job.budget)
            logits = engine.run(collate([each.row for each in batch], self._pad)).logits.tolist()
        except Exception as error:  # whatever an engine raises is the answer to this batch, and to no other
            logger.exception("a batch of %d inputs failed", len(batch))
            for job in jobs:
                job.fail(RequestError(424, "backend", "the engine failed", got=type(error).__name__))
            return
        seconds = time.perf_counter() - start
        for job in jobs:
            job.queueing, job.computing = start - job.tokenised, job.computing + seconds
        for each, row in zip(batch, logits, strict=True):
            each.job.logits[each.place] = row
            each.job.left -= 1
            if not each.job.left:
                each.job.finish()
        lengths = [each.length for each in batch]
        self._ran(Ran(lengths, engine.word_vectors(lengths), seconds))


def smaller_budgets(engine: Engine) -> list[str]:
    """The budgets of the dial that cost less than the model as it is, the largest first."""
    cost = {budget: engine.at(budget).word_vectors([engine.limits.longest]) for budget in engine.dial}
    own = engine.word_vectors([engine.limits.longest])
    return sorted((budget for budget in cost if cost[budget] < own), key=lambda budget: -cost[budget])

"""The routes: those of Text Embeddings Inference, that of Hugging Face's inference API, and a page for people.

Every answer is that of `powerbert.pipeline` to the same text; what is refused is refused with a status and
{"error", "error_type"}.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi_offline import FastAPIOffline
from pydantic import BaseModel

from powerbert import __version__
from powerbert.engines.engine import Engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.modeling.limits import CHOICE
from powerbert.serving.batcher import Batcher, Reply
from powerbert.serving.bodies import Body, InferenceBody, Parameters, PredictBody, RerankBody, characters_of, read_body
from powerbert.serving.gate import Gate, error_body
from powerbert.serving.limits import RequestError, ServeLimits, refused
from powerbert.serving.metrics import Metrics
from powerbert.serving.page import PageForm, Tracer, answer_page, plain_page
from powerbert.text.answers import Label, ranked, scores
from powerbert.text.tokenise import Text

BUDGET_HEADER = "x-powerbert-budget"
SCHEMAS = "#/components/schemas/{model}"  # where the page of the API keeps the shape of a body
GONE = 499  # nobody reads it: the client has closed the connection

Some = TypeVar("Some", bound=Body)


class Prediction(BaseModel):
    """A label and how sure the model is of it."""

    label: str
    score: float


class Rank(BaseModel):
    """A text of the request by its place, and how well it fits."""

    index: int
    score: float
    text: str | None = None


class Failure(BaseModel):
    """Why there is no answer."""

    error: str
    error_type: str


class Service:
    """One engine behind its routes."""

    def __init__(
        self, engine: Engine, folder: str | Path, *, limits: ServeLimits | None = None, adaptive: bool = False
    ) -> None:
        if isinstance(engine, TorchEngine) and type(engine.model).__name__.endswith(CHOICE):
            raise UnsupportedModelError("a multiple-choice model reads several inputs at once", got=str(folder))
        self.engine, self.folder, self.limits = engine, Path(folder), limits or ServeLimits()
        self.metrics, self.tracer = Metrics(engine.encoders), Tracer(engine, self.folder)
        self.batcher, self._active = Batcher(engine, self.limits, adaptive=adaptive, ran=self.metrics.ran), 0
        self.metrics.watch(self.batcher.waiting)

    async def predict(self, request: Request) -> Response:
        """Classify a text, a pair or a batch of them, as Text Embeddings Inference does."""
        start = time.perf_counter()
        async with self._request(request, PredictBody) as (body, texts):
            reply = await self._reply(request, texts, body.budget, truncate=body.truncate is not False)
            found = self._labels(reply, body.function)
            return _answer(found[0] if body.alone else found, reply, texts, start)

    async def rerank(self, request: Request) -> Response:
        """Order texts by how well they fit a query, as Text Embeddings Inference does; for models of one label."""
        start = time.perf_counter()
        async with self._request(request, RerankBody) as (body, texts):
            if len(self.engine.labels) != 1:
                raise RequestError(
                    424, "backend", "the model is not a reranker", got=f"{len(self.engine.labels)} labels"
                )
            reply = await self._reply(request, texts, body.budget, truncate=body.truncate is not False)
            values = [best["score"] for (best,) in self._labels(reply, body.function)]
            order = sorted(range(len(values)), key=lambda i: -values[i])
            given = [{"text": text} if body.return_text else {} for text in body.texts]
            return _answer([{"index": i, "score": values[i]} | given[i] for i in order], reply, texts, start)

    async def infer(self, request: Request) -> Response:
        """Classify a text or a list of them, as Hugging Face's inference API does; a list of lists in any case."""
        start = time.perf_counter()
        async with self._request(request, InferenceBody) as (body, texts):
            asked = body.parameters or Parameters()
            self.engine.function(asked.function_to_apply)  # refuses an unknown one before the work
            reply = await self._reply(request, texts, body.budget)
            return _answer(self._labels(reply, asked.function_to_apply, asked.top_k), reply, texts, start)

    async def page(self, request: Request) -> Response:
        """Try a text: `?text=...&text_pair=...&budget=...`."""
        asked = {name: request.query_params.get(name, "") for name in ("text", "text_pair", "budget")}
        form = PageForm(self.folder.name, list(self.engine.dial), **asked)
        status, page = 200, plain_page(form)
        if form.text.strip():
            try:
                page = await self._tried(request, form)
            except PowerBertError as error:
                status, page = getattr(error, "status", 422), plain_page(form, error)
        return HTMLResponse(page, status, {"cache-control": "no-store"})

    async def _tried(self, request: Request, form: PageForm) -> str:
        if characters_of(form.given) > self.limits.characters:
            raise refused("the text is too long", rule=f"at most {self.limits.characters:,} characters", status=413)
        start = time.perf_counter()
        reply = await self._reply(request, [form.given], form.budget or None)
        seconds = time.perf_counter() - start
        (best,) = self._labels(reply, None, 1)[0]
        found = await asyncio.to_thread(self.tracer, form.given, reply.budget)
        how = f"{self.engine.name} in {self.engine.precision}" + (f", budget {reply.budget}" if reply.budget else "")
        return answer_page(form, best, seconds, how, found)

    async def health(self) -> Response:
        """200 once the model is loaded and warm."""
        return Response(status_code=200)

    async def info(self) -> dict[str, Any]:
        """What is served, in the words of Text Embeddings Inference, and what only this server has."""
        labels, limits = self.engine.labels, self.limits
        kind = "reranker" if len(labels) == 1 else "classifier"
        names = {"id2label": labels, "label2id": {label: i for i, label in labels.items()}}
        return {
            "model_id": self.folder.name,
            "model_dtype": self.engine.precision,
            "model_type": {kind: names},
            "max_concurrent_requests": limits.waiting,
            "max_input_length": self.engine.limits.longest,
            "max_batch_tokens": limits.word_vectors,
            "max_client_batch_size": limits.inputs,
            "auto_truncate": True,
            "version": __version__,
            "engine": self.engine.name,
            "retention": None if self.engine.retention is None else str(self.engine.retention),
            "budgets": list(self.engine.dial),
        }

    async def prometheus(self) -> Response:
        """Counters in Prometheus' format."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @asynccontextmanager
    async def _request(self, request: Request, kind: type[Some]) -> AsyncIterator[tuple[Some, list[Text]]]:
        """Read a body within its limits, while not too many others are being read and answered."""
        if self._active >= self.limits.waiting:
            raise RequestError(429, "overloaded", "too many requests are open", rule=f"at most {self.limits.waiting}")
        self._active += 1
        try:
            yield read_body(await self._content(request), kind, self.limits)
        finally:
            self._active -= 1

    async def _content(self, request: Request) -> bytes:
        most, told, content, more = self.limits.body, request.headers.get("content-length", ""), bytearray(), True
        too_large = refused("the body is too large", rule=f"at most {most:,} bytes", status=413)
        if told.isdecimal() and int(told) > most:
            raise too_large
        while more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise _gone()
            content += message.get("body", b"")
            more = message.get("more_body", False)
            if len(content) > most:
                raise too_large
        return bytes(content)

    async def _reply(self, request: Request, texts: list[Text], budget: str | None, *, truncate: bool = True) -> Reply:
        """The batcher's answer, unless the client goes away or the deadline passes first."""
        coming = asyncio.wrap_future(self.batcher.submit(texts, budget, truncate=truncate))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            ways: set[asyncio.Future[Any]] = {coming, gone}
            done, _ = await asyncio.wait(ways, timeout=self.limits.deadline, return_when=asyncio.FIRST_COMPLETED)
            if coming in done:
                return coming.result()
            if gone in done:
                raise _gone()
            raise RequestError(504, "timeout", "no answer within the deadline", rule=f"{self.limits.deadline:g} s")
        finally:
            coming.cancel()  # what nobody waits for is not computed
            gone.cancel()

    def _labels(self, reply: Reply, function: str | None, top_k: int | None = None) -> list[list[Label]]:
        """Labels and scores of each text, the best first, as the pipeline gives them."""
        chosen = self.engine.function(function)
        found = [scores(logits, chosen) for logits in reply.logits]
        if not all(map(isfinite, (score for row in found for score in row))):
            raise RequestError(424, "backend", "a score is not a number")
        return [ranked(row, self.engine.labels, top_k) for row in found]


def make_api(service: Service, key: str | None = None) -> FastAPI:
    """The application: give it to any ASGI server. It closes the service when it stops.

    key: what every request but /health has to bear.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.batcher.close)

    about = "A classifier with word-vector elimination. Routes of Text Embeddings Inference and of InferenceClient."
    app = FastAPIOffline(title="powerbert", version=__version__, description=about, lifespan=lifespan, redoc_url=None)
    app.router.redirect_slashes = False  # to where the client's own Host says
    statuses = (400, 401, 408, 413, 422, 424, 429, 503, 504)
    failures: dict[int | str, dict[str, Any]] = {status: {"model": Failure} for status in statuses}
    several = list[Prediction] | list[list[Prediction]]
    for path, route, kind, gives in (
        ("/predict", service.predict, PredictBody, several),
        ("/rerank", service.rerank, RerankBody, list[Rank]),
        ("/", service.infer, InferenceBody, list[list[Prediction]]),
        ("/models/{name:path}", service.infer, InferenceBody, list[list[Prediction]]),
    ):
        app.post(path, response_model=gives, responses=failures, openapi_extra=_takes(kind))(route)
    app.get("/", response_class=HTMLResponse)(service.page)
    app.get("/health")(service.health)
    app.head("/health", include_in_schema=False)(service.health)  # some balancers look at the head alone
    app.get("/info")(service.info)
    app.get("/metrics")(service.prometheus)
    for error in (PowerBertError, Exception, 404, 405):
        app.add_exception_handler(error, _failed)
    counted = frozenset(("/", "/predict", "/rerank", "/health", "/info", "/metrics"))
    _describe(app, has_key=key is not None)
    app.add_middleware(Gate, key=key, metrics=service.metrics, routes=counted)
    return app


def _takes(kind: type[Body]) -> dict[str, Any]:
    """What the page of the API says of a body; it is read by `read_body`, which is stricter than FastAPI."""
    reference = {"$ref": SCHEMAS.format(model=kind.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": reference}}}}


def _describe(app: FastAPI, *, has_key: bool) -> None:
    """Add to the page of the API the bodies that FastAPI does not read itself, and the key."""
    page = app.openapi()  # kept by the application, and given to who asks
    for kind in (PredictBody, RerankBody, InferenceBody):
        schema = kind.model_json_schema(ref_template=SCHEMAS)
        page["components"]["schemas"] |= schema.pop("$defs", {}) | {kind.__name__: schema}
    if has_key:
        page["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        page["security"] = [{"key": []}]


async def _failed(request: Request, error: Exception) -> Response:
    """One shape for all that goes wrong; a bug of ours is told as such, and its traceback stays here."""
    allowed = getattr(error, "headers", None)  # of a wrong method: the right ones
    if not isinstance(error, RequestError):
        if status := getattr(error, "status_code", None):
            what = "the route has no such method" if status == 405 else "there is no such route"
            error = refused(what, got=f"{request.method} {request.url.path}", status=status)
        elif isinstance(error, PowerBertError):
            error = refused(str(error))
        else:
            error = RequestError(500, "backend", "the server failed")
    headers = dict(allowed or {}) | ({} if error.retry is None else {"retry-after": str(error.retry)})
    return JSONResponse(error_body(error), error.status, headers)


def _gone() -> RequestError:
    return RequestError(GONE, "gone", "the client went away")


async def _disconnected(request: Request) -> None:
    """Return when the client has gone; the body has been read, so nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer(content: Any, reply: Reply, texts: list[Text], start: float) -> Response:
    """The answer with the headers of Text Embeddings Inference: counts, and times in milliseconds."""
    times = {"total": time.perf_counter() - start, "tokenization": reply.tokenising, "queue": reply.queueing}
    headers = {f"x-{name}-time": f"{1000 * seconds:.0f}" for name, seconds in times.items()}
    headers |= {"x-inference-time": f"{1000 * reply.computing:.0f}", "x-compute-tokens": str(reply.tokens)}
    headers["x-compute-characters"] = str(sum(map(characters_of, texts)))
    if reply.budget is not None:
        headers[BUDGET_HEADER] = quote(reply.budget)  # a header knows ASCII alone
    return JSONResponse(content, headers=headers)

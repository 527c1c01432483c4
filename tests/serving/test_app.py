"""The routes behind a real server. Oracle: `powerbert.pipeline` on the same texts one by one."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from servers import HeldEngine, expected, running, some_texts

import powerbert
from powerbert.engines.engine import Answer
from powerbert.serving.app import BUDGET_HEADER, Service, make_api
from powerbert.serving.limits import ServeLimits

CLOSE = 1e-4


@pytest.fixture(scope="module")
def alone(classifier_folder):
    return powerbert.pipeline(classifier_folder, "torch")


@pytest.fixture
def held(tmp_path):
    """A service that can be held, with narrow limits."""
    limits = ServeLimits(body=2000, inputs=4, characters=100, waiting=4, deadline=0.5, sending=5)
    service = Service(HeldEngine(), tmp_path / "model", limits=limits)
    yield service
    service.engine.go.set()
    service.batcher.close()


def post(address, path, **body):
    return httpx.post(address + path, json=body, timeout=30)


def assert_same(found, known):
    """Labels in the same order, with the same scores."""
    assert [each["label"] for each in found] == [each["label"] for each in known]
    assert [each["score"] for each in found] == pytest.approx([each["score"] for each in known], abs=CLOSE)


def test_predict_answers_as_the_pipeline_in_the_shapes_of_tei(served, alone):
    texts = some_texts(6)
    assert_same(post(served, "/predict", inputs=texts[0]).json(), alone(texts[0], top_k=None))
    batch = post(served, "/predict", inputs=[[text] for text in texts]).json()
    for found, text in zip(batch, texts, strict=True):
        assert_same(found, alone(text, top_k=None))
    pair = {"text": texts[1], "text_pair": texts[2]}
    assert_same(post(served, "/predict", inputs=texts[1:3]).json(), alone(pair, top_k=None))
    mixed = post(served, "/predict", inputs=[texts[1:3], texts[3:4]], raw_scores=True).json()
    for found, one in zip(mixed, (pair, texts[3]), strict=True):
        assert_same(found, alone(one, top_k=None, function_to_apply="none"))


def test_the_headers_are_those_of_tei(served):
    answer = post(served, "/predict", inputs=[["a good film"], ["bad"]])
    assert answer.headers["x-compute-tokens"] == "8"
    assert answer.headers["x-compute-characters"] == "14"
    for name in ("total", "tokenization", "queue", "inference"):
        assert int(answer.headers[f"x-{name}-time"]) >= 0
    assert BUDGET_HEADER not in answer.headers


def test_the_inference_api_answers_lists_of_lists(served, alone):
    text = "the plot was great"
    for path in ("/", "/models/anybody/anything"):
        (found,) = post(served, path, inputs=text).json()
        assert_same(found, alone(text, top_k=None))
    asked = {"top_k": 1, "function_to_apply": "sigmoid"}
    found = post(served, "/", inputs=[text, {"text": text, "text_pair": "bad"}], parameters=asked).json()
    assert_same(found[0], alone(text, top_k=1, function_to_apply="sigmoid"))
    assert_same(found[1], alone({"text": text, "text_pair": "bad"}, top_k=1, function_to_apply="sigmoid"))
    assert post(served, "/", inputs="a", parameters={"function_to_apply": "tanh"}).status_code == 422


def test_inference_client_works_unchanged(served, alone, monkeypatch):
    from huggingface_hub import InferenceClient, constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # it would not even ask this machine
    for client in (InferenceClient(base_url=served), InferenceClient(served)):
        assert_same(client.text_classification("a dull film"), alone("a dull film", top_k=None))
    assert len(client.text_classification("a dull film", top_k=1)) == 1


def test_a_budget_is_that_of_the_pipeline_and_an_unknown_one_is_refused(served, alone):
    text = "it is not good and not bad but very dull"
    for budget in ("2x", "3x"):
        answer = post(served, "/predict", inputs=text, budget=budget)
        assert answer.headers[BUDGET_HEADER] == budget
        assert_same(answer.json(), alone(text, top_k=None, budget=budget))
    answer = post(served, "/predict", inputs=text, budget="9x")
    assert answer.status_code == 422
    assert "the model has 2x, 3x" in answer.json()["error"]


@pytest.mark.parametrize(
    "text", ["[SEP] good [PAD] [CLS]", "", "  ", "é\u0301 مرحبا 👩\u200d👧", "good " * 700, "a\x00b\u202e"]
)
def test_strange_texts_get_the_pipeline_s_answer(served, alone, text):
    assert_same(post(served, "/predict", inputs=text).json(), alone(text, top_k=None))


def test_answers_never_cross_whatever_comes_at_once(served, alone):
    texts = some_texts(48, longest=120)
    known = {text: alone(text, top_k=None) for text in texts}
    with httpx.Client(base_url=served, timeout=60, limits=httpx.Limits(max_connections=32)) as client:

        def ask(number):
            own = [texts[(number * 7 + i) % len(texts)] for i in range(1 + number % 3)]
            found = client.post("/predict", json={"inputs": [[text] for text in own]}).json()
            for labels, text in zip(found, own, strict=True):
                assert_same(labels, known[text])
            return len(found)

        with ThreadPoolExecutor(32) as threads:
            assert sum(threads.map(ask, range(150))) == sum(1 + number % 3 for number in range(150))


def test_a_reranker_sorts_and_its_one_label_is_a_probability_unless_raw(reranker_folder):
    alone = powerbert.pipeline(reranker_folder, "torch")
    query, texts = "good film", ["bad", "the film was good", "very dull", "a great act"]
    known = [alone({"text": query, "text_pair": text})["score"] for text in texts]
    service = Service(powerbert.pipeline(reranker_folder, "torch").engine, reranker_folder)
    with running(service) as address:
        found = post(address, "/rerank", query=query, texts=texts, return_text=True).json()
        assert [each["score"] for each in found] == pytest.approx(sorted(known, reverse=True), abs=CLOSE)
        assert [each["text"] for each in found] == [texts[each["index"]] for each in found]
        assert [each["index"] for each in found] == sorted(range(4), key=lambda i: -known[i])
        assert all(0 < each["score"] < 1 for each in found)
        raw = post(address, "/rerank", query=query, texts=texts, raw_scores=True).json()
        assert [each["index"] for each in raw] == [each["index"] for each in found]
        assert set(raw[0]) == {"index", "score"}
        (own,) = post(address, "/predict", inputs=[query, texts[0]]).json()
        assert own == {"label": "fits", "score": pytest.approx(known[0], abs=CLOSE)}
        assert set(httpx.get(f"{address}/info").json()["model_type"]) == {"reranker"}


def test_a_cross_encoder_ranks_by_what_its_folder_says_of_a_score(reranker_folder, tmp_path):
    """Identity: the scores are the raw ones. Oracle: `powerbert.reranker`."""
    model, tokenizer = powerbert.load(reranker_folder)
    model.config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity"}
    powerbert.save(model, tokenizer, tmp_path / "ranks")
    ours, asked = powerbert.reranker(tmp_path / "ranks"), {"query": "good film", "texts": ["bad", "the film was good"]}
    with running(Service(ours.engine, tmp_path / "ranks")) as address:
        found = post(address, "/rerank", **asked).json()
        assert found == post(address, "/rerank", **asked, raw_scores=True).json()
    known = ours.rank(asked["query"], asked["texts"])
    assert [each["index"] for each in found] == [each["corpus_id"] for each in known]
    assert [each["score"] for each in found] == pytest.approx([each["score"] for each in known], abs=CLOSE)


def test_a_classifier_is_no_reranker(served):
    answer = post(served, "/rerank", query="a", texts=["b"])
    assert (answer.status_code, answer.json()["error_type"]) == (424, "backend")


def test_info_health_metrics_and_the_description_of_the_api(served):
    info = httpx.get(f"{served}/info").json()
    assert info["model_type"]["classifier"]["id2label"] == {"0": "bad", "1": "good"}
    assert (info["max_input_length"], info["budgets"], info["engine"]) == (512, ["2x", "3x"], "torch")
    assert httpx.get(f"{served}/health").content == b""
    assert httpx.head(f"{served}/health").status_code == 200
    assert "powerbert_word_vectors_total" in httpx.get(f"{served}/metrics").text
    paths = httpx.get(f"{served}/openapi.json").json()["paths"]
    assert {"/predict", "/rerank", "/", "/info", "/health", "/metrics"} <= set(paths)
    page = httpx.get(f"{served}/openapi.json").json()
    schema = paths["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    fields = {"inputs", "budget", "truncate", "truncation_direction", "raw_scores"}
    assert set(referred(page, schema["$ref"])["properties"]) == fields
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(page)):
        assert referred(page, reference)["type"] == "object"


def referred(page, reference):
    for name in reference.removeprefix("#/").split("/"):
        page = page[name]
    return page


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"", 400), (b'{"inputs": NaN}', 400), (b'{"inputs": 1}', 422), (b'{"inputs": "a", "x": 1}', 422), (b"[]", 422)],
)
def test_a_wrong_body_is_a_typed_4xx(served, content, status):
    answer = httpx.post(f"{served}/predict", content=content)
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "error_type"}


def test_a_wrong_path_or_method_is_typed_too(served):
    for answer, status in ((httpx.get(f"{served}/predict"), 405), (httpx.post(f"{served}/nothing"), 404)):
        assert (answer.status_code, answer.json()["error_type"]) == (status, "validation")
    assert httpx.get(f"{served}/predict").headers["allow"] == "POST"
    assert httpx.post(f"{served}/predict/", headers={"host": "elsewhere"}).status_code == 404  # and no way there


def test_a_body_that_is_too_large_is_refused_with_and_without_its_length(held):
    with running(held) as address:
        assert post(address, "/predict", inputs="a" * 3000).status_code == 413
        assert httpx.post(f"{address}/predict", content=iter([b" " * 1500] * 2)).status_code == 413
        assert post(address, "/predict", inputs=[["a"]] * 5).status_code == 413
        assert post(address, "/predict", inputs="a" * 101).status_code == 413
        assert post(address, "/predict", inputs="good").status_code == 200


def test_a_full_queue_is_a_429_and_a_deadline_a_504(held):
    with running(held) as address, ThreadPoolExecutor(8) as threads:
        held.engine.go.clear()
        asked = [threads.submit(post, address, "/predict", inputs=[["good"], ["bad"]]) for _ in range(8)]
        answers = [each.result() for each in asked]
        held.engine.go.set()
        assert {answer.status_code for answer in answers} == {429, 504}
        full = next(answer for answer in answers if answer.status_code == 429)
        assert (full.json()["error_type"], full.headers["retry-after"]) == ("overloaded", "1")
        late = next(answer for answer in answers if answer.status_code == 504)
        assert late.json()["error_type"] == "timeout"
        assert post(address, "/predict", inputs="good").status_code == 200  # and all is well again


def test_an_engine_that_fails_or_answers_nonsense_is_a_424(held):
    held.engine.error = RuntimeError("secret")
    with running(held) as address:
        failed = post(address, "/predict", inputs="good")
        assert (failed.status_code, failed.json()["error_type"]) == (424, "backend")
        assert "secret" not in failed.text


def test_a_score_that_is_no_number_is_a_424(held, monkeypatch):
    monkeypatch.setattr(held.engine, "answer", lambda inputs, retained: Answer(np.float32([[np.nan, 0]]), None))
    with running(held) as address:
        for answer in (post(address, "/predict", inputs="good"), post(address, "/", inputs="good")):
            assert (answer.status_code, answer.json()["error"]) == (424, "a score is not a number")
        assert "a score is not a number" in httpx.get(f"{address}/?text=good").text


def ask(service, messages, body=b'{"inputs": "a good film"}'):
    """Call the application itself: what it sends, if after the body these messages come."""
    sent, coming = [], [{"type": "http.request", "body": body, "more_body": False}, *messages]

    async def receive():
        if coming:
            return coming.pop(0)
        return await asyncio.Future()

    async def send(message):
        sent.append(message)

    headers = [(b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": "POST", "path": "/predict", "query_string": b"", "headers": headers}
    asyncio.run(
        make_api(service)(scope | {"raw_path": b"/predict", "root_path": "", "http_version": "1.1"}, receive, send)
    )
    return sent


def test_a_client_that_went_away_is_not_computed_for(held):
    held.engine.go.clear()
    waiting = held.batcher.submit(["bad"])
    assert held.engine.entered.wait(30)
    assert ask(held, [{"type": "http.disconnect"}])[0]["status"] == 499
    held.engine.go.set()
    assert waiting.result(30).logits == [expected(held.engine, "bad")]
    held.batcher.submit(["good"]).result(30)
    assert [lengths for _, lengths, _ in held.engine.batches] == [[3], [3]]
    assert json.loads(ask(held, [])[1]["body"])[0]["label"] == "bad"


def test_a_bug_of_ours_is_told_without_its_traceback(held, monkeypatch):
    monkeypatch.setattr(held.batcher, "submit", lambda *given, **options: 1 / 0)
    with running(held) as address:
        answer = post(address, "/predict", inputs="good")
    assert answer.status_code == 500
    assert answer.json() == {"error": "the server failed", "error_type": "backend"}

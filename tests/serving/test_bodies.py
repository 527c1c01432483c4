"""Bodies as clients send them, and what is no body. Oracle: TEI's and Hugging Face's own descriptions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.serving.bodies import InferenceBody, PredictBody, RerankBody, characters_of, read_body
from powerbert.serving.limits import RequestError, ServeLimits

LIMITS = ServeLimits(inputs=3, characters=20)


def read(data, kind=PredictBody):
    return read_body(json.dumps(data).encode(), kind, LIMITS)


def refusal(content, kind=PredictBody):
    with pytest.raises(RequestError) as caught:
        read_body(content if isinstance(content, bytes) else json.dumps(content).encode(), kind, LIMITS)
    assert "\n" not in str(caught.value)
    json.dumps({"error": str(caught.value)}, ensure_ascii=False).encode()  # can be sent, whatever came
    return caught.value.status, caught.value.kind, str(caught.value)


@pytest.mark.parametrize(
    ("inputs", "texts", "alone"),
    [
        ("a", ["a"], True),
        (["a"], ["a"], True),
        (["a", "b"], [("a", "b")], True),
        ([["a"]], ["a"], False),
        ([["a"], ["b", "c"]], ["a", ("b", "c")], False),
        ("", [""], True),
    ],
)
def test_predict_takes_what_tei_takes(inputs, texts, alone):
    body, found = read({"inputs": inputs})
    assert (found, body.alone, body.truncate, body.function) == (texts, alone, True, None)


def test_predict_and_rerank_take_the_options_of_tei():
    options = {"truncate": False, "raw_scores": True, "truncation_direction": "Right", "budget": "2x"}
    body, _ = read({"inputs": "a"} | options)
    assert (body.truncate, body.function, body.budget) == (False, "none", "2x")
    body, texts = read({"query": "q", "texts": ["a", "b"], "return_text": True} | options, RerankBody)
    assert texts == [("q", "a"), ("q", "b")]
    assert body.return_text


@pytest.mark.parametrize(
    ("inputs", "texts"),
    [
        ("a", ["a"]),
        (["a", "b"], ["a", "b"]),
        ({"text": "a", "text_pair": "b"}, [("a", "b")]),
        (["a", {"text": "b"}, {"text": "c", "text_pair": ""}], ["a", "b", "c"]),
    ],
)
def test_the_inference_api_takes_texts_and_pairs_as_the_pipeline_does(inputs, texts):
    body, found = read({"inputs": inputs, "parameters": {"top_k": 1, "function_to_apply": "none"}}, InferenceBody)
    assert found == texts
    assert (body.parameters.top_k, body.parameters.function_to_apply) == (1, "none")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting"),
        (b'{"inputs": NaN}', "NaN is no number"),
        (b'{"inputs": "a", "inputs": "b"}', "a key appears twice"),
        (b'{"inputs": "\\ud800"}', "half a character"),
        (b'{"\\udfff": "a", "inputs": "a"}', "half a character"),
        (b'{"inputs": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"inputs": ' + b"1" * 5000 + b"}", "digits"),
    ],
)
def test_what_is_no_json_is_a_400(content, why):
    status, kind, message = refusal(content)
    assert (status, kind) == (400, "validation")
    assert why in message


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ([], PredictBody),
        (None, PredictBody),
        ({}, PredictBody),
        *[({"inputs": inputs}, PredictBody) for inputs in (1, None, True, {}, ["a", "b", "c"], [["a"], "b"], [[]])],
        *[({"inputs": inputs}, PredictBody) for inputs in ([["a", "b", "c"]], ["a", 1], {"text": "a"})],
        *[({"inputs": "a", name: value}, PredictBody) for name, value in (("x", 1), ("truncate", 1), ("budget", 2))],
        ({"inputs": "a", "truncation_direction": "Left"}, PredictBody),
        *[({"inputs": inputs}, InferenceBody) for inputs in ([["a"]], {"text": 1}, {"text": "a", "pair": "b"}, 1.5)],
        *[({"inputs": "a", "parameters": asked}, InferenceBody) for asked in ({"top_k": 0}, {"k": 1}, [])],
        ({"query": "a"}, RerankBody),
        ({"query": ["a"], "texts": ["b"]}, RerankBody),
        ({"query": "a", "texts": "b"}, RerankBody),
    ],
)
def test_wrong_types_and_unknown_fields_are_a_422(data, kind):
    assert refusal(data, kind)[:2] == (422, "validation")


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        ({"inputs": "a", "foo": 1}, PredictBody, "unknown field 'foo'; this route knows budget, truncate,"),
        (
            {"inputs": "a", "parameters": {"k": 1}},
            InferenceBody,
            "unknown field 'parameters.k'; this route knows top_k",
        ),
        ({"inputs": "a", "parameters": {"top_k": 0}}, InferenceBody, "parameters.top_k is not as it should be"),
        ({"inputs": "a", "parameters": []}, InferenceBody, "parameters is not as it should be; a JSON object"),
        ({"inputs": "a", "truncation_direction": "Left"}, PredictBody, "texts are cut at the right alone; got 'Left'"),
        ({"inputs": {"text": "a", "pair": "b"}}, InferenceBody, "inputs is not what this route takes; a text, a pair"),
        ([], PredictBody, "the body is not a JSON object"),
    ],
)
def test_a_refusal_names_the_field_in_words_of_http(data, kind, said):
    assert refusal(data, kind)[2].startswith(said)


def test_a_name_that_is_too_long_is_not_given_back_whole():
    assert len(refusal({"inputs": "a", "x" * 10_000: 1})[2]) < 400


def test_what_clients_leave_open_may_be_null():
    assert read({"inputs": "a", "truncate": None}, PredictBody)[0].truncate is None
    assert read({"inputs": "a", "parameters": None}, InferenceBody)[0].parameters is None


def test_limits_are_a_413_and_nothing_at_all_a_400():
    assert refusal({"inputs": [["a"]] * 4})[:2] == (413, "validation")
    assert refusal({"inputs": "a" * 21})[:2] == (413, "validation")
    assert refusal({"query": "a" * 15, "texts": ["b", "c" * 6]}, RerankBody)[2].startswith("input 1 is too long")
    assert refusal({"inputs": []})[:2] == (400, "empty")
    assert refusal({"query": "a", "texts": []}, RerankBody)[:2] == (400, "empty")
    assert characters_of(("ab", "c")) == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("inputs"), inner, max_size=3),
)


@given(st.binary() | JSON.map(lambda data: json.dumps(data).encode()), st.sampled_from([PredictBody, InferenceBody]))
def test_whatever_comes_is_read_or_refused(content, kind):
    try:
        _, texts = read_body(content, kind, LIMITS)
        assert 1 <= len(texts) <= 3
    except RequestError as error:
        assert 400 <= error.status < 500

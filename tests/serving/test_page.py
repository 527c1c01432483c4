"""The page to try a text. Oracle: `powerbert.trace`, Python's HTML parser, and a real browser."""

from __future__ import annotations

import json
import re
from html import unescape

import httpx
import pytest
from browser import CHROMIUM, driven, opened, visited
from models import tiny
from servers import HeldEngine
from texts import tokenizer_for

import powerbert
from powerbert.engines.open import open_engine
from powerbert.serving.page import PageForm, Tracer, answer_page, plain_page

TEXT = "the film was very good, not dull"
HOSTILE = '</textarea><script>alert(1)</script>"><img src=x onerror=alert(2)>'
in_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH: apt-get install chromium")


def page(address, **asked):
    return httpx.get(f"{address}/", params=asked, timeout=30)


def strong(html):
    return [unescape(found) for found in re.findall(r"<strong>(.*?)</strong>", html)]


def test_before_anything_is_asked_there_is_a_form(served):
    answer = page(served)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert '<form class="try" method="get"' in answer.text
    assert [budget in answer.text for budget in ("2x", "3x", "own")] == [True] * 3


@pytest.mark.parametrize("budget", ["", "2x"])
def test_an_answer_shows_label_time_and_the_words_that_trace_tells(served, classifier_folder, budget):
    html = page(served, text=TEXT, budget=budget).text
    engine = open_engine(classifier_folder, "torch").at(budget or None)
    found = powerbert.trace(engine.model, engine.tokenizer, TEXT)
    label, *_, milliseconds = strong(html)
    assert re.fullmatch(r"[\d.]+\xa0ms", milliseconds)
    assert label == found.label
    counts = [int(count) for count in re.findall(r'class="count"[^>]*>(\d+)<', html)]
    assert counts == [len(found.tokens), *map(len, found.retained)]
    assert f">{TEXT}</textarea>" in html.replace("\n", "")
    assert ('<option value="2x" selected>' in html) == (budget == "2x")


def test_a_pair_is_asked_as_one(served):
    html = page(served, text="good film", text_pair="bad film").text
    assert html.count("[SEP]") >= 2
    assert ">bad film</textarea>" in html.replace("\n", "")


def test_what_strangers_write_adds_no_element(served):
    plain, hostile = page(served, text="word").text, page(served, text=HOSTILE, text_pair=HOSTILE).text
    for tag in ("<script", "<img", "<form", "</textarea"):
        assert hostile.count(tag) == plain.count(tag)


def test_a_mistake_is_told_on_the_page_with_its_status(served):
    answer = page(served, text="good", budget="<9x>")
    assert answer.status_code == 422
    assert "unknown budget" in answer.text
    assert "&lt;9x&gt;" in answer.text
    assert page(served, text="good " * 8000).status_code == 200


def test_a_model_that_eliminates_nothing_and_a_graph_alone_say_so(tmp_path):
    powerbert.save(tiny("bert"), tokenizer_for(), tmp_path / "full")
    assert "eliminates nothing" in Tracer(open_engine(tmp_path / "full"), tmp_path / "full")("good", None)
    exported = json.loads((tmp_path / "full" / "powerbert.json").read_text()) | {"export": {"engine": "onnx"}}
    (tmp_path / "full" / "powerbert.json").write_text(json.dumps(exported))
    assert "graph alone" in Tracer(HeldEngine(), tmp_path / "full")("good", None)
    assert "not a folder" in Tracer(HeldEngine(), tmp_path / "none")("good", None)
    form, best = PageForm("<b>", [], "good"), {"label": "<i>", "score": 0.5}
    html = answer_page(form, best, 0.01, "torch", "why not")
    assert strong(html) == ["<i>", "10.0\xa0ms"]
    assert "why not" in html
    assert "<select" not in html
    assert '<h1 dir="auto">&lt;b&gt;</h1>' in plain_page(form)


def test_another_engine_is_traced_by_torch_with_the_same_weights(classifier_folder):
    found = Tracer(HeldEngine(), classifier_folder)(("good film", "bad"), "3x")
    engine = open_engine(classifier_folder, "torch").at("3x")
    assert found == powerbert.trace(engine.model, engine.tokenizer, "good film", "bad")


@in_chromium
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_the_page_within_its_width(served, width, tmp_path):
    measures, console = opened(page(served, text=TEXT).text, width, tmp_path)
    assert measures["title"] == "Words retained by reviews"
    assert measures["wide"] <= width
    assert [section["id"] for section in measures["sections"]] == ["by-encoder", "by-word"]
    assert console == []


@in_chromium
def test_a_browser_at_the_server_runs_the_fade_and_has_nothing_to_complain_of(served, tmp_path):
    dom, console = visited(f"{served}/?text=a+very+good+film#2", tmp_path)
    assert re.search(r'<html[^>]* class="js"', dom)
    assert re.search(r'<output id="status"[^>]*>Encoder 2 of 3 retains \d of 6<', dom)
    assert console == []


@in_chromium
def test_a_person_types_a_text_presses_and_sees_label_time_and_surviving_words(served, classifier_folder, tmp_path):
    engine = open_engine(classifier_folder, "torch")
    found = powerbert.trace(engine.model, engine.tokenizer, TEXT)
    with driven(tmp_path, f"{served}/") as browser:
        browser.type("textarea[name=text]", TEXT)
        browser.press("form.try button")
        assert browser.wait("location.search && document.querySelector('strong')?.textContent") == found.label
        said = browser.value("[...document.querySelectorAll('strong')].at(-1).textContent")
        counts = browser.value("[...document.querySelectorAll('.count')].map((one) => Number(one.textContent))")
        typed = browser.value("document.querySelector('textarea').value.trim()")
    assert re.fullmatch(r"[\d.]+\xa0ms", said)
    assert counts == [len(found.tokens), *map(len, found.retained)]
    assert typed == TEXT


def test_the_page_of_the_api_fetches_from_this_server_alone(served):
    page = httpx.get(f"{served}/docs").text
    addresses = re.findall(r"(?:src|href)=\"([^\"]*)\"", page) + re.findall(r"url: '([^']*)'", page)
    assert len(addresses) == 4  # a style, an icon, a script, the description
    for address in addresses:
        assert address.startswith("/")
        assert httpx.get(served + address).status_code == 200


@in_chromium
def test_a_browser_shows_the_routes_of_the_api(served, tmp_path):
    dom, console = visited(f"{served}/docs", tmp_path)
    assert console == []
    for path in ("/predict", "/rerank", "/info"):
        assert f'data-path="{path}"' in dom

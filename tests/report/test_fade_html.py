import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from traces import trace_of

from powerbert.report.fade_html import fade_page
from powerbert.retention import RetentionConfiguration

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)>',
    "' onmouseover='alert(4)",
    "<!--",
    "]]>",
    "&lt;b&gt;",
    "{{7*7}}",
    "</title><svg onload=alert(5)>",
)


class Page(HTMLParser):
    """What a browser would make of the page: elements, their attributes, and the text inside them."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.open = [], {}, []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.setdefault(self.open[-1] if self.open else "", []).append(data)

    def of(self, tag, **attributes):
        return [found for name, found in self.elements if name == tag and attributes.items() <= found.items()]


def a_trace(words=("a", "fine", "film"), encoders=3, label="positive", score=0.982, strategy="attn-ws"):
    tokens = ("[CLS]", *words, "[SEP]")
    length = len(tokens)
    counts = tuple(max(1, length - (j + 1) * length // (encoders + 1)) for j in range(encoders))
    retained = tuple(tuple(range(count)) for count in counts)
    retention = RetentionConfiguration.absolute(counts, max_length=length)
    return trace_of(tokens, retained, retention, strategy, label=label, score=score)


def data_of(html):
    block = re.search(r'<script type="application/json" id="trace">(.*?)</script>', html, re.DOTALL)
    return json.loads(block.group(1))


def test_the_page_is_well_formed_and_shows_words_figures_and_prediction():
    html = fade_page(a_trace(), "a title")
    page = Page(html)
    assert page.open == []
    assert page.text["title"] == page.text["h1"] == ["a title"]
    strong = page.text["strong"]
    assert strong[0] == "positive"
    assert strong[-1] == "2"  # survive to the end: what the last encoder retains
    assert "".join(page.text["span"]).count("fine") == 2  # the sentence, and encoder by encoder
    assert len(page.of("tr")) == 1 + 5
    assert len(page.of("g")) == 1 + 3  # the input and three encoders
    assert "Attn-WS" in html


def test_nothing_is_fetched_from_anywhere():
    html = fade_page(a_trace(), "x")
    assert not re.search(r"https?:|//\w|@import|url\(|<link|<img|<iframe|\bsrc=", html)


def test_hostile_words_title_and_label_add_no_element_and_no_attribute():
    harmless = ["word"] * len(HOSTILE)
    for hostile in HOSTILE:
        page = Page(fade_page(a_trace(HOSTILE, label=hostile), hostile))
        plain = Page(fade_page(a_trace(harmless, label="word"), "word"))
        assert [name for name, _ in page.elements] == [name for name, _ in plain.elements]
        assert [set(found) for _, found in page.elements] == [set(found) for _, found in plain.elements]
        assert page.text["title"] == [hostile]


def test_hostile_words_are_shown_as_they_were_written():
    page = Page(fade_page(a_trace(HOSTILE), "x"))
    assert [text for text in page.text["bdi"] if text in HOSTILE] == list(HOSTILE)


def test_the_data_block_survives_a_closing_script_tag_and_holds_the_words_unchanged():
    html = fade_page(a_trace(HOSTILE), "x")
    assert data_of(html)["tokens"] == ["[CLS]", *HOSTILE, "[SEP]"]
    block = html.split('id="trace">')[1].split("</script>")[0]
    assert not set("<>&") & set(block)


def test_the_policy_allows_only_the_script_of_the_page():
    html = fade_page(a_trace(), "x")
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL).group(1)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    (policy,) = Page(html).of("meta", **{"http-equiv": "Content-Security-Policy"})
    assert f"script-src 'sha256-{digest}'" in policy["content"]
    assert "default-src 'none'" in policy["content"]


def test_the_script_builds_no_markup_from_data():
    html = fade_page(a_trace(), "x")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", html)


def test_text_from_right_to_left_gets_its_direction_and_overrides_are_taken_out():
    html = fade_page(a_trace(("مرحبا", "بالعالم", "\u202eevil")), "مرحبا \u202e")
    page = Page(html)
    assert len(page.of("p", dir="auto")) == 2
    assert page.of("h1") == [{"dir": "auto"}]
    # [CLS] is isolated, so that the first real word decides
    assert [found["class"] for found in page.of("bdi") if "class" in found] == ["w special"] * 4
    assert "\u202e" not in html


def test_emoji_and_lone_surrogates_can_be_written_as_utf_8():
    html = fade_page(a_trace(("👩\u200d👧", "\ud83d")), "title \ud83d")
    assert "👩\u200d👧" in html.encode("utf-8").decode("utf-8")


def test_pieces_of_a_word_are_written_without_a_space():
    html = fade_page(a_trace(("fad", "##ing", ".")), "x")
    assert re.search(r'>fad</span><span class="w continues"[^>]*>ing</span><span class="w mark"[^>]*>\.<', html)


def test_a_word_tells_the_encoder_that_eliminates_it():
    trace = trace_of(("[CLS]", "a", "b"), ((0, 1), (0,)), RetentionConfiguration.relative((0.6, 0.3)), "attn-ws")
    page = Page(fade_page(trace, "x"))
    assert [found["title"] for found in page.of("span") if "title" in found] == [
        "eliminated by encoder 2",
        "eliminated by encoder 1",
    ]
    assert page.text["code"] == ["0.6, 0.3"]
    assert "Predicted" not in page.text["dt"]


def test_the_controls_have_names_for_a_screen_reader():
    page = Page(fade_page(a_trace(), "x"))
    (slider,) = page.of("input", type="range")
    assert slider["aria-label"]
    assert (slider["min"], slider["max"]) == ("0", "3")
    (chart,) = page.of("svg")
    assert chart["aria-label"] == "Word-vectors per encoder: input 5, encoder 1 4, encoder 2 3, encoder 3 2"
    (frame,) = page.of("div", role="region")
    assert frame["tabindex"] == "0"


def test_the_page_follows_a_dark_or_light_screen_a_phone_and_less_motion():
    html = fade_page(a_trace(), "x")
    for wish in ("prefers-color-scheme: dark", "prefers-reduced-motion", "max-width: 32rem", "width=device-width"):
        assert wish in html


@pytest.mark.parametrize("length", [1, 510])
def test_any_length_up_to_512_gives_a_page_of_moderate_size(length):
    html = fade_page(a_trace([f"word{index}" for index in range(length)], encoders=24), "x")
    assert len(Page(html).of("tr")) == length + 3
    assert len(html) < 400_000


def test_a_single_encoder_that_eliminates_nothing_gives_a_page():
    trace = trace_of(("[CLS]",), ((0,),), RetentionConfiguration.full(1), "head-ws", score=1.5)
    page = Page(fade_page(trace, "x"))
    assert page.text["strong"][0] == "1.500"

"""The page of `accelerate`: against the figures it was made of, Python's HTML parser, and a real browser."""

import copy
import re
from html.parser import HTMLParser

import pytest
from accelerations import SHARES, acceleration_figures, example
from browser import CHROMIUM, opened

from powerbert.report.acceleration_html import acceleration_page
from powerbert.retention import RetentionConfiguration

SECTIONS = {
    "before-after": ("original", "accelerated", "speed"),
    "tried": ("tried",),
    "retention": ("accelerated",),
    "time": ("time",),
    "survival": ("examples",),
    "by-length": ("by_length",),
    "engines": ("engines",),
    "cost": ("costs",),
    "origin": ("parts", "machine", "commands", "accelerated"),
}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(3)>',
    "' onmouseover='alert(4)",
    "</title></style><svg onload=alert(5)>",
    "<!-- $title ${policy} ]]> &lt;b&gt;",
)
VOID = {"meta", "wbr"}


class Page(HTMLParser):
    """Elements with their attributes, all text, and a check that every element is closed in order."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.texts = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self):
        """What a person reads, a space for every white space."""
        return re.sub(r"\s+", " ", "".join(self.texts))

    @property
    def sections(self):
        return [found["id"] for tag, found in self.elements if tag == "h2"]

    def count(self, tag, style):
        return sum(name == tag and style in found.get("class", "").split() for name, found in self.elements)


def page_of(figures):
    return Page(acceleration_page(figures))


def replaced(value, words, name=""):
    """The figures with every free text replaced."""
    if isinstance(value, dict):
        return {key: replaced(item, words, key) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, words, name) for item in value]
    return words if isinstance(value, str) and name != "kind" else value


# ---- what is shown -----------------------------------------------------------------------


def test_all_sections_are_there_in_order_and_the_page_is_well_formed():
    page = page_of(acceleration_figures())
    assert page.sections == list(SECTIONS)
    assert {found["aria-labelledby"] for tag, found in page.elements if tag == "section"} == set(SECTIONS)


@pytest.mark.parametrize(("met", "words", "style"), [(True, "✓ Goal met", "met"), (False, "✗ Goal missed", "missed")])
def test_the_verdict_is_on_top_in_words_and_colour(met, words, style):
    figures = acceleration_figures()
    figures["verdict"]["met"] = met
    page = page_of(figures)
    assert words in page.text
    assert page.count("header", style) == 1
    for shown in (figures["goal"]["text"], figures["verdict"]["text"]):
        assert shown in page.text


def test_the_numbers_are_those_given():
    text = page_of(acceleration_figures()).text
    expected = (
        *(
            "0.18 points, 95 % interval \N{MINUS SIGN}1.2 to 1.6",
            "0.743 the difference may well be chance",
            "96.6 %",
            "1,204",
        ),
        *("87.21", "87.03", "83.1 to 90.7", "82.9 to 90.6", "35.3 %", "11.5 ms", "4.22 ms", "2.61", "2.73"),
        *("openvino fp32, batch 32 against onnx fp32, batch 8", "94.2 % of 311", "3 to 31", "0.92 → 0.78"),
        *("10.9 ms before, 4.16 ms after", "2,104,320", "10 min", "1.22", "in all2,514,43212 min1.53", "seed 42"),
        *("3,668 for training", "powerbert accelerate --model classifier", "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"),
    )
    assert [shown for shown in expected if shown not in text] == []


@pytest.mark.parametrize(("p", "shown"), [(0.0004, "<0.001 the difference is hardly chance"), (0.05, "0.050 the diff")])
def test_a_small_p_value_is_told_as_such(p, shown):
    figures = acceleration_figures()
    figures["verdict"]["p_value"] = p
    assert shown in page_of(figures).text


def test_everything_that_was_tried_is_in_the_table_and_near_ones_in_the_picture():
    figures = acceleration_figures()
    page = page_of(figures)
    for one in figures["tried"]:
        assert f"{100 * one['value']:.2f}" in page.text
        assert f"{one['expected']:.2f}" in page.text
    assert page.text.count("(chosen)") == 1
    assert "Far below the picture: 1 more." in page.text
    marks = [found for tag, found in page.elements if tag == "svg" and "x" in found]
    assert len(marks) == len(figures["tried"]) - 1 + 1  # without the far one, with the original
    assert [found["class"] for found in marks[-2:]] == ["chosen", "original"]  # over the others


def test_the_picture_reaches_below_a_chosen_one_that_loses_much():
    figures = acceleration_figures()
    figures["tried"][-1]["chosen"] = True  # 26 points lost
    page = page_of(figures)
    assert "Far below" not in page.text
    assert page.count("svg", "chosen") == 2


@pytest.mark.parametrize(
    ("goal", "words", "across"),
    [
        ({"kind": "max-loss", "value": 1.0}, "goal: at most 1 lost", True),
        ({"kind": "max-disagreement", "value": 2.5}, "goal: at most 2.5 lost", True),
        ({"kind": "speedup", "value": 3.0}, "goal: 3 times as fast", False),
        ({"kind": "latency-ms", "value": 10.0}, "goal: 10 ms", False),
    ],
)
def test_the_goal_is_a_line_of_the_picture(goal, words, across):
    page = page_of(acceleration_figures() | {"goal": goal})
    (line,) = (found for tag, found in page.elements if tag == "line" and found["class"] == "limit")
    assert words in page.text
    assert (line["y1"] == line["y2"]) is across


def test_encoders_that_are_left_out_are_drawn_so():
    page = page_of(acceleration_figures())
    left_out = SHARES.count(0)
    assert page.count("tr", "out") == 2 * left_out  # retention and time
    assert page.text.count("left out") == left_out + 1  # and in the sentence above


def test_an_absolute_configuration_shows_its_counts():
    figures = acceleration_figures()
    figures["accelerated"]["retention"] = RetentionConfiguration.absolute((100, 60, 7), max_length=128).to_json()
    text = page_of(figures).text
    assert "How many of 128 word-vectors each encoder retains." in text
    assert "110026037" in text  # encoder and count, three times


def test_texts_whose_label_changed_come_first_and_say_so():
    page = page_of(acceleration_figures())
    places = [page.text.index(words) for words in ("label changedoriginal bad", "nobody", "quietly")]
    assert places == sorted(places)
    assert page.text.count("truth") == 2
    assert "accelerated good 0.58" in page.text


def test_a_word_of_the_last_encoder_that_runs_survives_to_the_end():
    page = page_of(acceleration_figures() | {"examples": [example("involved is", "a", "a", None)]})
    fates = [found["title"] for _, found in page.elements if "title" in found]
    assert fates == ["survives to the end", "survives to the end", "eliminated by encoder 1", "eliminated by encoder 3"]
    assert "truth" not in page.text


def test_a_score_without_a_label_is_the_answer():
    one = example("fine", "a", "b", None) | {"before": {"label": None, "score": 4.2}, "after": {"score": 3.9}}
    text = page_of({"examples": [one]}).text
    assert "original 4.20accelerated 3.90" in text
    assert "label changed" not in text


# ---- what is missing ---------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [None, [], {}, "absent"])
@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_without_figures_leaves_no_trace(section, nothing):
    figures = acceleration_figures()
    for name in SECTIONS[section]:
        del figures[name]
        if nothing != "absent":
            figures[name] = nothing
    assert section not in page_of(figures).sections


@pytest.mark.parametrize("name", acceleration_figures())
def test_any_figure_may_be_missing(name):
    figures = acceleration_figures()
    del figures[name]
    page_of(figures)


def numbers_missing(value):
    if isinstance(value, dict):
        return {key: numbers_missing(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers_missing(item) for item in value]
    return None if isinstance(value, int | float) else value


@pytest.mark.parametrize("name", ["verdict", "original", "speed", "tried", "engines", "by_length", "costs", "parts"])
def test_numbers_may_be_missing_within_a_section(name):
    figures = acceleration_figures()
    figures[name] = numbers_missing(figures[name])
    page = page_of(figures)
    assert not re.search(r"\bNone\b|\bnan\b", page.text)


def test_no_figures_at_all_give_a_page():
    page = page_of({})
    assert page.sections == []
    assert "Accelerated model" in page.text


def test_one_point_without_the_original_model_is_a_picture():
    page = page_of({"tried": [{"value": 0.0, "ms": 0.0}], "goal": {"kind": "max-loss", "value": 1.0}})
    assert page.sections == ["tried"]
    assert "goal" not in page.text


def test_the_figures_are_not_changed():
    figures = acceleration_figures()
    before = copy.deepcopy(figures)
    acceleration_page(figures)
    assert figures == before


# ---- strangers ---------------------------------------------------------------------------


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_adds_no_element_and_no_attribute_anywhere(hostile):
    figures = acceleration_figures()
    retention = figures["accelerated"].pop("retention")
    hurt, plain = replaced(figures, hostile), replaced(figures, "harmless")
    for one in (hurt, plain):
        one["accelerated"]["retention"] = retention
        one["machine"]["versions"] = {one["verdict"]["metric"]: one["verdict"]["metric"]}
    page, calm = page_of(hurt), page_of(plain)
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in calm.elements]
    assert [set(found) for _, found in page.elements] == [set(found) for _, found in calm.elements]
    shown = re.sub(r"\s+", " ", hostile)
    assert page.text.count(shown) == calm.text.count("harmless") > 100  # as it was written, wherever it was written
    classes = [[found.get("class") for _, found in one.elements] for one in (page, calm)]
    assert classes[0] == classes[1]


def test_nothing_is_fetched_and_no_script_is_allowed():
    html = acceleration_page(acceleration_figures())
    assert not re.search(r"https?:|//\w|@import|url\(|<link|<img|<iframe|<script|\bsrc=|\bon\w+=", html)
    (policy,) = (found["content"] for _, found in Page(html).elements if "http-equiv" in found)
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_overrides_of_direction_are_taken_out_and_surrogates_can_be_written():
    html = acceleration_page(replaced(acceleration_figures() | {"accelerated": None}, "مرحبا \u202e \ud83d"))
    assert "\u202e" not in html
    assert "مرحبا" in html.encode("utf-8").decode("utf-8")


# ---- a browser ---------------------------------------------------------------------------

in_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH: apt-get install chromium")


@in_chromium
@pytest.mark.parametrize("width", [390, 1000])
def test_a_browser_shows_all_sections_within_its_width_and_has_nothing_to_complain_of(width, tmp_path):
    html = acceleration_page(acceleration_figures()).replace("<details>", "<details open>")
    found, console = opened(html, width, tmp_path)
    assert console == []
    assert found["title"].startswith("Goal met")
    assert [section["id"] for section in found["sections"]] == list(SECTIONS)
    assert all(section["height"] > 60 and section["right"] <= width for section in found["sections"])
    assert found["wide"] <= width
    assert found["shading"] not in ("", "rgba(0, 0, 0, 0)")  # the style is applied


@in_chromium
def test_the_policy_stops_what_escaping_would_let_through(tmp_path):
    """That the console is heard at all: a page with a script in it is complained of, and the script does not run."""
    html = acceleration_page({}).replace("</main>", "<script>document.title = 'owned'</script></main>")
    found, console = opened(html, 1000, tmp_path)
    assert "Content Security Policy" in " ".join(console)
    assert found["title"].startswith("Accelerated model")

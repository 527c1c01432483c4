"""The fade as one self-contained page: which words survive how deep, encoder by encoder.

Paper: Anecdotal Examples

Nothing is fetched: style, script, chart and data are in the page, so it can be mailed or archived.
The text comes from strangers. Every string of it is escaped, and the page's own policy allows no
script but the one written here, known by its hash.
"""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files

from powerbert.elimination.selection import STRATEGIES
from powerbert.modeling.trace import Trace
from powerbert.report.words import (
    Word,
    last_encoder,
    processed,
    readable,
    reduction,
    sentence,
    survivors,
    trace_json,
    verdict,
    visible,
)

LARGE_TYPE = 60  # a sentence of so many word-vectors is set large
NAMED = 4  # so many survivors are named beside their number
TALL = 60  # a grid of more rows scrolls within its own frame
STYLE, SCRIPT = (files("powerbert.report").joinpath(f"fade.{kind}").read_text("utf-8") for kind in ("css", "js"))


def fade_page(trace: Trace, title: str) -> str:
    """Write the page; `title` is any text, the words come from the trace."""
    words = readable(trace)
    last = last_encoder(trace)
    encoders = len(trace.retained)
    name = escape(visible(title))
    body = [
        _header(trace, words, last, name),
        _player(trace, words, last),
        _grid(words, last, encoders),
        _footer(trace),
        f'<script type="application/json" id="trace">{_data(trace)}</script>',
        f"<script>{SCRIPT}</script>",
    ]
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en" style="--encoders:{encoders}">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{name}</title>",
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            *body,
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _policy() -> str:
    """Allow the inline style and the one script of this page; no connection, image or frame."""
    digest = b64encode(sha256(SCRIPT.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"


def _data(trace: Trace) -> str:
    """Write the trace as JSON that cannot end its script element: no < > & is left in it."""
    text = json.dumps(trace_json(trace), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# ---- headline and sentence ---------------------------------------------------------------


def _header(trace: Trace, words: tuple[Word, ...], last: tuple[int, ...], name: str) -> str:
    encoders = len(trace.retained)
    spans = [
        f'<{_element(word)} class="{_kind(word)}" style="--depth:{depth / max(encoders, 1):.3f}" '
        f'title="{_fate(depth, encoders)}">{escape(word.text)}</{_element(word)}>'
        for word, depth in zip(words, last, strict=True)
    ]
    size = _size(words)
    text = f"""<p class="sentence heat {size}" dir="auto" lang="">{_joined(words, spans)}</p>
<p class="legend"><span>eliminated by encoder 1</span><i aria-hidden="true"></i>
<span>survives to the end</span></p>"""
    figures = _figures(trace, words)
    parts = [text, figures] if size == "large" else [figures, text]  # a long text would hide the figures
    return "\n".join(["<header>", f'<h1 dir="auto">{name}</h1>', *parts, "</header>"])


def _figures(trace: Trace, words: tuple[Word, ...]) -> str:
    with_elimination, without = processed(trace)
    ends = survivors(trace)
    named = f": {escape(sentence(words, ends))}" if len(ends) <= NAMED else ""
    facts = [
        ("Predicted", *_prediction(trace)),
        ("Word-vectors processed", f"{with_elimination:,}", f"of {without:,}"),
        (f"Over {_encoders(trace)}", f"{reduction(trace):.1f}&times;", "fewer"),
        ("Survive to the end", f"{len(ends)}", f"of {len(words)}{named}"),
    ]
    cells = [
        f'<div><dt>{term}</dt><dd dir="auto"><strong>{value}</strong> {more}</dd></div>'
        for term, value, more in facts
        if value
    ]
    return f'<dl class="figures">{"".join(cells)}</dl>'


def _encoders(trace: Trace) -> str:
    return "1 encoder" if len(trace.retained) == 1 else f"{len(trace.retained)} encoders"


def _prediction(trace: Trace) -> tuple[str, str]:
    """Return the label in large and the score in small type; a score alone is the answer."""
    if trace.label is None or trace.score is None:
        return escape(verdict(trace)), ""
    return escape(visible(trace.label)), f"{trace.score:.3f}"


def _size(words: tuple[Word, ...]) -> str:
    return "large" if len(words) <= LARGE_TYPE else "small"


def _joined(words: tuple[Word, ...], spans: list[str]) -> str:
    """Put a space before each word that is not a piece of the one before."""
    return "".join(span if word.joins else f" {span}" for word, span in zip(words, spans, strict=True)).strip()


def _element(word: Word) -> str:
    """Isolate [CLS] and its like: a paragraph takes its direction from the first real word."""
    return "bdi" if word.special else "span"


def _kind(word: Word) -> str:
    if word.special:
        return "w special"
    return "w continues" if word.continues else "w mark" if word.joins else "w"


def _fate(depth: int, encoders: int) -> str:
    return "survives to the end" if depth == encoders else f"eliminated by encoder {depth + 1}"


# ---- encoder by encoder ------------------------------------------------------------------


def _player(trace: Trace, words: tuple[Word, ...], last: tuple[int, ...]) -> str:
    encoders = len(trace.retained)
    spans = [
        f'<{_element(word)} class="{_kind(word)}" data-last="{depth}">{escape(word.text)}</{_element(word)}>'
        for word, depth in zip(words, last, strict=True)
    ]
    return f"""<section aria-labelledby="by-encoder">
<h2 id="by-encoder">Encoder by encoder</h2>
<div class="controls">
{_chart(trace, len(words))}
<input id="step" type="range" min="0" max="{encoders}" value="0" step="1" aria-label="Encoder">
<div class="bar-below"><button id="play" type="button" aria-pressed="false"><span>Play</span></button>
<output id="status" for="step" aria-live="off">The input: {len(words)} word-vectors</output></div>
</div>
<p class="sentence fade {_size(words)}" dir="auto" lang="">{_joined(words, spans)}</p>
</section>"""


def _chart(trace: Trace, length: int) -> str:
    """Draw one bar per encoder, the input first; in percent, so that it fits any width."""
    counts = [length, *map(len, trace.retained)]
    slot = 100 / len(counts)
    bars = []
    for j, count in enumerate(counts):
        height = max(70 * count / max(length, 1), 1.5)  # a single word-vector of many is still a bar
        middle = (j + 0.5) * slot
        top = 84 - height
        bars.append(
            f'<g class="bar" data-step="{j}">'
            f'<rect class="hit" x="{j * slot:.3f}%" y="0" width="{slot:.3f}%" height="100%"/>'
            f'<rect class="fill" x="{(j + 0.14) * slot:.3f}%" y="{top:.2f}%" width="{0.72 * slot:.3f}%" '
            f'height="{height:.2f}%" rx="2"/>'
            f'<text class="count" x="{middle:.3f}%" y="{top:.2f}%" dy="-4">{count}</text>'
            f'<text class="name" x="{middle:.3f}%" y="97%">{j or "in"}</text></g>'
        )
    spoken = ", ".join(f"encoder {j} {count}" for j, count in enumerate(counts[1:], 1))
    dense = " dense" if len(counts) > 16 or length > 999 else ""
    return (
        f'<svg class="chart{dense}" role="img" width="100%" height="120" '
        f'aria-label="Word-vectors per encoder: input {length}, {spoken}">{"".join(bars)}</svg>'
    )


# ---- word by word ------------------------------------------------------------------------


def _grid(words: tuple[Word, ...], last: tuple[int, ...], encoders: int) -> str:
    """A row per word, a column per encoder; the cell at the encoder that eliminates it fades out."""
    numbers = "".join(f'<b data-encoder="{j}">{j}</b>' for j in range(1, encoders + 1))
    rows = [
        f'<tr data-last="{depth}" data-place="{place}" '
        f'style="--last:{depth};--depth:{depth / max(encoders, 1):.3f}">'
        f'<th scope="row"><bdi lang="">{"-" if word.continues else ""}{escape(word.text)}</bdi></th>'
        f'<td class="life{" ends" if depth < encoders else ""}" aria-hidden="true"><i></i></td>'
        f"<td>{depth}</td></tr>"
        for place, (word, depth) in enumerate(zip(words, last, strict=True))
    ]
    tall = " tall" if len(words) > TALL else ""
    return f"""<section aria-labelledby="by-word">
<div class="heading"><h2 id="by-word">Word by word</h2>
<button id="sort" type="button" aria-pressed="false">Deepest first</button></div>
<div class="frame{tall}" tabindex="0" role="region" aria-labelledby="by-word">
<table class="grid"><thead><tr><th scope="col">Word</th>
<th scope="col" class="numbers" aria-hidden="true"><div>{numbers}</div></th>
<th scope="col"><abbr title="the last encoder that retains the word">Last</abbr></th></tr></thead>
<tbody>{"".join(rows)}</tbody></table>
</div>
</section>"""


def _footer(trace: Trace) -> str:
    strategy = STRATEGIES[trace.strategy].title
    configuration = escape(str(trace.retention)).replace(",", ", ")
    kind = "fractions of the input" if trace.retention.is_relative else "word-vectors per encoder"
    return f"""<footer><p>{strategy}, retention configuration <code>{configuration}</code> ({kind}).
An eliminated word is not lost: by then its information has spread to the words that remain.
Drawn by powerbert.</p></footer>"""

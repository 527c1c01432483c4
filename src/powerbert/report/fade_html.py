"""The fade as one self-contained page: which words survive how deep, encoder by encoder.

Paper: Anecdotal Examples

Nothing is fetched: style, script, chart and data are in the page, so it can be mailed or archived.
The text comes from strangers. Every string of it is escaped, and the page's own policy allows no
script but the one written here, known by its hash.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from powerbert.elimination.selection import STRATEGIES
from powerbert.modeling.trace import Trace
from powerbert.report.words import Word, chosen, processed, readable, sentence, trace_json, verdict, visible

LARGE_TYPE = 60  # a sentence of so many word-vectors is set large
NAMED = 4  # so many survivors are named beside their number
TALL = 60  # a grid of more rows scrolls within its own frame
INERT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})  # JSON that cannot end its script element
HOME = files("powerbert.report")
PAGE = Template((HOME / "fade.html").read_text("utf-8"))
STYLE = "".join((HOME / name).read_text("utf-8") for name in ("page.css", "fade.css"))
SCRIPT = (HOME / "fade.js").read_text("utf-8")
DIGEST = b64encode(sha256(SCRIPT.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{DIGEST}'; base-uri 'none'"
"""Allows the inline style and the one script of this page; no connection, image or frame."""


def fade_page(
    trace: Trace, title: str, *, above: str = "", style: str = "", more: Sequence[tuple[str, str, str]] = ()
) -> str:
    """Write the page; `title` is any text, the words come from the trace.

    above, style, more: markup before the words, its style, and further figures, where the page is part of something.
    """
    words, encoders = readable(trace), len(trace.retained)
    length, counts = len(words), [len(words), *map(len, trace.retained)]
    large = length <= LARGE_TYPE
    figures = _figures(trace, words, more) + "\n"
    return PAGE.substitute(
        encoders=encoders,
        policy=POLICY,
        title=escape(visible(title)),
        style=STYLE + style,
        above=above,
        script=SCRIPT,
        data=json.dumps(trace_json(trace), ensure_ascii=True, allow_nan=False).translate(INERT),
        size="large" if large else "small",
        figures_above="" if large else figures,  # a long text would hide the figures
        figures_below=figures if large else "",
        heat=heat(words, encoders),
        fade=_spans(words, lambda word: f'data-last="{word.last}"'),
        dense=" dense" if len(counts) > 16 or length > 999 else "",
        spoken=f"input {length}, " + ", ".join(f"encoder {j} {count}" for j, count in enumerate(counts[1:], 1)),
        bars="".join(_bar(j, count, counts) for j, count in enumerate(counts)),
        length=length,
        tall=" tall" if length > TALL else "",
        numbers="".join(f'<b data-encoder="{j}">{j}</b>' for j in range(1, encoders + 1)),
        rows="".join(_row(place, word, encoders) for place, word in enumerate(words)),
        strategy=STRATEGIES[trace.strategy].title,
        configuration=escape(str(trace.retention)).replace(",", ", "),
        kind="fractions of the input" if trace.retention.is_relative else "word-vectors per encoder",
    )


def _figures(trace: Trace, words: tuple[Word, ...], more: Sequence[tuple[str, str, str]]) -> str:
    with_elimination, without, fewer = processed(trace)
    encoders, ends = len(trace.retention), trace.retained[-1]
    label, score = verdict(trace)
    named = f": {escape(sentence(chosen(words, ends)))}" if len(ends) <= NAMED else ""
    facts = [
        ("Predicted", escape(label), score),
        ("Word-vectors processed", f"{with_elimination:,}", f"of {without:,}"),
        (f"Over {encoders} encoder{'s' if encoders > 1 else ''}", f"{fewer:.1f}&times;", "fewer"),
        ("Survive to the end", f"{len(ends)}", f"of {len(words)}{named}"),
        *more,
    ]
    cell = '<div><dt>{}</dt><dd dir="auto"><strong>{}</strong> {}</dd></div>'
    return f'<dl class="figures">{"".join(cell.format(*fact) for fact in facts if fact[1])}</dl>'


def heat(words: tuple[Word, ...], encoders: int) -> str:
    """The sentence, each word the stronger the deeper it survives; it tells its fate when it is pointed at."""
    return _spans(words, lambda word: f'style="--depth:{word.last / encoders:.3f}" title="{_fate(word, encoders)}"')


def _spans(words: tuple[Word, ...], attributes: Callable[[Word], str]) -> str:
    """The sentence, an element per word; [CLS] and its like are isolated: the first real word gives the direction."""
    spans = []
    for word in words:
        element = "bdi" if word.special else "span"
        kind = " special" if word.special else " continues" if word.continues else " mark" if word.joins else ""
        spans.append(f'<{element} class="w{kind}" {attributes(word)}>{escape(word.text)}</{element}>')
    return sentence(words, spans)


def _fate(word: Word, encoders: int) -> str:
    return "survives to the end" if word.last == encoders else f"eliminated by encoder {word.last + 1}"


def _bar(j: int, count: int, counts: list[int]) -> str:
    """Of one encoder, the input first; in percent, so that the chart fits any width."""
    slot = 100 / len(counts)
    height = max(70 * count / counts[0], 1.5)  # a single word-vector of many is still a bar
    middle, top = (j + 0.5) * slot, 84 - height
    return (
        f'<g class="bar" data-step="{j}">'
        f'<rect class="hit" x="{j * slot:.3f}%" y="0" width="{slot:.3f}%" height="100%"/>'
        f'<rect class="fill" x="{(j + 0.14) * slot:.3f}%" y="{top:.2f}%" width="{0.72 * slot:.3f}%" '
        f'height="{height:.2f}%" rx="2"/>'
        f'<text class="count" x="{middle:.3f}%" y="{top:.2f}%" dy="-4">{count}</text>'
        f'<text class="name" x="{middle:.3f}%" y="97%">{j or "in"}</text></g>'
    )


def _row(place: int, word: Word, encoders: int) -> str:
    """Of one word, a column per encoder; the cell at the encoder that eliminates it fades out."""
    return (
        f'<tr data-last="{word.last}" data-place="{place}" '
        f'style="--last:{word.last};--depth:{word.last / encoders:.3f}">'
        f'<th scope="row"><bdi lang="">{"-" if word.continues else ""}{escape(word.text)}</bdi></th>'
        f'<td class="life{" ends" if word.last < encoders else ""}" aria-hidden="true"><i></i></td>'
        f"<td>{word.last}</td></tr>"
    )

"""`powerbert explain`: the words that each encoder retains.

Paper: Anecdotal Examples
"""

import sys

from powerbert.cli.flags import ExplainFlags
from powerbert.cli.output import STANDARD_OUTPUT, note, show, working, write_json, write_output
from powerbert.elimination.selection import STRATEGIES
from powerbert.errors import PowerBertError, RetentionError
from powerbert.modeling.apply import apply, elimination_of
from powerbert.modeling.storage import load
from powerbert.modeling.trace import trace
from powerbert.report.fade_html import fade_page
from powerbert.report.fade_terminal import Fade
from powerbert.report.words import trace_json

STANDARD_INPUT = "-"
MAX_BYTES = 10_000_000  # of standard input: a model reads a few thousand characters of it
TITLE = 60  # characters of the text in the title of the page


def explain(asked: ExplainFlags) -> None:
    """Show the words that each encoder retains."""
    text = _text(asked.text)
    pair = None if asked.text_pair is None else _decoded(asked.text_pair, "--text-pair")
    if asked.strategy not in (None, *STRATEGIES):
        raise PowerBertError("unknown --strategy", got=asked.strategy, rule="one of " + ", ".join(STRATEGIES))
    with working("loading the model"):
        model, tokenizer = load(asked.model)
        own = elimination_of(model)
        retention = asked.configuration() or (own.retention if own else None)
        if retention is None:
            remedy = 'give one, such as --retention "0.9,0.8,...", one number per encoder'
            raise RetentionError(f"{asked.model} carries no retention configuration", remedy=remedy)
        chosen = asked.strategy or (own.strategy if own else next(iter(STRATEGIES)))
        apply(model, retention, chosen, scoring=own.scoring if own else None)
        found = trace(model, tokenizer, text, pair)
    if found.truncated:
        note(f"the text is longer than the model reads: the first {len(found.tokens)} word pieces are shown")
    if STANDARD_OUTPUT not in (asked.html, asked.json):
        show(Fade(found))
    if asked.html is not None:
        start = " ".join(text[: 4 * TITLE].split())
        quoted = start if len(start) <= TITLE else start[:TITLE].rstrip() + "…"
        write_output(asked.html, fade_page(found, f"Words retained in “{quoted}”"), "--html")
    write_json(asked.json, {"text": text, "text_pair": pair} | trace_json(found))
    for target in (asked.html, asked.json):
        if target not in (None, STANDARD_OUTPUT):
            note(f"wrote {target}")


def _text(text: str) -> str:
    """Take the text from the argument or from standard input; refuse an empty one."""
    if text == STANDARD_INPUT:
        content = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise PowerBertError("standard input is too long", rule=f"at most {MAX_BYTES:,} bytes")
        text = content.decode("utf-8", errors="surrogateescape")
    text = _decoded(text, "the text")
    if not text.strip():
        raise PowerBertError("the text is empty", remedy="give at least one word")
    return text


def _decoded(text: str, name: str) -> str:
    """Refuse bytes that are no UTF-8: Python stands surrogates in their places."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise PowerBertError(f"{name} is not UTF-8", remedy="convert it, for instance with iconv")
    return text

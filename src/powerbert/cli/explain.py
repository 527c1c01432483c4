"""`powerbert explain`: the words that each encoder retains.

Paper: Anecdotal Examples
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from powerbert.cli.output import STANDARD_OUTPUT, check_target, note, show, working, write_json, write_text
from powerbert.cli.retention import asked_retention
from powerbert.errors import PowerBertError, RetentionError
from powerbert.retention import RetentionConfiguration

if TYPE_CHECKING:
    from powerbert.modeling.trace import Trace

STANDARD_INPUT = "-"
MAX_BYTES = 10_000_000  # of standard input: a model reads a few thousand characters of it
TITLE = 60  # characters of the text in the title of the page


def explain(
    text: Annotated[str, typer.Argument(help='The text; "-" reads standard input.', show_default=False)],
    model: Annotated[str, typer.Option(metavar="FOLDER", help="Model folder.", show_default=False)],
    text_pair: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Second text, for models of pairs.")
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help='Per encoder, fractions of the text ("0.9,0.8,...") or counts ("80,73,..."); '
            "by default what the folder carries.",
        ),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The length N that counts are meant for.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="attn-ws, head-ws or rand-ws; by default the folder's, else attn-ws."
        ),
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a page that shows the fade.")
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help='Write the figures as JSON; "-" is standard output.')
    ] = None,
) -> None:
    """Show the words that each encoder retains.

    Example:

        powerbert explain --model FOLDER "a gorgeous, witty movie" --html fade.html
    """
    configuration = _configuration(retention, max_length)
    _check_targets(html, json)
    text = _text(text)
    with working("loading the model"):
        trace = _trace(model, text, text_pair, configuration, strategy)
    if trace.truncated:
        note(f"the text is longer than the model reads: the first {len(trace.tokens)} word pieces are shown")
    if STANDARD_OUTPUT not in (html, json):
        _show(trace)
    if html is not None:
        _write_page(html, trace, text)
    if json is not None:
        _write_figures(json, trace, text, text_pair)


# ---- what was asked, checked before torch is imported ---------------------------------------


def _configuration(retention: str | None, max_length: int | None) -> RetentionConfiguration | None:
    if retention is None:
        if max_length is not None:
            raise RetentionError(
                "--max-length belongs to counts", got=max_length, remedy="give the counts with --retention"
            )
        return None
    configuration = asked_retention(retention, max_length)
    if configuration.is_relative and max_length is not None:
        raise RetentionError(
            "--max-length belongs to counts", got=retention, rule="fractions are of each text's own length"
        )
    return configuration


def _check_targets(html: str | None, json: str | None) -> None:
    for target, flag in ((html, "--html"), (json, "--json")):
        if target is not None:
            check_target(target, flag)
    if html == json == STANDARD_OUTPUT:
        raise PowerBertError(
            "--html and --json both ask for standard output", remedy="write one of them to a file"
        )


def _text(text: str) -> str:
    """Take the text from the argument or from standard input; refuse an empty or undecodable one."""
    if text == STANDARD_INPUT:
        content = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise PowerBertError("standard input is too long", rule=f"at most {MAX_BYTES:,} bytes")
    else:
        content = text.encode("utf-8", errors="surrogateescape")  # the bytes that the shell passed
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise PowerBertError("the text is not UTF-8", remedy="convert it, for instance with iconv") from None
    if not text.strip():
        raise PowerBertError("the text is empty", remedy="give at least one word")
    return text


# ---- the work and what comes of it ----------------------------------------------------------


def _trace(
    folder: str,
    text: str,
    text_pair: str | None,
    retention: RetentionConfiguration | None,
    strategy: str | None,
) -> Trace:
    """Load the model, let the asked retention and strategy override its own, and trace the text."""
    from powerbert.elimination.selection import STRATEGIES
    from powerbert.modeling.apply import apply, elimination_of
    from powerbert.modeling.storage import load
    from powerbert.modeling.trace import trace

    model, tokenizer = load(folder)
    own = elimination_of(model)
    retention = retention or (own.retention if own else None)
    if retention is None:
        raise RetentionError(
            f"{folder} carries no retention configuration",
            remedy='give one, such as --retention "0.9,0.8,...", one number per encoder',
        )
    chosen = strategy or (own.strategy if own else next(iter(STRATEGIES)))
    apply(model, retention, chosen, scoring=own.scoring if own else None)
    return trace(model, tokenizer, text, text_pair)


def _show(trace: Trace) -> None:
    from powerbert.report.fade_terminal import Fade

    show(Fade(trace))


def _write_page(target: str, trace: Trace, text: str) -> None:
    from powerbert.report.fade_html import fade_page

    start = " ".join(text[: 4 * TITLE].split())
    quoted = start if len(start) <= TITLE else start[:TITLE].rstrip() + "…"
    write_text(target, fade_page(trace, f"Words retained in “{quoted}”"), "--html")
    _wrote(target)


def _write_figures(target: str, trace: Trace, text: str, text_pair: str | None) -> None:
    from powerbert.report.words import trace_json

    write_json(target, {"text": text, "text_pair": text_pair} | trace_json(trace))
    _wrote(target)


def _wrote(target: str) -> None:
    if target != STANDARD_OUTPUT:
        note(f"wrote {target}")

"""Pieces of a page: text that is safe in it, numbers as a person reads them, tables and sections.

Whatever is missing is a dash, and what would be empty is an empty string: a page without it shows no trace of it.
"""

from collections.abc import Iterable, Sequence
from html import escape
from math import isfinite
from numbers import Real
from typing import Any

from powerbert.report.words import visible

NONE = "\N{EN DASH}"  # where a number is missing
_NEAR = "\N{NO-BREAK SPACE}"  # between a number and its unit


def say(text: object) -> str:
    """Any text, harmless in the page, in an attribute, and to the direction of what follows."""
    return escape(visible(str(text)))


def is_number(value: object) -> bool:
    """Whether it can be shown: neither missing nor infinite."""
    return isinstance(value, Real) and isfinite(value)


def number(value: Any, form: str = ".2f", times: float = 1) -> str:
    """A number with a true minus; a dash where there is none."""
    return format(value * times, form).replace("-", "\N{MINUS SIGN}") if is_number(value) else NONE


def percent(share: Any, form: str = ".1f") -> str:
    """A share of 1 in percent."""
    return f"{number(share, form, 100)}{_NEAR}%" if is_number(share) else NONE


def interval(pair: Any, times: float = 1) -> str:
    """From low to high, one decimal."""
    return f"{number(pair[0], '.1f', times)} to {number(pair[1], '.1f', times)}" if pair else NONE


def ms(value: Any) -> str:
    """Milliseconds, three digits."""
    form = "" if not is_number(value) else ".0f" if value >= 100 else ".1f" if value >= 10 else ".2f"
    return f"{number(value, form)}{_NEAR}ms" if form else NONE


def section(name: str, title: str, note: str, body: str) -> str:
    """A part of the page under its heading; all of it is markup already."""
    head = f'<h2 id="{name}">{title}</h2>' + (f'<p class="note">{note}</p>' if note else "")
    return f'<section aria-labelledby="{name}">{head}{body}</section>\n' if body else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], style: str = "") -> str:
    """Cells are markup already; the first one of a row names it."""
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row" dir="auto">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for first, *cells in rows
    )
    whole = f'<table class="plain{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="frame">{whole}</div>' if body else ""


def facts(found: Iterable[tuple[str, str, str]]) -> str:
    """Term, what is strong and what stands below it, all markup already; a fact without its strong part is left out."""
    cell = '<div><dt>{}</dt><dd dir="auto"><strong>{}</strong> {}</dd></div>'
    cells = "".join(cell.format(*fact) for fact in found if fact[1] != NONE)
    return f'<dl class="figures">{cells}</dl>' if cells else ""

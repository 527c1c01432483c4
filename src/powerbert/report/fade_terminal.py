"""The fade in a terminal: one row per encoder, retained words standing, eliminated ones as dots.

Paper: Anecdotal Examples
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from powerbert.elimination.selection import STRATEGIES
from powerbert.modeling.trace import Trace
from powerbert.report.words import last_encoder, processed, readable, reduction, runs, survivors, verdict

SURVIVES = "bold green"
RETAINED = "bold cyan"
ELIMINATED = "bright_black"
ALIGNED_LINES = 3  # a sentence of more lines is long: its rows hold retained words only
LISTED_LINES = 4  # a row of a long text with more lines of retained words names the eliminated ones
SURVIVORS = 40  # words that the summary names
LEAST_WIDTH = 12


class Fragment(NamedTuple):
    """A piece of a row: a word, or the dots in its place."""

    text: str
    style: str
    joins: bool


class Fade:
    """A rich renderable of the words that each encoder retains.

    Where the sentence fits into a few lines, each row repeats it with dots for the eliminated
    words, so that a word stays in its column; a long text lists the retained words alone.

    Lines are laid out here and not by a rich table, which would fill them up with spaces: piped
    into a file they have to be clean.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.words = readable(trace)
        self.last = last_encoder(trace)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the rows out for the width at hand."""
        dot = "." if options.ascii_only else "·"
        width = max(options.max_width - _side(), LEAST_WIDTH)
        total = len(self.words)
        everything = tuple(range(total))
        aligned = len(_broken(self._aligned(everything, dot), width)) <= ALIGNED_LINES
        yield from _broken(_fragments_of(self._headline(), "bold"), options.max_width)
        yield Text()
        yield from _row("encoder", "retained", [Text("words")], style=ELIMINATED)
        before = everything
        for name, retained in [("input", everything), *((run.name, run.retained) for run in runs(self.trace))]:
            if aligned:
                lines = _broken(self._aligned(retained, dot), width)
            else:
                lines = self._listed(retained, before, width, dot)
            yield from _row(name, f"{len(retained)}/{total}", lines)
            before = retained
        yield Text()
        yield from self._summary(options.max_width, dot)

    # ---- rows ----------------------------------------------------------------------------

    def _aligned(self, retained: tuple[int, ...], dot: str) -> list[Fragment]:
        """Write the whole sentence with dots as wide as the eliminated words.

        Equal widths break into lines at equal places, so a word stays in its column in every row.
        """
        standing = frozenset(retained)
        return [
            Fragment(word.text, self._style(index), word.joins)
            if index in standing
            else Fragment(dot * cell_len(word.text), ELIMINATED, word.joins)
            for index, word in enumerate(self.words)
        ]

    def _listed(self, retained: tuple[int, ...], before: tuple[int, ...], width: int, dot: str) -> list[Text]:
        """Write the retained words of a long text; while they are too many, the eliminated ones.

        Pages of nearly the same words tell nothing; what this encoder eliminated does.
        """
        lines = _broken(self._fragments(retained, dot), width)
        if len(lines) <= LISTED_LINES:
            return lines
        eliminated = sorted(set(before) - set(retained))
        if not eliminated:
            return [*lines[: LISTED_LINES - 1], Text("...", ELIMINATED)]
        texts = dict.fromkeys(self.words[index].text for index in eliminated)
        line = Text("eliminates: " + " ".join(texts), ELIMINATED)
        line.truncate(width, overflow="ellipsis")
        return [line]

    def _fragments(self, chosen: tuple[int, ...], dot: str) -> list[Fragment]:
        """Write the chosen words alone; a dot stands where the beginning of a word is missing."""
        fragments = []
        before = -1
        for index in chosen:
            word = self.words[index]
            joins = word.joins and before == index - 1
            text = word.text if joins or not word.continues else dot + word.text
            fragments.append(Fragment(text, self._style(index), joins))
            before = index
        return fragments

    def _style(self, index: int) -> str:
        return SURVIVES if self.last[index] == len(self.trace.retained) else RETAINED

    # ---- around them ---------------------------------------------------------------------

    def _headline(self) -> str:
        strategy = STRATEGIES[self.trace.strategy].title
        return f"{len(self.words)} word-vectors, {len(self.trace.retained)} encoders, {strategy}"

    def _summary(self, width: int, dot: str) -> Iterator[Text]:
        last = survivors(self.trace)
        named = self._fragments(last[:SURVIVORS], dot)
        if len(last) > SURVIVORS:
            named += _fragments_of(f"+{len(last) - SURVIVORS} more", ELIMINATED)
        with_elimination, without = processed(self.trace)
        figures = f"{with_elimination:,} of {without:,} word-vectors, {reduction(self.trace):.1f}x fewer"
        yield from _fact("survive", named, width)
        yield from _fact("processed", _fragments_of(figures), width)
        if answer := verdict(self.trace):
            yield from _fact("predicted", _fragments_of(answer, "bold"), width)


def _fact(name: str, fragments: list[Fragment], width: int) -> Iterator[Text]:
    """Write a line of the summary; further lines stand below its text, not below its name."""
    side = f"{name:<11}"
    for line in _broken(fragments, width - len(side)):
        yield Text.assemble((side, ELIMINATED), line)
        side = " " * len(side)


def _fragments_of(text: str, style: str = "") -> list[Fragment]:
    return [Fragment(word, style, False) for word in text.split()]


def _row(name: str, count: str, lines: list[Text], style: str = "") -> Iterator[Text]:
    """Put the encoder and its count before the first line, and blanks before the others."""
    side = f"{name:>7}  {count:>8}  "
    for line in lines:
        yield Text.assemble((side, style), line, style=style, no_wrap=True, overflow="ellipsis")
        side = " " * len(side)


def _side() -> int:
    return len(next(_row("", "", [Text()])))


def _broken(fragments: list[Fragment], width: int) -> list[Text]:
    """Break a row into lines of at most `width` cells, between words where that is possible."""
    lines = [Text()]
    for text, style, joins, room in _with_room(fragments, width):
        gap = "" if joins or not lines[-1] else " "
        if lines[-1] and lines[-1].cell_len + len(gap) + room > width:
            lines.append(Text())
            gap = ""
        lines[-1].append(gap).append(text, style)
    return lines


def _with_room(fragments: list[Fragment], width: int) -> Iterator[tuple[str, str, bool, int]]:
    """Give each fragment the cells it needs: the first piece of a word speaks for the whole word.

    A word wider than a line, such as a text without spaces, may break between any two pieces.
    """
    for number, (text, style, joins) in enumerate(fragments):
        room = own = cell_len(text)
        if not joins:
            for piece in fragments[number + 1 :]:
                if not piece.joins or room > width:
                    break
                room += cell_len(piece.text)
        yield text, style, joins, room if room <= width else own

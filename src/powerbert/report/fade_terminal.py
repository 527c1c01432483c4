"""The fade in a terminal: one row per encoder, retained words standing, eliminated ones as dots.

Paper: Anecdotal Examples
"""

from collections.abc import Iterable, Iterator

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from powerbert.elimination.selection import STRATEGIES
from powerbert.modeling.trace import Trace
from powerbert.report.words import Word, chosen, processed, readable, runs, verdict

SURVIVES, STANDS, ELIMINATED = "bold green", "bold cyan", "bright_black"
ALIGNED_LINES = 3  # a sentence of more lines is long: its rows hold retained words only
LISTED_LINES = 4  # a row of a long text with more lines of retained words names the eliminated ones
SURVIVORS = 40  # words that the summary names
LEAST_WIDTH = 12

Piece = tuple[Text, bool]  # a word or the dots in its place, and whether it joins the piece before it


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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the rows out for the width at hand."""
        dot = "." if options.ascii_only else "·"
        width = max(options.max_width - len(_side()), LEAST_WIDTH)
        total, encoders = len(self.words), len(self.trace.retained)
        before = everything = tuple(range(total))
        aligned = len(_broken(self._aligned(everything, dot), width)) <= ALIGNED_LINES
        left_out = len(self.trace.retention) - encoders
        running = f"{encoders} encoders" + f" ({left_out} left out)" * (left_out > 0)
        headline = f"{total} word-vectors, {running}, {STRATEGIES[self.trace.strategy].title}"
        yield from _broken(_pieces(headline, "bold"), options.max_width)
        yield Text()
        yield from _row(_side("encoder", "retained"), [Text("words", ELIMINATED)], ELIMINATED)
        for name, retained in [("input", everything), *runs(self.trace.retained)]:
            standing = self._aligned(retained, dot)
            lines = _broken(standing, width) if aligned else self._listed(retained, before, width, dot)
            yield from _row(_side(name, f"{len(retained)}/{total}"), lines)
            before = retained
        yield Text()
        yield from self._summary(options.max_width, dot)

    def _aligned(self, retained: tuple[int, ...], dot: str) -> list[Piece]:
        """Write the whole sentence with dots as wide as the eliminated words.

        Equal widths break into lines at equal places, so a word stays in its column in every row.
        """
        standing = frozenset(retained)
        return [
            self._piece(word) if i in standing else (Text(dot * cell_len(word.text), ELIMINATED), word.joins)
            for i, word in enumerate(self.words)
        ]

    def _listed(self, retained: tuple[int, ...], before: tuple[int, ...], width: int, dot: str) -> list[Text]:
        """Write the retained words of a long text; while they are too many, the eliminated ones.

        Pages of nearly the same words tell nothing; what this encoder eliminated does.
        """
        lines = _broken(map(self._piece, chosen(self.words, retained, dot)), width)
        if len(lines) <= LISTED_LINES:
            return lines
        eliminated = sorted(set(before) - set(retained))
        if not eliminated:
            return [*lines[: LISTED_LINES - 1], Text("...", ELIMINATED)]
        line = Text("eliminates: " + " ".join(dict.fromkeys(self.words[i].text for i in eliminated)), ELIMINATED)
        line.truncate(width, overflow="ellipsis")
        return [line]

    def _piece(self, word: Word) -> Piece:
        return Text(word.text, SURVIVES if word.last == len(self.trace.retained) else STANDS), word.joins

    def _summary(self, width: int, dot: str) -> Iterator[Text]:
        """Further lines of a fact stand below its text, not below its name."""
        last = self.trace.retained[-1]
        named = [self._piece(word) for word in chosen(self.words, last[:SURVIVORS], dot)]
        if len(last) > SURVIVORS:
            named += _pieces(f"+{len(last) - SURVIVORS} more", ELIMINATED)
        with_elimination, without, fewer = processed(self.trace)
        figures = _pieces(f"{with_elimination:,} of {without:,} word-vectors, {fewer:.1f}x fewer")
        label, score = verdict(self.trace)
        answer = _pieces(f"{label} ({score})" if score else label, "bold")
        for name, pieces in {"survive": named, "processed": figures, "predicted": answer}.items():
            if pieces:
                side = f"{name:<11}"
                yield from _row(side, _broken(pieces, width - len(side)), ELIMINATED)


def _pieces(text: str, style: str = "") -> list[Piece]:
    return [(Text(word, style), False) for word in text.split()]


def _side(name: str = "", count: str = "") -> str:
    """The encoder and its count, before the words."""
    return f"{name:>7}  {count:>8}  "


def _row(side: str, lines: list[Text], style: str = "") -> Iterator[Text]:
    """Put what is at the side before the first line, and blanks before the others."""
    for line in lines:
        yield Text.assemble((side, style), line, no_wrap=True, overflow="ellipsis")
        side = " " * len(side)


def _broken(pieces: Iterable[Piece], width: int) -> list[Text]:
    """Break a row into lines of at most `width` cells, between words where that is possible.

    A word wider than a line, such as a text without spaces, may break between any two pieces.
    """
    words: list[list[Text]] = []
    for text, joins in pieces:
        if joins and words:
            words[-1].append(text)
        else:
            words.append([text])
    lines = [Text()]
    for word in words:
        whole = Text.assemble(*word)
        for i, part in enumerate([whole] if whole.cell_len <= width else word):
            gap = " " if i == 0 and lines[-1] else ""
            if lines[-1] and lines[-1].cell_len + len(gap) + part.cell_len > width:
                lines.append(Text())
                gap = ""
            lines[-1].append(gap).append_text(part)
    return lines

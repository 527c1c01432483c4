"""Text to word pieces, safely: text is cut before it is tokenised and cannot spell special tokens."""

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils.generic import PaddingStrategy

from powerbert.errors import PowerBertError

CHARACTERS_PER_TOKEN = 32  # more per word piece are never read: 10 MB of words took 34 s to tokenise to 128
INPUTS = ("input_ids", "attention_mask", "token_type_ids")  # what a model may read of a row

Text = str | tuple[str, str]  # a text, or a pair of texts
Row = dict[str, list[int]]  # one input without padding: its word pieces under the names of `INPUTS`

_READ: dict[str, Callable[[Any], list[int]]] = {  # of an encoding of the backend: each asked for makes a new list
    "input_ids": attrgetter("ids"),
    "attention_mask": lambda encoding: [1] * len(encoding),
    "token_type_ids": attrgetter("type_ids"),
}
_NO_PADDING = PaddingStrategy.DO_NOT_PAD
_GAP = re.compile(rf"(?<!\s)\s{{{CHARACTERS_PER_TOKEN},}}")


class Tokenised(NamedTuple):
    """Texts as rows."""

    rows: list[Row]
    cut: list[bool]  # whether some of the text is not in its row
    texts: list[Text]  # as they were tokenised: cleaned
    encodings: Sequence[Any]  # the tokenizer's own, with the characters of each word piece; () of a slow one


def tokenise(
    tokenizer: Any,
    texts: Sequence[Text],
    longest: int,
    inputs: Sequence[str] = INPUTS,
    truncation: str = "longest_first",
) -> Tokenised:
    """Tokenise texts or pairs, also empty ones, each to at most `longest` word pieces.

    inputs: what the model reads of what the tokenizer makes.
    truncation: where a pair is too long, "longest_first" cuts the longer text, "only_first" the first.
    """
    if not texts:
        return Tokenised([], [], [], ())
    cleaned = [_clean(text, longest) for text in texts]
    ready = [text for text, _ in cleaned]
    names = [name for name in inputs if name in tokenizer.model_input_names]
    if tokenizer.is_fast:
        encodings = _encodings(tokenizer, ready, longest, truncation)
        rows = [{name: _READ[name](one) for name in names} for one in encodings]
    else:
        encodings = ()
        made = tokenizer(ready, truncation=truncation, max_length=longest, split_special_tokens=True)
        rows = [dict(zip(names, row, strict=True)) for row in zip(*(made[name] for name in names), strict=True)]
    cut = [  # a full row may hold all of its text: a slow tokenizer does not say so, and we assume that it was cut
        capped or (len(row["input_ids"]) >= longest and (not encodings or bool(encodings[i].overflowing)))
        for i, (row, (_, capped)) in enumerate(zip(rows, cleaned, strict=True))
    ]
    return Tokenised(rows, cut, ready, encodings)


def _encodings(tokenizer: Any, texts: Sequence[Text], longest: int, truncation: str) -> Sequence[Any]:
    """What transformers' own call asks its backend for.

    That call then makes lists of everything, also of masks that are all 1, and copies them: a third of its time.
    """
    tokenizer.set_truncation_and_padding(_NO_PADDING, TruncationStrategy(truncation), longest, 0, None, None)
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = True
    found: Sequence[Any] = backend.encode_batch(texts)
    return found


def clean(text: str, longest: int) -> tuple[str, bool]:
    """Cap the characters and replace lone surrogates, which no tokenizer accepts; tell whether the cap bit.

    A text over the cap first loses what no model reads: long stretches of white space.
    """
    cap = longest * CHARACTERS_PER_TOKEN
    if over := len(text) > cap:
        text = _GAP.sub(" ", text).strip()
        text, over = text[:cap], len(text) > cap
    return (text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")), over


def check_texts(texts: Sequence[object], first: int = 0) -> None:
    """Refuse a text or pair without a word, by its number, counted from `first`."""
    for number, text in enumerate(texts, first):
        parts = text if isinstance(text, tuple) else (text,)
        if not all(isinstance(part, str) and part.strip() for part in parts):
            raise PowerBertError(f"text {number} is empty or not text", remedy="give at least one word")


def _clean(text: Text, longest: int) -> tuple[Text, bool]:
    if isinstance(text, str):
        return clean(text, longest)
    (first, one), (second, other) = (clean(part, longest) for part in text)
    return (first, second), one or other

"""Text to tokens for training: a split is tokenised once, without padding."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow
from datasets import Dataset

from powerbert.errors import DataError
from powerbert.tasks.lengths import LENGTHS
from powerbert.tasks.task import CHOICES, ROWS_AT_ONCE, Split, Task
from powerbert.text.tokenise import INPUTS, Row, Text, clean, tokenise

TYPES = dict(zip(INPUTS, (pyarrow.int32(), pyarrow.int8(), pyarrow.int8()), strict=True))
BLANK = re.compile("_+")

_Columns = Mapping[str, Sequence[Any]]


def encode_split(split: Split, task: Task, tokenizer: Any, max_length: int) -> Dataset:
    """Tokenise a normalised split to at most `max_length` (N) word-vectors per input.

    Columns: what the tokenizer makes for its model (`input_ids`, `attention_mask`, `token_type_ids` if
    used), `labels` if the split has any, and `length`, the real word-vectors of the row. For multiple
    choice each column holds four sequences per row and `length` is the longest.
    """
    batches = split.dataset.iter(batch_size=ROWS_AT_ONCE)
    tables = [_table(encode_rows(batch, task, tokenizer, max_length), batch, task) for batch in batches]
    return Dataset(pyarrow.concat_tables(tables))


def encode_rows(rows: _Columns, task: Task, tokenizer: Any, max_length: int) -> list[Row]:
    """Tokenise checked rows, given as columns; for multiple choice every choice becomes an input."""
    room = max_length - tokenizer.num_special_tokens_to_add(pair=len(task.columns) > 1)
    if room < 2:
        raise DataError("N leaves no room for text", got=max_length, rule="N is at least 8")
    if task.kind == "multiple-choice":
        return _choices(rows, tokenizer, max_length)
    return tokenise(tokenizer, texts_of(rows), max_length).rows


def measure_lengths(split: Split, task: Task, tokenizer: Any, rows: int = 10_000, seed: int = 0) -> list[int]:
    """Word-vectors of each input, for `lengths.choose_max_length`; more than 512 counts as 512.

    At most `rows` rows are measured, a seeded part: the rule asks for a percentile. For multiple choice
    every choice is an input.
    """
    part = split.part(rows, seed) if rows < len(split) else split
    encoded = encode_split(part, task, tokenizer, LENGTHS[-1])
    if task.kind == "multiple-choice":
        return [len(choice) for row in encoded["input_ids"][:] for choice in row]
    lengths: list[int] = encoded["length"][:]
    return lengths


def question_and_option(question: str, option: str) -> str:
    """The second text of a RACE choice: the option fills the question's blanks, else it follows."""
    if "_" in question:
        return BLANK.sub(lambda _: option, question)
    return f"{question} {option}"


def texts_of(rows: _Columns) -> list[Text]:
    """The texts or pairs of normalised rows."""
    if "text_pair" in rows:
        return list(zip(rows["text"], rows["text_pair"], strict=True))
    return list(rows["text"])


def _choices(batch: _Columns, tokenizer: Any, max_length: int) -> list[Row]:
    """Four inputs per question, article first; only the article is cut."""
    articles = [article for article in batch["article"] for _ in range(CHOICES)]
    seconds = [
        clean(question_and_option(question, option), max_length)[0]
        for question, options in zip(batch["question"], batch["options"], strict=True)
        for option in options
    ]
    pairs = list(zip(articles, _shortened(seconds, tokenizer, max_length), strict=True))
    return tokenise(tokenizer, pairs, max_length, truncation="only_first").rows


def _shortened(seconds: list[str], tokenizer: Any, max_length: int) -> list[str]:
    """Cut a question and option that leave no room for an article to half of the room.

    They are cut from the left, because the option is last. Without this the tokenizer, told to cut the
    article alone, raises where nothing of the article would remain.
    """
    room = max_length - tokenizer.num_special_tokens_to_add(pair=True)
    spans = _spans(seconds, tokenizer)
    return [
        _cut(text, tokenizer, room) if len(tokens) >= room else text
        for text, tokens in zip(seconds, spans, strict=True)
    ]


def _cut(text: str, tokenizer: Any, room: int) -> str:
    """The end of a text in less than `room` tokens; cut again where half a word became more tokens."""
    while len(tokens := _spans([text], tokenizer)[0]) >= room:
        text = text[tokens[-(room // 2)][0] or 1 :]
    return text


def _spans(texts: list[str], tokenizer: Any) -> list[list[tuple[int, int]]]:
    """First and last character of each token."""
    options = {"add_special_tokens": False, "return_offsets_mapping": True, "split_special_tokens": True}
    spans: list[list[tuple[int, int]]] = tokenizer(texts, **options)["offset_mapping"]
    return spans


def _table(rows: list[Row], batch: _Columns, task: Task) -> pyarrow.Table:
    """One batch as Arrow columns, in the smallest whole numbers that hold them."""
    columns: dict[str, Any] = {
        name: pyarrow.array([row[name] for row in rows], type=pyarrow.list_(TYPES[name])) for name in rows[0]
    }
    lengths = [len(row["input_ids"]) for row in rows]
    if task.kind == "multiple-choice":
        starts = range(0, len(rows), CHOICES)
        offsets = pyarrow.array([*starts, len(rows)], type=pyarrow.int32())
        columns = {name: pyarrow.ListArray.from_arrays(offsets, choices) for name, choices in columns.items()}
        lengths = [max(lengths[at : at + CHOICES]) for at in starts]
    if "label" in batch:
        kind = pyarrow.float32() if task.kind == "regression" else pyarrow.int64()
        columns["labels"] = pyarrow.array(batch["label"], type=kind)
    columns["length"] = pyarrow.array(lengths, type=pyarrow.int32())
    return pyarrow.table(columns)

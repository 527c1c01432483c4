"""Text to tokens for training, once and without padding; and the rule for N where none is given.

Paper: Maximum Input Sequence Length
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow
from datasets import Dataset

from powerbert.errors import DataError
from powerbert.tasks.task import CHOICES, ROWS_AT_ONCE, Split, Task
from powerbert.text.batches import TEACHER
from powerbert.text.tokenise import INPUTS, Row, Text, clean, tokenise

LENGTHS = (64, 128, 256, 512)  # the values of N that the paper chooses from
TYPES = dict(zip(INPUTS, (pyarrow.int32(), pyarrow.int8(), pyarrow.int8()), strict=True))

_Columns = Mapping[str, Sequence[Any]]


def covering_length(lengths: Iterable[int]) -> int:
    """N' of the paper: the least length such that at most 1 % of the inputs are longer."""
    longest_first = sorted(lengths, reverse=True)
    if not longest_first:
        raise DataError("there are no inputs to choose N from")
    return longest_first[len(longest_first) // 100]  # whole numbers: exactly 1 % is still allowed


def choose_max_length(lengths: Iterable[int], limit: int | None = None) -> int:
    """N: the one of 64, 128, 256, 512 nearest to N', and the larger of two that are equally near.

    `limit` is the model's longest input, perhaps below 64. As in the paper, up to half of a gap is cut off from N'.
    """
    wanted = covering_length(lengths)
    choices = [length for length in LENGTHS if limit is None or length <= limit] or [limit or LENGTHS[0]]
    return min(choices, key=lambda length: (abs(length - wanted), -length))


def measure_lengths(split: Split, task: Task, tokenizer: Any, rows: int = 10_000, seed: int = 0) -> list[int]:
    """Word-vectors of each input or choice, at most 512, in a seeded part of so many rows: the rule asks for 1 %."""
    part = split.part(rows, seed) if rows < len(split) else split
    batches = part.dataset.iter(batch_size=ROWS_AT_ONCE)
    return [len(row["input_ids"]) for batch in batches for row in encode_rows(batch, task, tokenizer, LENGTHS[-1])]


def encode_split(split: Split, task: Task, tokenizer: Any, max_length: int) -> Dataset:
    """Tokenise a normalised split to at most `max_length` (N) word-vectors per input.

    Columns: what the tokenizer makes for its model (`input_ids`, `attention_mask`, `token_type_ids` if used), `labels`
    if there are any, a model's answers if they are to be taught, and `length`, the real word-vectors; for multiple
    choice of the longest of a row's four sequences.
    """
    batches = split.dataset.iter(batch_size=ROWS_AT_ONCE)
    tables = [_table(encode_rows(batch, task, tokenizer, max_length), batch, task) for batch in batches]
    return Dataset(pyarrow.concat_tables(tables))


def encode_rows(rows: _Columns, task: Task, tokenizer: Any, max_length: int) -> list[Row]:
    """Tokenise checked rows, given as columns; for multiple choice every choice becomes an input."""
    room = max_length - tokenizer.num_special_tokens_to_add(pair=len(task.columns) > 1)
    if room < 2:
        raise DataError("N leaves no room for text", got=max_length, rule="N is at least 8")
    if task.kind != "multiple-choice":
        return tokenise(tokenizer, texts_of(rows), max_length).rows
    # Four inputs per question, article first; only the article is cut, and a tokenizer raises where none of it remains.
    questions = zip(rows["question"], rows["options"], strict=True)
    seconds = [question_and_option(question, option) for question, options in questions for option in options]
    seconds = _shortened([clean(second, max_length)[0] for second in seconds], tokenizer, room)
    articles = [article for article in rows["article"] for _ in range(CHOICES)]
    return tokenise(tokenizer, list(zip(articles, seconds, strict=True)), max_length, truncation="only_first").rows


def question_and_option(question: str, option: str) -> str:
    """The second text of a RACE choice: the option fills the question's blanks, else it follows."""
    return re.sub("_+", lambda _: option, question) if "_" in question else f"{question} {option}"


def texts_of(rows: _Columns) -> list[Text]:
    """The texts or pairs of normalised rows."""
    return list(zip(rows["text"], rows["text_pair"], strict=True) if "text_pair" in rows else rows["text"])


def _shortened(seconds: list[str], tokenizer: Any, room: int) -> list[str]:
    """Cut what leaves no room for an article to half of the room, from the left: the option is last."""
    options = {"add_special_tokens": False, "return_offsets_mapping": True, "split_special_tokens": True}
    spans = tokenizer(seconds, **options)["offset_mapping"]  # first and last character of each token
    for i, tokens in enumerate(spans):
        while len(tokens) >= room:  # again where half a word became more tokens
            seconds[i] = seconds[i][tokens[-(room // 2)][0] or 1 :]
            tokens = tokenizer(seconds[i], **options)["offset_mapping"]
    return seconds


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
    if TEACHER in batch:
        columns[TEACHER] = pyarrow.array(batch[TEACHER], type=pyarrow.list_(pyarrow.float32()))
    columns["length"] = pyarrow.array(lengths, type=pyarrow.int32())
    return pyarrow.table(columns)

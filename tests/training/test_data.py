"""Data for one task and model: its digest, and what N it is cut to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from models import tiny
from runs import small_data
from texts import tokenizer_for

from powerbert.errors import DataError
from powerbert.training.data import Data, encode_data


def test_the_digest_names_the_content_of_all_splits():
    data, splits = small_data(), dict(small_data().splits)
    assert data.digest == small_data().digest
    assert data.digest != small_data(rows=46).digest
    assert Data.of(data.task, {"train": splits["dev"], "dev": splits["train"]}).digest != data.digest


@pytest.mark.parametrize("length", [0, -1, 7])
def test_a_length_without_room_for_text_is_refused(length):
    with pytest.raises(DataError, match="--max-length is too small"):
        small_data(max_length=length)


@pytest.mark.parametrize(
    ("given", "of_the_task", "expected", "why"),
    [
        (16, 32, 16, "as given"),
        (None, 32, 32, "of the paper"),
        (None, None, 40, "by the paper's rule"),  # 64, and the model reads 40
        (512, None, 40, "the longest input of the model"),
    ],
)
def test_n_is_as_given_else_the_tasks_else_the_papers_rule(given, of_the_task, expected, why):
    data = small_data(max_length=given)
    data = replace(data, task=replace(data.task, max_length=of_the_task))
    encoded = encode_data(data, tiny("bert"), tokenizer_for())
    assert (encoded.max_length, encoded.task.max_length) == (expected, expected)
    assert why in encoded.why
    assert max(encoded.splits["train"]["length"][:]) <= expected

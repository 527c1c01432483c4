"""Tokenised splits: what the tokenizer itself says, cut as the task asks, padded to the batch's longest.

The paper's rule for N, against its own words.
"""

from __future__ import annotations

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from powerbert.errors import DataError
from powerbert.tasks.encoding import (
    LENGTHS,
    choose_max_length,
    covering_length,
    encode_split,
    measure_lengths,
    question_and_option,
)
from powerbert.tasks.readers import read_split, task_data
from powerbert.tasks.registry import find_task, own_task

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*"abcdefghijklmnopqrstuvwxyz0123456789_.?[]", "pad", "sep", "film"]
VOCABULARY = {word: i for i, word in enumerate([*SPECIAL, *WORDS, *(f"##{letter}" for letter in WORDS)])}


@pytest.fixture(scope="module")
def tokenizer():
    backend = Tokenizer(models.WordPiece(VOCABULARY, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **dict(zip(names, SPECIAL, strict=True)),
    )


def single(*texts, task="sst-2"):
    data = datasets.Dataset.from_dict({"text": list(texts), "label": [i % 2 for i in range(len(texts))]})
    return read_split(data, find_task(task))


def race(article, question, options=("a", "b", "c", "d"), answer="C"):
    row = {"article": article, "question": question, "options": list(options), "answer": answer}
    return read_split(datasets.Dataset.from_list([row]), find_task("race"))


def words(tokenizer, ids):
    return " ".join(tokenizer.convert_ids_to_tokens(ids))


def test_single_texts_are_what_the_tokenizer_makes(tokenizer):
    encoded = encode_split(single("a b", "film"), find_task("sst-2"), tokenizer, 8)
    assert encoded.column_names == ["input_ids", "attention_mask", "token_type_ids", "labels", "length"]
    assert words(tokenizer, encoded[0]["input_ids"]) == "[CLS] a b [SEP]"
    assert encoded[1]["attention_mask"] == [1, 1, 1]
    assert encoded["length"] == [4, 3]
    assert encoded["labels"] == [0, 1]


def test_a_text_cannot_spell_special_tokens(tokenizer):
    encoded = encode_split(single("a [SEP] b"), find_task("sst-2"), tokenizer, 16)
    assert words(tokenizer, encoded[0]["input_ids"]) == "[CLS] a [ sep ] b [SEP]"


def test_a_huge_text_is_cut(tokenizer):
    encoded = encode_split(single("a " * 50_000), find_task("sst-2"), tokenizer, 16)
    assert encoded["length"] == [16]


@given(st.integers(0, 20), st.integers(0, 20), st.integers(8, 24))
def test_pairs_lose_from_the_longer_text_first(tokenizer, first, second, limit):
    texts = "a " * first + "x", "b " * second + "x"
    data = datasets.Dataset.from_dict({"text_a": [texts[0]], "text_b": [texts[1]], "label": [2.5]})
    task = find_task("sts-b")
    encoded = encode_split(read_split(data, task), task, tokenizer, limit)
    sizes = [encoded[0]["token_type_ids"].count(side) for side in (0, 1)]
    assert sum(sizes) == encoded[0]["length"] == min(first + second + 2 + 3, limit)
    if encoded[0]["length"] == limit:
        whole = (first + 1, second + 1)
        kept = (sizes[0] - 2, sizes[1] - 1)
        assert abs(kept[0] - kept[1]) <= 1 or min(whole) == kept[whole.index(min(whole))]
    assert encoded[0]["labels"] == 2.5


def test_an_option_fills_the_blank_or_follows():
    assert question_and_option("He _ home.", "went") == "He went home."
    assert question_and_option("_ and ___ ?", r"\1") == r"\1 and \1 ?"
    assert question_and_option("Who?", "He") == "Who? He"


def test_race_has_four_inputs_article_first_and_only_the_article_is_cut(tokenizer):
    data = race("a " * 100, "is _ it?", ["x", "y", "z", "film"])
    encoded = encode_split(data, find_task("race"), tokenizer, 20)
    row = encoded[0]
    assert [len(choice) for choice in row["input_ids"]] == [20] * 4
    assert words(tokenizer, row["input_ids"][3]) == f"[CLS] {'a ' * 11}[SEP] i ##s film i ##t ? [SEP]"
    assert row["labels"] == 2
    assert row["length"] == 20


@given(
    st.integers(0, 60),
    st.text("ab_? 中é😀", max_size=80),
    st.text("abc 中é😀", min_size=1, max_size=60).filter(str.strip),
    st.integers(8, 40),
)
def test_race_always_fits_and_keeps_the_end_of_the_option(tokenizer, article, question, option, limit):
    data = race("a " * article + "a", f"q{question}?", [option + " film"] * 4)
    encoded = encode_split(data, find_task("race"), tokenizer, limit)
    for ids, types in zip(encoded[0]["input_ids"], encoded[0]["token_type_ids"], strict=True):
        assert len(ids) <= limit
        assert types.count(0) >= 3  # CLS, SEP and some of the article
        if "_" not in question:
            assert words(tokenizer, ids[-2:]) == "film [SEP]"


def test_race_lengths_are_those_of_every_choice(tokenizer):
    data = race("a b c", "q?", ["x", "x x", "x", "x"])
    assert measure_lengths(data, find_task("race"), tokenizer) == [9, 10, 9, 9]
    assert encode_split(data, find_task("race"), tokenizer, 64)["length"] == [10]


def test_unlabelled_and_regression_columns(tokenizer):
    data = datasets.Dataset.from_dict({"text": ["a"], "label": [3]})
    task = own_task("text", kind="regression")
    encoded = encode_split(read_split(data, task), task, tokenizer, 8)
    assert encoded.features["labels"].dtype == "float32"
    assert "labels" not in encode_split(read_split(data, task, labelled=False), task, tokenizer, 8).column_names


def test_the_remarks_stay_with_the_rows_and_nothing_is_written(tokenizer):
    part = single("a", "b", "c").part(2, 1)
    encoded = encode_split(part, find_task("sst-2"), tokenizer, 8)
    assert part.notes == ("2 of 3 rows, shuffled with seed 1",)
    assert len(encoded) == 2
    assert encoded.cache_files == []


def test_batches_of_a_thousand_join_up(tokenizer):
    texts = [" ".join("a" * (1 + i % 5)) for i in range(2345)]
    encoded = encode_split(single(*texts), find_task("sst-2"), tokenizer, 8)
    assert encoded["length"] == [3 + i % 5 for i in range(2345)]
    assert encoded[2344]["labels"] == 0


def test_too_small_an_n(tokenizer):
    with pytest.raises(DataError, match="no room"):
        encode_split(single("a"), find_task("sst-2"), tokenizer, 3)


def test_real_text_through_a_real_tokenizer(shared):
    from transformers import AutoTokenizer

    real = AutoTokenizer.from_pretrained(shared / "models" / "gte-small")
    task = find_task("rte")
    dev = task_data(shared / "data", task, ["dev"])["dev"]
    encoded = encode_split(dev, task, real, 64)
    assert max(encoded["length"]) == 64
    again = real(dev.dataset["text"][0], dev.dataset["text_pair"][0], truncation=True, max_length=64)
    assert encoded[0]["input_ids"] == again["input_ids"]
    assert encoded[0]["token_type_ids"] == again["token_type_ids"]
    assert sum(measure_lengths(dev, task, real)) / len(dev) == pytest.approx(70.5, abs=3)  # facts.md, 1


# ---- N -----------------------------------------------------------------------------------

some_lengths = st.lists(st.integers(1, 1000), min_size=1, max_size=400)


@given(some_lengths)
def test_covering_length_is_the_least_with_at_most_one_percent_longer(lengths):
    least = next(n for n in range(0, 1001) if sum(length > n for length in lengths) * 100 <= len(lengths))
    # A length that occurs: below the shortest input everything is longer, unless there is nothing left.
    assert covering_length(lengths) == least


@given(some_lengths)
def test_n_is_a_nearest_choice_and_the_larger_of_two(lengths):
    wanted, chosen = covering_length(lengths), choose_max_length(lengths)
    distances = {length: abs(length - wanted) for length in LENGTHS}
    assert chosen == max(length for length in LENGTHS if distances[length] == min(distances.values()))


@given(some_lengths, st.integers(1, 600))
def test_n_never_exceeds_the_model(lengths, limit):
    chosen = choose_max_length(lengths, limit)
    assert chosen <= limit
    assert chosen in LENGTHS or limit < LENGTHS[0]


@pytest.mark.parametrize(
    ("length", "chosen"), [(1, 64), (95, 64), (96, 128), (191, 128), (192, 256), (383, 256), (384, 512), (9000, 512)]
)
def test_ties_go_to_the_larger(length, chosen):
    assert choose_max_length([length]) == chosen


def test_exactly_one_percent_may_be_longer():
    assert covering_length([10] * 99 + [500]) == 10
    assert covering_length([10] * 98 + [500]) == 500
    assert covering_length([10] * 198 + [500] * 2) == 10


def test_no_inputs():
    with pytest.raises(DataError, match="no inputs"):
        choose_max_length([])

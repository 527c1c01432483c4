"""Text to word pieces: what the tokenizer itself makes of it, bounded, and honest about what was left out."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from texts import tokenizer_for

from powerbert.errors import PowerBertError
from powerbert.text.tokenise import CHARACTERS_PER_TOKEN, check_texts, clean, tokenise

TOKENIZER = tokenizer_for(10_000)
LONGEST = 12
CAP = LONGEST * CHARACTERS_PER_TOKEN
TEXT = st.text(st.sampled_from("ab \n\t\u00a0\ud800é"), max_size=80)
LONG = st.builds(lambda parts: "".join(text * times for text, times in parts),
                 st.lists(st.tuples(TEXT, st.integers(1, 40)), max_size=6))  # fmt: skip


def words(text, longest=LONGEST):
    made = tokenise(TOKENIZER, [text], longest)
    return TOKENIZER.convert_ids_to_tokens(made.rows[0]["input_ids"]), made.cut[0]


@given(TEXT | LONG, st.integers(1, 20))
def test_cleaning_is_bounded_done_once_and_leaves_short_text_alone(text, longest):
    cleaned, cut = clean(text, longest)
    assert len(cleaned) <= longest * CHARACTERS_PER_TOKEN
    assert clean(cleaned, longest) == (cleaned, False)
    cleaned.encode()  # no lone surrogate is left
    if len(text) <= longest * CHARACTERS_PER_TOKEN:
        assert (cleaned, cut) == (text.replace("\ud800", "?"), False)


@given(TEXT | LONG)
def test_only_white_space_is_lost_where_nothing_is_said_to_be_cut(text):
    cleaned, cut = clean(text, LONGEST)
    whole, rest = "".join(text.replace("\ud800", "?").split()), "".join(cleaned.split())
    assert whole.startswith(rest)
    if not cut:
        assert whole == rest


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4), st.sampled_from(["longest_first", "only_first"]))
def test_word_pieces_are_those_of_the_tokenizers_own_call(pairs, truncation):
    pairs = [(f"{first} good film", clean(second, LONGEST)[0][:4]) for first, second in pairs]
    for texts in (pairs, [clean(first, LONGEST)[0] for first, _ in pairs]):
        made = tokenise(TOKENIZER, texts, LONGEST, truncation=truncation)
        TOKENIZER.backend_tokenizer.encode_special_tokens = False  # the call sets all that it needs itself
        own = TOKENIZER(made.texts, truncation=truncation, max_length=LONGEST, split_special_tokens=True)
        assert made.rows == [{name: own[name][i] for name in own} for i in range(len(texts))]


@given(st.lists(st.sampled_from(["good", "film", "bad", "acting"]), max_size=14))
def test_a_text_is_said_to_be_cut_only_where_the_tokenizer_alone_would_give_more(chosen):
    text = " ".join(chosen)
    whole = TOKENIZER(text)["input_ids"]
    rows, cut, *_ = tokenise(TOKENIZER, [text], LONGEST)
    assert cut == [len(whole) > LONGEST]
    assert rows[0]["input_ids"] == [*whole[:-1][: LONGEST - 1], whole[-1]]


@given(st.integers(0, 9), st.integers(0, 9))
def test_a_pair_is_said_to_be_cut_only_where_it_is(first, second):
    pair = "good " * first, "film " * second
    rows, cut, *_ = tokenise(TOKENIZER, [pair], LONGEST)
    assert cut == [first + second + 3 > LONGEST]
    assert len(rows[0]["input_ids"]) == min(first + second + 3, LONGEST)


@pytest.mark.parametrize("text", [" " * 5000 + "good film", "\n" * 5000 + "good film", "good" + "\t" * 5000 + "film"])
def test_white_space_does_not_use_up_the_cap(text):
    assert words(text) == (["[CLS]", "good", "film", "[SEP]"], False)
    assert words(text + " " * 5000) == (["[CLS]", "good", "film", "[SEP]"], False)


def test_wherever_the_cap_bites_the_text_is_said_to_be_cut():
    assert words("x" * (CAP + 1) + " good film")[1]
    assert words(("x" * CAP + " ", "good"))[1] is False
    assert words(("good", "x" * CAP + " bad"))[1]


def test_text_cannot_spell_special_tokens():
    tokens, _ = words("good [SEP] film [PAD]", 40)
    assert tokens.count("[SEP]") == 1
    assert "[PAD]" not in tokens


def test_a_huge_text_is_cut_before_it_is_tokenised_whatever_it_is_made_of():
    for text in ("good " * 10**6, " " * 10**7, (" " * 31 + "a") * 10**5, "x" * 10**7):
        start = time.process_time()
        assert len(words(text, 40)[0]) <= 40
        assert time.process_time() - start < 5


def test_the_model_gets_the_inputs_that_it_reads():
    assert set(tokenise(TOKENIZER, ["good"], 8).rows[0]) == {"input_ids", "attention_mask"}
    assert set(tokenise(TOKENIZER, ["good"], 8, ("input_ids",)).rows[0]) == {"input_ids"}
    assert tokenise(TOKENIZER, [], 8).rows == []


@pytest.mark.parametrize("texts", [[""], ["good", "  "], [None], [("good", "")], [5]], ids=str)
def test_a_text_without_a_word_is_refused_by_its_number(texts):
    with pytest.raises(PowerBertError, match=f"text {len(texts) + 6} is empty"):
        check_texts(texts, first=7)

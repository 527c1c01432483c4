import pytest

from powerbert.modeling.trace import Trace
from powerbert.report.words import (
    Word,
    last_encoder,
    processed,
    readable,
    reduction,
    runs,
    sentence,
    share,
    survivors,
    trace_json,
    verdict,
    visible,
)
from powerbert.retention import RetentionConfiguration

TOKENS = ("[CLS]", "a", "fad", "##ing", "smile", ".", "[SEP]")
RETAINED = ((0, 2, 3, 4), (0, 2, 3, 4), (0, 3), (0,))


def a_trace(**changes):
    retention = RetentionConfiguration.absolute((4, 4, 2, 1), max_length=7)
    return Trace(TOKENS, changes.pop("retained", RETAINED), retention, "attn-ws", **changes)


def texts(*tokens):
    return [word.text for word in readable(tokens)]


def test_last_encoder_is_the_deepest_that_retained_the_word_and_0_if_encoder_1_eliminated_it():
    assert last_encoder(a_trace()) == (4, 0, 2, 3, 2, 0, 0)


def test_share_is_of_the_input_and_one_figure_per_encoder():
    assert share(a_trace()) == pytest.approx((4 / 7, 4 / 7, 2 / 7, 1 / 7))


def test_processed_counts_the_word_vectors_of_all_encoders_with_and_without_elimination():
    assert processed(a_trace()) == (11, 28)
    assert reduction(a_trace()) == pytest.approx(28 / 11)


def test_runs_merge_consecutive_encoders_with_the_same_retained_words():
    assert [(run.name, run.retained) for run in runs(a_trace())] == [
        ("1-2", (0, 2, 3, 4)),
        ("3", (0, 3)),
        ("4", (0,)),
    ]


def test_runs_do_not_merge_equal_counts_of_different_words():
    assert [run.name for run in runs(a_trace(retained=((0, 1), (0, 2))))] == ["1", "2"]


def test_survivors_are_what_the_last_encoder_retains():
    assert survivors(a_trace()) == (0,)


def test_a_wordpiece_joins_the_word_before_it():
    words = readable(TOKENS)
    assert words[3] == Word("ing", joins=True)
    assert sentence(words) == "[CLS] a fading smile. [SEP]"


def test_punctuation_and_contractions_that_bert_parted_are_written_together_again():
    tokens = ("it", "'", "s", "good", "(", "really", ")", ",", "isn", "'", "t", "it", "?")
    assert sentence(readable(tokens)) == "it's good (really), isn't it?"


def test_only_a_later_piece_of_a_word_continues_it_and_a_comma_does_not():
    comma, piece = readable(("well", ",", "well", "##ness"))[1::2]
    assert comma.joins
    assert not comma.continues
    assert piece.continues


def test_roberta_pieces_lose_their_space_mark_and_get_their_letters_back():
    tokens = ("<s>", "A", "Ġgood", "Ġfilm", "mak", "er", "Ġin", "ĠParÃŃs", ".", "</s>")
    assert sentence(readable(tokens)) == "<s> A good filmmaker in París. </s>"


def test_a_roberta_word_without_any_space_mark_is_decoded_too():
    assert texts("<s>", "cafÃ©", "</s>") == ["<s>", "café", "</s>"]


def test_half_an_emoji_of_a_byte_tokenizer_is_one_replacement_character():
    assert texts("Ġ", "ðŁĺ")[1] == "\N{REPLACEMENT CHARACTER}"


def test_sentencepiece_marks_are_taken_off_and_pieces_joined():
    assert sentence(readable(("[CLS]", "▁un", "believ", "able", "▁film", "[SEP]"))) == (
        "[CLS] unbelievable film [SEP]"
    )


def test_a_lone_space_mark_is_shown_as_a_visible_space():
    assert texts("▁", "▁good") == ["␣", "good"]


def test_nothing_joins_a_special_piece():
    assert sentence(readable(("[CLS]", ".", "##ing"))) == "[CLS] .ing"
    assert not readable(("<s>", "good"))[1].joins


def test_a_hash_in_the_text_stays_a_hash():
    assert texts("##", "#") == ["##", "#"]


def test_sentence_marks_a_piece_whose_beginning_is_missing():
    assert sentence(readable(TOKENS), (0, 3, 5)) == "[CLS] ·ing ."


@pytest.mark.parametrize(
    "steering", ["\x1b[31m", "\x07", "\u202e", "\u2066", "\ud800", "\r", "\x9b", "\u2028"]
)
def test_characters_that_steer_a_terminal_or_turn_the_text_are_replaced(steering):
    shown = visible(f"a{steering}b")
    assert steering[0] not in shown
    assert shown.startswith("a\N{REPLACEMENT CHARACTER}")


def test_line_ends_are_shown_and_emoji_stay_whole():
    assert visible("a\nb\tc") == "a↵b⇥c"
    assert visible("👩\u200d👧") == "👩\u200d👧"


@pytest.mark.parametrize(
    ("label", "score", "text"),
    [
        ("positive", 0.9821, "positive (0.982)"),
        ("positive", None, "positive"),
        (None, 3.25, "3.250"),
        (None, None, ""),
    ],
)
def test_verdict_shows_what_the_model_answered(label, score, text):
    assert verdict(a_trace(label=label, score=score)) == text


def test_trace_json_has_the_figures_and_no_nan():
    data = trace_json(a_trace(label="x", score=float("nan")))
    assert data["counts"] == [4, 4, 2, 1]
    assert data["word_vectors"] == {"processed": 11, "without_elimination": 28, "reduction": 2.5455}
    assert data["last_encoder"] == [4, 0, 2, 3, 2, 0, 0]
    assert data["retention"]["counts"] == [4, 4, 2, 1]
    assert data["score"] is None

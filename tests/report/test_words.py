import pytest
from models import tiny
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from traces import trace_of
from transformers import PreTrainedTokenizerFast

import powerbert
from powerbert.modeling.trace import Span, Trace
from powerbert.report.words import (
    Word,
    chosen,
    last_encoder,
    processed,
    readable,
    runs,
    sentence,
    trace_json,
    verdict,
    visible,
)
from powerbert.retention import RetentionConfiguration

TOKENIZERS = ("wordpiece", "bytes", "sentencepiece")
TOKENS = ("[CLS]", "a", "fad", "##ing", "smile", ".", "[SEP]")
RETAINED = ((0, 2, 3, 4), (0, 2, 3, 4), (0, 3), (0,))


def a_trace(retained=RETAINED, **answer):
    return trace_of(TOKENS, retained, RetentionConfiguration.absolute((4, 4, 2, 1), max_length=7), **answer)


def a_tokenizer(kind):
    """A tokenizer of one of the three kinds, with short pieces."""
    special = ["[CLS]", "[SEP]", "[UNK]"]
    if kind == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()  # lower case, no accents
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=60, special_tokens=special, show_progress=False)
    elif kind == "bytes":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=290, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="[UNK]", show_progress=False)
    tokenizer.train_from_iterator(["a good film in paris, isn't it the good films"] * 5, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]", pad_token="[SEP]"
    )


def traced(kind, *texts):
    """The words of a model that reads 400 pieces, whatever it answers."""
    model = tiny("bert", vocab_size=400, max_position_embeddings=400)
    powerbert.apply(model, RetentionConfiguration.relative((1.0, 0.9, 0.5, 0.2)))
    return readable(powerbert.trace(model, a_tokenizer(kind), *texts))


def test_last_encoder_is_the_deepest_that_retained_the_word_and_0_if_encoder_1_eliminated_it():
    assert last_encoder(a_trace()) == [4, 0, 2, 3, 2, 0, 0]
    assert [word.last for word in readable(a_trace())] == [4, 0, 2, 3, 2, 0, 0]


def test_share_is_of_the_input_and_one_figure_per_encoder():
    assert trace_json(a_trace())["share"] == [round(count / 7, 4) for count in (4, 4, 2, 1)]


def test_an_encoder_that_is_left_out_is_saved_as_well():
    shallow = RetentionConfiguration.relative((1.0, 0.5, 0.0, 0.0))
    found = trace_of(("[CLS]", "fine", "film", "[SEP]"), ((0, 1, 2, 3), (0, 1)), shallow)
    assert processed(found) == (6, 16, pytest.approx(16 / 6))


def test_processed_counts_the_word_vectors_of_all_encoders_with_and_without_elimination():
    assert processed(a_trace()) == (11, 28, pytest.approx(28 / 11))


def test_runs_merge_consecutive_encoders_with_the_same_retained_words():
    assert runs(a_trace().retained) == [("1-2", (0, 2, 3, 4)), ("3", (0, 3)), ("4", (0,))]


def test_runs_do_not_merge_equal_counts_of_different_words():
    assert [name for name, _ in runs(((0, 1), (0, 2)))] == ["1", "2"]


def test_a_wordpiece_joins_the_word_before_it():
    words = readable(a_trace())
    assert words[3] == Word("ing", last=3, joins=True)
    assert sentence(words) == "[CLS] a fading smile. [SEP]"


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize(
    "text",
    [
        "it's good (really), isn't it?",
        "A good FILM in París... cafés!",
        "$5 #1 ## # 'quoted' \"twice\" well-known a/b",
        "映画は good",
        "[CLS] is text, and </s> too",
    ],
)
def test_the_user_s_own_characters_are_shown_as_they_were_written(kind, text):
    words = traced(kind, text)
    shown = sentence([word for word in words if not word.special])
    marks = "␣\N{REPLACEMENT CHARACTER}"  # a space of its own, a part of a character
    assert shown.translate(dict.fromkeys(map(ord, marks))) == text


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_what_the_tokenizer_added_is_special_and_nothing_joins_it(kind):
    words = traced(kind, ".good", "?bad")
    assert [word.special for word in words if word.text in ("[CLS]", "[SEP]")] == [True] * 3
    assert sentence(words).replace("␣", "") == "[CLS] .good [SEP] ?bad [SEP]"


def test_only_a_later_piece_of_a_word_continues_it_and_a_comma_does_not():
    comma, piece = readable(trace_of(("well", ",", "well", "##ness"), ((0,),)))[1::2]
    assert comma.joins
    assert not comma.continues
    assert piece.continues


def test_an_emoji_of_several_byte_pieces_is_shown_once():
    words = traced("bytes", "good😀!")[-6:-1]
    assert "".join(word.text for word in words) == 3 * "\N{REPLACEMENT CHARACTER}" + "😀!"
    assert all(word.joins for word in words)


def test_an_unknown_word_is_shown_as_it_was_written():
    trace = Trace(("[UNK]",), ((0,),), RetentionConfiguration.full(1), "attn-ws", ("Žižek",), (Span(0, 0, 5),))
    assert sentence(readable(trace)) == "Žižek"


def test_a_piece_of_white_space_alone_is_shown_as_a_visible_space():
    trace = trace_of((" ", "good"), ((0,),), text="  good")
    assert [word.text for word in readable(trace)] == ["␣", "good"]


def test_sentence_marks_a_piece_whose_beginning_is_missing():
    assert sentence(chosen(readable(a_trace()), (0, 3, 5))) == "[CLS] ·ing ."


@pytest.mark.parametrize("steering", ["\x1b[31m", "\x07", "\u202e", "\u2066", "\ud800", "\r", "\x9b", "\u2028"])
def test_characters_that_steer_a_terminal_or_turn_the_text_are_replaced(steering):
    shown = visible(f"a{steering}b")
    assert steering[0] not in shown
    assert shown.startswith("a\N{REPLACEMENT CHARACTER}")


def test_line_ends_are_shown_and_emoji_stay_whole():
    assert visible("a\nb\tc") == "a↵b⇥c"
    assert visible("👩\u200d👧") == "👩\u200d👧"


@pytest.mark.parametrize(
    ("label", "score", "texts"),
    [
        ("positive", 0.9821, ("positive", "0.982")),
        ("positive", None, ("positive", "")),
        (None, 3.25, ("3.250", "")),
        (None, None, ("", "")),
    ],
)
def test_verdict_shows_what_the_model_answered(label, score, texts):
    assert verdict(a_trace(label=label, score=score)) == texts


def test_trace_json_has_the_figures_and_no_nan():
    data = trace_json(a_trace(label="x", score=float("nan")))
    assert data["counts"] == [4, 4, 2, 1]
    assert data["word_vectors"] == {"processed": 11, "without_elimination": 28, "reduction": 2.5455}
    assert data["last_encoder"] == [4, 0, 2, 3, 2, 0, 0]
    assert data["retention"]["counts"] == [4, 4, 2, 1]
    assert data["score"] is None

"""powerbert.pipeline in every engine: called and answering as transformers', with the model's own answers."""

from __future__ import annotations

import shutil
import sys

import pytest
import torch
import transformers
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.engines import classifier
from powerbert.errors import MissingExtraError, ModelFolderError, PowerBertError

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.1))
TEXTS = ["good film", "the plot was very very dull and bad", "it is great", "a", "the act was not good, but"]
PAIR = {"text": "the film was good", "text_pair": "it was not"}


def saved(folder, model=None):
    model = powerbert.apply(tiny("bert"), RELATIVE) if model is None else model
    powerbert.save(model, tokenizer_for(), folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("pipeline") / "model")


@pytest.fixture(scope="module")
def classify(folder):
    return powerbert.pipeline(folder)


@pytest.fixture(scope="module")
def plain(folder):
    """transformers' own pipeline around the same model."""
    model, tokenizer = powerbert.load(folder)
    return transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)


def refusal(call, kind=PowerBertError):
    with pytest.raises(kind) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def own_answers(model, tokenizer, items):
    """Softmax of the model's own logits, each text alone."""
    found = []
    for item in items:
        parts = (item,) if isinstance(item, str) else item.values()
        encoded = tokenizer(*parts, return_tensors="pt")
        with torch.no_grad():
            found.append(model(**encoded).logits.softmax(dim=-1)[0].tolist())
    return found


def assert_same(answers, expected, tolerance=1e-5):
    """Same labels in the same shape, close scores."""
    if isinstance(expected, list):
        assert len(answers) == len(expected)
        for answer, other in zip(answers, expected, strict=True):
            assert_same(answer, other, tolerance)
    else:
        assert answers["label"] == expected["label"]
        assert answers["score"] == pytest.approx(expected["score"], abs=tolerance)


# ---- answers -----------------------------------------------------------------------------


def test_the_pipeline_answers_as_transformers_does_with_the_models_own_answer(folder, plain):
    classify = powerbert.pipeline(folder, engine="torch", precision="fp32")
    (answer,) = classify("the film was good")
    model, tokenizer = powerbert.load(folder)
    with torch.no_grad():
        probabilities = model(**tokenizer("the film was good", return_tensors="pt")).logits.softmax(dim=-1)[0]
    assert answer["label"] == f"LABEL_{int(probabilities.argmax())}"
    assert answer["score"] == pytest.approx(float(probabilities.max()), abs=1e-6)
    assert_same(plain("the film was good"), [answer])


@pytest.mark.parametrize("engine", ["torch", "onnx", "openvino"])
def test_every_engine_gives_each_text_the_answer_that_the_model_gives_it_alone(relative, tmp_path, engine):
    if engine == "torch":
        folder = tmp_path / "saved"
        powerbert.save(relative.model, relative.tokenizer, folder)
    else:
        folder = relative.made(engine)
    items = [*TEXTS, PAIR] * 3
    answers = powerbert.pipeline(folder, engine=engine)(items, top_k=None)
    model = tiny("bert", num_hidden_layers=3, max_position_embeddings=512)
    powerbert.apply(model, RetentionConfiguration.relative((0.8, 0.5, 0.1)))
    for answer, expected in zip(answers, own_answers(model, relative.tokenizer, items), strict=True):
        found = {entry["label"]: entry["score"] for entry in answer}
        for i, share in enumerate(expected):
            assert found[f"LABEL_{i}"] == pytest.approx(share, abs=1e-3)


INPUTS = ["the film was good", "", PAIR, {"text": "good"}, {"text": "good", "text_pair": ""}, TEXTS, [PAIR, PAIR]]
OPTIONS = [{}, {"top_k": None}, {"top_k": 1}, {"top_k": 2}, {"top_k": 9}, {"function_to_apply": "sigmoid"},
           {"function_to_apply": "none", "top_k": None}]  # fmt: skip


@pytest.mark.parametrize("inputs", INPUTS, ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_calls_have_the_form_and_the_scores_that_transformers_gives(classify, plain, inputs, options):
    assert_same(classify(inputs, **options), plain(inputs, **options))


@pytest.mark.parametrize(
    ("problem", "labels"),
    [
        ("regression", 1),
        ("regression", 3),
        ("multi_label_classification", 3),
        ("single_label_classification", 3),
        (None, 1),
    ],
)
def test_the_model_says_what_becomes_of_its_logits(tmp_path, problem, labels):
    model = tiny("bert")
    model.config.problem_type, model.config.num_labels = problem, labels
    model.classifier = torch.nn.Linear(model.config.hidden_size, labels)
    with torch.no_grad():
        model.classifier.bias.copy_(torch.arange(labels) * 2 - 3)
    saved(tmp_path / "model", model)
    plain = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer_for())
    assert_same(powerbert.pipeline(tmp_path / "model")(TEXTS, top_k=None), plain(TEXTS, top_k=None))


# ---- order, batches, streams -------------------------------------------------------------


def test_lists_batches_and_pairs_give_one_answer_each_in_order(classify):
    one_by_one = [classify(text)[0] for text in TEXTS]
    for size in (None, 1, 2, 3, 50):
        assert_same(classify(TEXTS, batch_size=size), one_by_one)
    assert_same(classify(tuple(TEXTS)), one_by_one)
    assert classify({"text": "good", "text_pair": "bad"})["label"]
    assert len(classify("good film", top_k=None)) == 3
    mixed = classify(["good film", PAIR, "bad"])
    assert_same(mixed, [classify("good film")[0], classify(PAIR), classify("bad")[0]])


def test_a_stream_is_answered_as_it_comes_in_its_order(classify, monkeypatch):
    monkeypatch.setattr(classifier, "FIRST", 2)
    read = []

    def stream():
        for number in range(10):
            read.append(number)
            yield TEXTS[number % len(TEXTS)]

    answers = classify(stream())
    assert read == []
    first = next(answers)
    assert len(read) == 2
    assert_same([first, *answers], [classify(TEXTS[n % len(TEXTS)])[0] for n in range(10)])


def test_a_thousand_texts_take_a_few_forward_passes(folder):
    classify = powerbert.pipeline(folder)
    calls, run = [], classify.engine.run
    classify.engine.run = lambda batch: calls.append(batch["input_ids"].shape) or run(batch)
    texts = [" ".join(["good"] * (n % 20 + 1)) for n in range(1000)]
    assert len(classify(texts)) == 1000
    assert len(calls) <= 8
    assert max(rows * length for rows, length in calls) <= 4096


def test_long_and_odd_texts_are_answered(classify):
    for text in ("good " * 10_000, "[SEP] [PAD]", "\ud800", "", "😀 مرحبا"):
        assert classify(text)[0]["label"]


def test_white_space_before_a_text_changes_nothing(classify):
    for space in (" " * 1500, "\n" * 1281):
        assert_same(classify(space + "good film"), classify("good film"))


def test_a_long_text_is_cut_to_what_the_model_reads(classify):
    words = classify.engine.limits.longest - 2  # CLS and SEP
    assert_same(classify("good " * 5000), classify("good " * words))


# ---- folders -----------------------------------------------------------------------------


def test_an_exported_folder_opens_in_its_own_precision(relative):
    for precision in ("fp32", "int8"):
        classify = powerbert.pipeline(relative.made("onnx", precision), engine="onnx")
        assert (classify.engine.name, classify.engine.precision) == ("onnx", precision)
        assert classify.choice is None
    folder = relative.made("onnx", "int8")
    assert "export" in refusal(lambda: powerbert.pipeline(folder, "onnx", "fp32"), ModelFolderError)


def test_unknown_engines_and_precisions_are_refused(folder):
    with pytest.raises(PowerBertError, match=r"engine.*warp.*auto, torch, onnx, openvino"):
        powerbert.pipeline(folder, engine="warp")
    with pytest.raises(PowerBertError, match=r"precision.*int2"):
        powerbert.pipeline(folder, precision="int2")
    refusal(lambda: powerbert.pipeline(folder, engine=["onnx"]))


def test_a_saved_folder_is_no_exported_one_and_the_other_way_round(folder, relative):
    for engine in ("onnx", "openvino"):
        message = refusal(lambda engine=engine: powerbert.pipeline(folder, engine), ModelFolderError)
        assert f"powerbert export --model {folder} --to {engine}" in message
    assert powerbert.pipeline(relative.made("onnx")).engine.name == "onnx"
    assert "exported" in refusal(lambda: powerbert.pipeline(relative.made("onnx"), "torch"), ModelFolderError)
    message = refusal(lambda: powerbert.pipeline(relative.made("onnx"), "openvino"), ModelFolderError)
    assert "use engine onnx" in message


def test_a_missing_extra_is_told_with_its_pip_command(relative, monkeypatch):
    folder = relative.made("onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    message = refusal(lambda: powerbert.pipeline(folder, "onnx"), MissingExtraError)
    assert 'pip install "powerbert[onnx]"' in message


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_corrupt_and_foreign_folders_are_refused_in_one_line(folder, tmp_path, engine):
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    (damaged / "config.json").write_text("{}")
    (tmp_path / "photos").mkdir()
    for bad in (damaged, tmp_path / "photos", tmp_path / "nothing"):
        refusal(lambda bad=bad: powerbert.pipeline(bad, engine))


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_a_model_that_does_not_classify_is_refused(tmp_path, engine):
    powerbert.save(tiny("bert", "ForTokenClassification"), tokenizer_for(), tmp_path / "tagger")
    with pytest.raises(PowerBertError, match="BertForTokenClassification"):
        powerbert.pipeline(tmp_path / "tagger", engine)


# ---- inputs ------------------------------------------------------------------------------


def test_no_text_gives_no_answer(classify):
    assert classify([]) == []
    assert list(classify(iter(()))) == []


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ([], "no text was given"),
        (["good", "", " "], "text 1 has no word in it: the answer is that of an empty text (as have 1"),
        (["good", "bad " * 5000], "text 1 has more than 40 words"),
        (["good", "bad " * 38], None),
        (["good", "x" * 1300 + " good"], "text 1 has more than 40 words"),
        (["good", " " * 1500 + "good film"], None),
        (["good", PAIR], None),
    ],
    ids=["no text", "empty texts", "a long text", "as long as can be", "a long word", "white space", "nothing odd"],
)
def test_a_text_that_the_answer_says_little_about_is_told_in_one_line(classify, caplog, texts, told):
    assert len(classify(texts)) == len(texts)
    assert [told in message for message in caplog.messages] == ([True] if told else [])


NOT_TEXT = [5, None, b"good", ["good", 5], [["good", "bad"]], [("good", "bad")], {"text": 5}, {},
            {"txt": "a"}, {"text_pair": "good"}, {"text": "a", "text_pair": 5}, ["good", None]]  # fmt: skip


@pytest.mark.parametrize("inputs", NOT_TEXT, ids=str)
def test_what_is_no_text_is_refused_by_its_number(classify, inputs):
    number = len(inputs) - 1 if isinstance(inputs, list) else 0
    assert f"text {number} is not text" in refusal(lambda: classify(inputs))


def test_a_bad_text_far_down_a_stream_is_refused_by_its_number(classify, monkeypatch):
    monkeypatch.setattr(classifier, "FIRST", 2)
    answers = classify(text for text in ["good", "bad", "great", 7])
    assert next(answers)["label"]
    assert "text 3 is not text" in refusal(lambda: list(answers))


def test_the_answers_before_a_bad_text_or_an_error_of_the_stream_are_given_first(classify):
    def stream():
        yield from TEXTS
        raise OSError("the disk is gone")

    for source, error in ((stream(), OSError), (iter([*TEXTS, 7, "good"]), PowerBertError)):
        answers, found = classify(source), []
        with pytest.raises(error):
            found.extend(answers)
        assert_same(found, classify(TEXTS))


def test_the_first_answers_of_a_stream_come_after_a_few_texts(classify):
    read = []
    answers = classify(read.append(n) or "good film" for n in range(10_000))
    next(answers)
    assert len(read) <= 64


@pytest.mark.parametrize("kind", [list, iter])
def test_progress_is_a_bar_on_standard_error(classify, capsys, kind):
    assert len(list(classify(kind(TEXTS), progress=True))) == len(TEXTS)
    shown = capsys.readouterr()
    assert "5" in shown.err
    assert "texts" in shown.err
    assert shown.out == ""
    list(classify(kind(TEXTS)))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "options",
    [{"top_k": 0}, {"top_k": "3"}, {"top_k": True}, {"batch_size": 0}, {"batch_size": 1.5},
     {"batch_size": "best"}, {"function_to_apply": "tanh"}, {"function_to_apply": 1}],
    ids=str,
)  # fmt: skip
def test_options_out_of_range_are_refused(classify, options):
    assert next(iter(options)) in refusal(lambda: classify("good", **options))

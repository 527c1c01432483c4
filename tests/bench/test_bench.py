"""The whole benchmark on a tiny model, in torch and stock transformers."""

from __future__ import annotations

import json
from itertools import product

import numpy
import pytest
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.bench.arms import Arm, Field
from powerbert.bench.run import choose
from powerbert.bench.work import flops
from powerbert.cli.main import main
from powerbert.modeling.apply import word_vectors

TEXTS = ["good film", "the plot is dull and the film is bad", "very good", "it is a film and it is good"] * 3
RETENTION = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "model"
    powerbert.save(powerbert.apply(tiny("bert"), RETENTION), tokenizer_for(), folder)
    (folder.parent / "texts.txt").write_text("\n".join(TEXTS) + "\n\n")
    return folder


@pytest.fixture(scope="module")
def field(folder):
    return Field(folder, folder.parent / "work", TEXTS, 16)


def arm(model: str, feed: str, engine: str = "torch") -> Arm:
    return Arm(model, feed, engine, "fp32", 4)


def test_every_feed_answers_every_text_once(field):
    for feed in ("dynamic", "sorted", "fixed", "packed"):
        batches = list(field.batches(arm("unpruned", feed)))
        assert sum(len(batch["input_ids"]) for batch in batches) == len(TEXTS)
    widths = [batch["input_ids"].shape[1] for batch in field.batches(arm("unpruned", "fixed"))]
    assert set(widths) == {16}
    padded = sum(
        int((1 - batch["attention_mask"]).sum()) for batch in field.batches(arm("unpruned", "sorted"))
    )
    loose = sum(
        int((1 - batch["attention_mask"]).sum()) for batch in field.batches(arm("unpruned", "dynamic"))
    )
    assert padded < loose


def test_truncated_texts_hold_as_many_word_vectors_as_the_eliminated_model_processes(field):
    eliminated = field.word_vectors(arm("eliminated", "sorted"))
    truncated = field.word_vectors(arm("truncated", "sorted"))
    unpruned = field.word_vectors(arm("unpruned", "sorted"))
    assert eliminated <= truncated < unpruned
    lengths = field.lengths
    assert eliminated == sum(RETENTION.total(length) for length in lengths)
    assert unpruned == 4 * sum(lengths)


def test_flops_are_those_of_the_matrix_products():
    model = powerbert.remove(tiny("bert"))
    config, n = model.config, 8
    hidden, inner = config.hidden_size, config.intermediate_size
    encoder = 2 * n * (4 * hidden * hidden + 2 * hidden * inner) + 2 * 2 * n * n * hidden
    head = 2 * hidden * hidden + 2 * hidden * config.num_labels  # pooler and classifier, on CLS
    assert flops(model, 1, n) == config.num_hidden_layers * encoder + head
    assert flops(powerbert.apply(model, RETENTION), 1, n) < flops(powerbert.remove(model), 1, n)
    assert word_vectors(model, [n, 2]) == 4 * (n + 2)


def test_engines_answer_alike_whatever_they_are_fed(field):
    by_text = {}
    for feed, engine in product(("dynamic", "sorted", "packed"), ("torch", "stock")):
        if (feed, engine) != ("packed", "stock"):
            one = arm("unpruned", feed, engine)
            for batch in field.batches(one):
                logits = numpy.asarray(field.engine(one).run(batch).logits)
                for words, mask, row in zip(batch["input_ids"], batch["attention_mask"], logits, strict=True):
                    key = tuple(words[mask == 1])
                    numpy.testing.assert_allclose(by_text.setdefault(key, row), row, atol=1e-5)


def test_inputs_of_one_length_have_it_and_share_the_engines(field):
    other = field.of_length(12, 5)
    batch = next(iter(other.batches(arm("unpruned", "sorted"))))
    assert batch["input_ids"].shape == (4, 12)
    assert int(batch["attention_mask"].min()) == 1
    assert other.engines is field.engines
    assert field.lengths != other.lengths


def test_the_papers_protocol_needs_a_model_that_eliminates(folder, tmp_path, capsys):
    powerbert.save(tiny("bert"), tokenizer_for(), tmp_path / "whole")
    asked = ["--model", tmp_path / "whole", "--texts", folder.parent / "texts.txt", "--engines", "torch"]
    assert run("bench", *asked, "--paper", "2") == 2
    assert "--paper compares with a model that eliminates" in capsys.readouterr().err


def test_stock_runs_the_unpruned_model_only():
    arms = choose([("stock", "fp32"), ("torch", "fp32")], [1, 8], ["dynamic", "sorted"], True)
    assert {a.model for a in arms if a.engine == "stock"} == {"unpruned"}
    assert {a.feed for a in arms if a.model == "truncated"} == {"sorted"}
    assert len(arms) == len(set(arms)) == 4 + 4 + 4 + 2


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def test_the_command_writes_table_json_and_picture(folder, tmp_path, capsys):
    asked = ["--model", folder, "--texts", folder.parent / "texts.txt", "--engines", "stock,torch"]
    asked += ["--batches", "4", "--rounds", "2", "--max-length", "16", "--curves", "--paper", "2"]
    assert run("bench", *asked, "--json", tmp_path / "b.json", "--plot", tmp_path / "b.png") == 0
    figures = json.loads((tmp_path / "b.json").read_text())
    assert figures["texts"] == len(TEXTS)
    assert figures["headline"][0]["against"] == "best unpruned arm in fp32"
    assert (figures["paper"]["batch"], figures["paper"]["length"], figures["paper"]["runs"]) == (128, 16, 2)
    assert {point["length"] for point in figures["by_length"]} == {32}  # the tiny model reads no more
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
    assert "times as fast" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--engines", "tensorrt"], "unknown engine"),
        (["--precisions", "fp8"], "no engine has this precision"),
        (["--feeds", "random"], "unknown feed"),
        (["--batches", "0"], "--batches"),
        (["--rounds", "0"], "--rounds"),
        (["--texts", "nowhere.txt"], "--texts cannot be read"),
        (["--json", "nowhere/b.json"], "--json"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_measured(flags, expected, folder, capsys):
    assert run("bench", "--model", folder, "--texts", folder.parent / "texts.txt", *flags) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert expected in told[0]

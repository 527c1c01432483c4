"""Arms: what each feed holds, and how much there is to compute. Oracle: counts by hand, transformers."""

from __future__ import annotations

from itertools import product

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.bench import arms
from powerbert.bench.arms import Arm, Workbench, flops, same_mean
from powerbert.engines.torch_engine import TorchEngine
from powerbert.modeling.storage import load

TEXTS = ["good film", "the plot is dull and the film is bad", "very good", "it is a film and it is good"] * 3
RETENTION = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2))


@pytest.fixture(scope="module")
def workbench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "model"
    powerbert.save(powerbert.apply(tiny("bert"), RETENTION), tokenizer_for(), folder)
    return Workbench(folder, folder.parent / "work", TEXTS, 16)


def arm(model: str, feed: str, engine: str = "torch") -> Arm:
    return Arm(model, feed, engine, "fp32", 4)


def test_every_feed_answers_every_text_once(workbench):
    for feed in ("dynamic", "sorted", "fixed", "packed"):
        batches = list(workbench.batches(arm("full", feed)))
        assert sum(len(batch["input_ids"]) for batch in batches) == len(TEXTS)
    widths = [batch["input_ids"].shape[1] for batch in workbench.batches(arm("full", "fixed"))]
    assert set(widths) == {16}
    padded = sum(int((1 - batch["attention_mask"]).sum()) for batch in workbench.batches(arm("full", "sorted")))
    loose = sum(int((1 - batch["attention_mask"]).sum()) for batch in workbench.batches(arm("full", "dynamic")))
    assert padded < loose


def test_truncated_texts_hold_as_many_word_vectors_as_the_eliminated_model_processes(workbench):
    eliminated = workbench.word_vectors(arm("eliminated", "sorted"))
    truncated = workbench.word_vectors(arm("truncated", "sorted"))
    full = workbench.word_vectors(arm("full", "sorted"))
    assert eliminated <= truncated < full
    lengths = workbench.lengths
    assert eliminated == sum(RETENTION.total(length) for length in lengths)
    assert full == 4 * sum(lengths)


def test_flops_are_those_of_the_matrix_products():
    model = powerbert.remove(tiny("bert"))
    config, n = model.config, 8
    hidden, inner = config.hidden_size, config.intermediate_size
    encoder = 2 * n * (4 * hidden * hidden + 2 * hidden * inner) + 2 * 2 * n * n * hidden
    head = 2 * hidden * hidden + 2 * hidden * config.num_labels  # pooler and classifier, on CLS
    assert flops(model, 1, n) == config.num_hidden_layers * encoder + head
    assert flops(powerbert.apply(model, RETENTION), 1, n) < flops(powerbert.remove(model), 1, n)
    assert TorchEngine(model, tokenizer_for()).word_vectors([n, 2]) == 4 * (n + 2)


def test_engines_answer_alike_whatever_they_are_fed(workbench):
    by_text = {}
    for feed, engine in product(("dynamic", "sorted", "packed"), ("torch", "stock")):
        if (feed, engine) != ("packed", "stock"):
            one = arm("full", feed, engine)
            for batch in workbench.batches(one):
                logits = numpy.asarray(workbench.engine(one).run(batch).logits)
                for words, mask, row in zip(batch["input_ids"], batch["attention_mask"], logits, strict=True):
                    key = tuple(words[mask == 1])
                    numpy.testing.assert_allclose(by_text.setdefault(key, row), row, atol=1e-5)


def test_inputs_of_one_length_have_it_and_share_the_engines(workbench):
    other = workbench.of_length(12, 5)
    batch = next(iter(other.batches(arm("full", "sorted"))))
    assert batch["input_ids"].shape == (4, 12)
    assert int(batch["attention_mask"].min()) == 1
    assert other.engines is workbench.engines
    assert workbench.lengths != other.lengths


def test_an_estimate_counts_rounds_graphs_and_encoders(workbench, monkeypatch):
    """The oracle is stock transformers that takes no time: what remains is tracing, scaling and opening."""
    monkeypatch.setattr(arms, "OF_STOCK", 0.0)
    graphs = [Arm(model, "sorted", "openvino", "int8", 4) for model in ("full", "eliminated")]
    traced, scaled = 4 * sum(arms.TRACING.values()), 4 * 2 * arms.SCALING
    assert workbench.estimate(graphs, 3) == pytest.approx(traced + scaled + 2 * arms.OPENING)
    assert workbench.estimate([arm("full", "packed")], 3) == 0
    monkeypatch.setattr(arms, "OF_STOCK", 1.0)
    assert workbench.estimate([arm("full", "packed")], 300) > workbench.estimate([arm("full", "packed")], 3) > 0


def test_the_folder_is_read_once_however_many_engines_there_are(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(arms, "load", lambda folder, **more: read.append(folder) or load(folder, **more))
    powerbert.save(powerbert.apply(tiny("bert"), RETENTION), tokenizer_for(), tmp_path / "model")
    bench = Workbench(tmp_path / "model", tmp_path / "work", TEXTS, 16)
    for model, engine in product(("full", "eliminated"), ("torch", "stock")):
        bench.engine(arm(model, "sorted", engine))
    assert len(read) == 1


@pytest.mark.parametrize("feed", ["dynamic", "sorted", "fixed", "packed"])
def test_an_arm_is_fed_batches_of_the_size_that_it_is_named_after(workbench, feed):
    """Also one that is no power of two, of which an engine on its own makes smaller batches."""
    many = workbench.of_length(6, 60)
    for size in (7, 24):
        batches = many.batches(Arm("full", feed, "torch", "fp32", size))
        rows = [len(batch["input_ids"]) for batch in batches]
        assert set(rows[:-1]) == {size}
        assert sum(rows) == 60


@given(st.lists(st.integers(1, 500), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_texts_cut_to_the_cap_have_the_share_of_words_or_just_above(lengths, share):
    cap = same_mean(lengths, share)
    goal = share * sum(lengths)
    assert sum(min(length, cap) for length in lengths) >= goal
    assert cap == 1 or sum(min(length, cap - 1) for length in lengths) < goal

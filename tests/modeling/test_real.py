"""Real weights (gte-small, 12 encoders) on 500 real sentences: the same answer alone and in any batch."""

from __future__ import annotations

import gzip
import json
import random

import pytest
import torch

import powerbert
from powerbert import RetentionConfiguration
from powerbert.modeling.apply import unpad
from powerbert.modeling.trace import retained_positions

RELATIVE = RetentionConfiguration.relative([0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05])
ABSOLUTE = RetentionConfiguration.absolute((80, 73, 70, 50, 50, 40, 33, 27, 20, 15, 13, 3), 128)
PARTS = {"SST-2": (225, "text"), "CoLA": (225, "text"), "RTE": (40, "text_a"), "IMDB": (10, "text")}


@pytest.fixture(scope="module")
def sentences(shared):
    """500 sentences from 3 to about 200 word pieces, seeded."""
    chosen = []
    for task, (rows, column) in PARTS.items():
        with gzip.open(shared / "data" / task / "dev.jsonl.gz", "rt", encoding="utf-8") as lines:
            texts = [json.loads(line)[column][:800] for line in lines]
        chosen += random.Random(0).sample(texts, rows)
    return random.Random(1).sample(chosen, 500)


@pytest.fixture(scope="module")
def classifier(shared):
    """gte-small with a head of seeded random weights: accuracy is not the point here, equality is."""
    from transformers import BertForSequenceClassification

    base, tokenizer = powerbert.load(shared / "models" / "gte-small")
    torch.manual_seed(0)
    model = BertForSequenceClassification(base.config).eval()
    missing, unexpected = model.bert.load_state_dict(base.state_dict(), strict=False)
    assert all("pooler" in name for name in missing)
    assert not unexpected
    return model, tokenizer


def ask(model, tokenizer, texts, side="right", width=None):
    """Logits and, for each text, the positions retained by each encoder, counted from its own CLS."""
    tokenizer.padding_side = side
    batch = dict(
        tokenizer(
            texts,
            truncation=True,
            max_length=width or 256,
            padding="max_length" if width else True,
            return_tensors="pt",
        )
    )
    with torch.inference_mode():
        logits = model(**batch).logits
    starts = batch["attention_mask"].argmax(dim=1).tolist()
    words = [
        [[position - start for position in row] for row in encoders]
        for start, encoders in zip(starts, retained_positions(model, batch), strict=True)
    ]
    return logits, words


@pytest.mark.parametrize(
    ("count", "retention", "packed", "layouts"),
    [
        pytest.param(150, RELATIVE, False, [(8, "left", None)], id="relative"),
        pytest.param(500, RELATIVE, False, [(8, "left", None)], id="relative, all", marks=pytest.mark.slow),
        pytest.param(
            500,
            ABSOLUTE,
            True,
            [(25, "right", None), (50, "left", 256)],
            id="absolute on packed weights",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_text_retains_the_same_words_and_gets_the_same_answer_alone_and_in_any_batch(
    classifier, sentences, count, retention, packed, layouts
):
    model, tokenizer = classifier
    powerbert.apply(model, retention)
    powerbert.pack(model) if packed else powerbert.unpack(model)
    alone = [ask(model, tokenizer, [text]) for text in sentences[:count]]
    answers, words = torch.cat([logits for logits, _ in alone]), [kept for _, (kept,) in alone]
    differences, furthest = 0, 0.0
    for size, side, width in layouts:
        order = random.Random(size).sample(range(count), count)
        for start in range(0, count, size):
            chosen = order[start : start + size]
            logits, kept = ask(model, tokenizer, [sentences[i] for i in chosen], side, width)
            furthest = max(furthest, float((logits - answers[chosen]).abs().max()))
            differences += sum(kept[k] != words[i] for k, i in enumerate(chosen))
    assert differences == 0
    assert furthest <= 1e-5


def test_both_layouts_answer_as_the_papers_order_does_on_real_weights(classifier, sentences):
    model, tokenizer = classifier
    powerbert.unpack(powerbert.apply(model, RELATIVE, _reference=True))
    expected, _ = ask(model, tokenizer, sentences[:24])
    powerbert.apply(model, RELATIVE)
    for packed in (True, False):
        answer, _ = ask(unpad(model, packed), tokenizer, sentences[:24])
        assert float((answer - expected).abs().max()) <= 1e-5


def test_full_retention_is_bit_equal_on_real_weights(classifier, sentences):
    model, tokenizer = classifier
    powerbert.unpack(model)
    batch = dict(tokenizer(sentences[:16], padding=True, truncation=True, max_length=256, return_tensors="pt"))
    with torch.inference_mode():
        untouched = powerbert.remove(model)(**batch).logits
        assert torch.equal(powerbert.apply(model, RetentionConfiguration.full(12))(**batch).logits, untouched)

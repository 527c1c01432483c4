"""Subjects for the tests of studies: a tiny model and a few texts, without a folder to load."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from texts import tokenizer_for

from powerbert.studies.study import Subject
from powerbert.tasks.readers import read_split
from powerbert.tasks.registry import own_task

SPOKEN = "the film plot it is this that and but a good bad dull great very ."


def sentences(count: int, least: int = 1, most: int = 16, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(SPOKEN.split(), k=rng.randint(least, most))) for _ in range(count)]


def subject_of(model: Any, texts: list[str], labels: list[int] | None = None, **more: Any) -> Subject:
    """A subject of these texts; labels are class indices of the model, by default in turn."""
    names = tuple(model.config.id2label.values())
    labels = [i % len(names) for i in range(len(texts))] if labels is None else labels
    rows = [{"text": text, "label": names[own]} for text, own in zip(texts, labels, strict=True)]
    task = own_task("text", labels=names)
    split = read_split(Dataset.from_list(rows), task)
    own = {"folder": Path("model"), "output": Path("studies"), "longest": 40} | more
    return Subject(model=model, tokenizer=tokenizer_for(), task=task, split=split, **own)


@torch.no_grad()
def balanced(model: Any, texts: list[str]) -> Any:
    """The same model with another bias, so that it answers with more than one label."""
    words = tokenizer_for()(texts, padding=True, return_tensors="pt")
    model.classifier.bias.data -= model(**words).logits.mean(dim=0)
    assert len(set(model(**words).logits.argmax(dim=1).tolist())) > 1
    return model


def word_pieces(subject: Subject, row: int) -> torch.Tensor:
    """The words of one input, unpadded: (length,)."""
    return torch.tensor(subject.rows[row]["input_ids"])

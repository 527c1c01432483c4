"""A good model folder, copies of it to damage, and a guard against loading."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from model_folders import SIZES, saved
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, PreTrainedModel


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    torch.manual_seed(0)
    saved(BertForSequenceClassification(BertConfig(**SIZES)), folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "model"))


@pytest.fixture
def never_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if weights are about to be loaded: a refusal comes before."""

    def fail(*args: object, **kwargs: object) -> None:
        pytest.fail("from_pretrained was called")

    monkeypatch.setattr(PreTrainedModel, "from_pretrained", fail)

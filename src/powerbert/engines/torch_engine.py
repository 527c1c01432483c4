"""The torch engine: the model itself, on packed weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from powerbert.engines.engine import Answer, Engine, Retained
from powerbert.modeling.apply import base_of, unpad
from powerbert.modeling.limits import check_classifier, eliminates, limits_of
from powerbert.modeling.packing import pack
from powerbert.modeling.storage import load
from powerbert.text.batches import Integers


class TorchEngine(Engine):
    """fp32 on packed weights, without PAD. `threads` is torch's own setting, for the whole process."""

    name = "torch"
    precisions = ("fp32",)
    precision = "fp32"

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerBase, *, unpadded: bool = True) -> None:
        check_classifier(model)
        self.model, self.tokenizer = pack(model.eval()), tokenizer
        unpad(model, unpadded)
        self.labels, self.limits = model.config.id2label, limits_of(model, tokenizer)

    @classmethod
    def load(cls, folder: Path, precision: str | None, threads: int | None) -> Self:
        """Load what `powerbert.save` wrote, or a plain transformers folder."""
        model, tokenizer = load(folder)
        if threads is not None:
            torch.set_num_threads(threads)
        return cls(model, tokenizer)

    @torch.inference_mode()
    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        """Run the model in eager mode: its plan of a batch is exact."""
        batch = {name: torch.from_numpy(rows) for name, rows in inputs.items()}
        logits = self.model(**batch).logits.numpy()
        return Answer(np.asarray(logits, dtype=np.float32), self._retained(batch) if retained else None)

    def _retained(self, batch: dict[str, torch.Tensor]) -> Retained:
        inputs = len(batch["input_ids"])
        if not eliminates(self.model):
            return [()] * inputs
        per_encoder = [
            [tuple(row[:length]) for row, length in zip(places.tolist(), lengths.tolist(), strict=True)]
            for places, lengths in base_of(self.model)(**batch, output_retained=True).retained
        ]
        return [tuple(encoder[i] for encoder in per_encoder) for i in range(inputs)]

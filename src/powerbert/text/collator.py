"""Rows to a padded batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
TEACHER = "teacher"
"""The column of a teacher's answers: for the loss, not for the model."""


@dataclass(frozen=True)
class Collator:
    """Pad to the longest row of the batch, on the right; columns of no use to model or loss are left out.

    Use `remove_unused_columns=False` with Trainer, so that its samplers still see `length`.
    """

    tokenizer: Any
    multiple: int = 1
    """Round the width up to a multiple, so that a long run meets few different shapes."""

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Return (batch, length), or (batch, choices, length) for multiple choice, and `labels`."""
        nested = isinstance(rows[0]["input_ids"][0], Sequence)
        padding = {
            "input_ids": self.tokenizer.pad_token_id or 0,
            "attention_mask": 0,
            "token_type_ids": getattr(self.tokenizer, "pad_token_type_id", 0),
        }
        batch = {}
        for name in INPUTS:
            if name not in rows[0]:
                continue
            sequences = [row[name] for row in rows]
            if nested:
                sequences = [choice for choices in sequences for choice in choices]
            width = max(map(len, sequences))
            width += -width % self.multiple
            filled = [[*sequence, *[padding[name]] * (width - len(sequence))] for sequence in sequences]
            tensor = torch.tensor(filled)
            batch[name] = tensor.reshape(len(rows), -1, width) if nested else tensor
        if "labels" in rows[0]:
            labels = [row["labels"] for row in rows]
            dtype = torch.float32 if isinstance(labels[0], float) else torch.int64
            batch["labels"] = torch.tensor(labels, dtype=dtype)
        if TEACHER in rows[0]:
            batch[TEACHER] = torch.tensor([row[TEACHER] for row in rows], dtype=torch.float32)
        return batch

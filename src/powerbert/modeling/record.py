"""What is kept of the word-vectors between the encoders: restored states and retained positions."""

from __future__ import annotations

import torch
from torch import Tensor

from powerbert.elimination.extract import restore
from powerbert.modeling.layout import Padded


class Recorder:
    """Sees the word-vectors after the embeddings and after each encoder.

    An eliminated word-vector keeps the last state it had, the output of the last encoder that retained it,
    and is put back at its own position.
    """

    def __init__(self, words: Padded, *, whole: bool, states: bool, retained: bool) -> None:
        self.words = words
        self.canvas = words.hidden if whole or states else None  # (batch, length, hidden)
        self.states = [words.hidden] if states else []  # after the embeddings and each encoder, whole length
        self.retained: list[tuple[Tensor, Tensor]] = []  # positions and lengths after each encoder
        self.wants = states, retained

    def __call__(self, words: Padded) -> None:
        """Take the word-vectors after the next encoder."""
        if self.canvas is not None and words.positions is not self.words.positions:
            self.canvas = self.restored()  # with the last state of those that were eliminated just now
        self.words = words
        states, retained = self.wants
        if states:
            self.states.append(self.restored())
        if retained:
            self.retained.append((words.positions, words.lengths))

    def restored(self) -> Tensor:
        """Every word-vector with its last state: (batch, length, hidden)."""
        words, canvas = self.words, self.canvas
        assert canvas is not None
        if not words.padded and words.positions.shape[1] == canvas.shape[1]:
            return words.hidden
        real = torch.ones_like(words.positions, dtype=torch.bool)
        if words.padded:
            real = torch.arange(real.shape[1], device=real.device) < words.lengths[:, None]
        return restore(canvas, words.hidden, words.positions, real)

"""Two engines on the same texts: do they give the same labels?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from powerbert.engines.answers import answer
from powerbert.engines.engine import Engine
from powerbert.text.tokenise import Text


@dataclass(frozen=True)
class Comparison:
    """What two engines answered to the same texts."""

    first: NDArray[numpy.float32]  # logits (texts, labels)
    second: NDArray[numpy.float32]

    @property
    def agreement(self) -> float | None:
        """Share of texts with the same label; None for a model that predicts one number."""
        if self.first.shape[1] == 1:
            return None
        return float((self.first.argmax(axis=1) == self.second.argmax(axis=1)).mean())

    @property
    def difference(self) -> float:
        """The largest difference of any logit."""
        return float(numpy.abs(self.first - self.second).max())

    def to_json(self) -> dict[str, Any]:
        """Plain figures for JSON."""
        return {"texts": len(self.first), "agreement": self.agreement, "difference": self.difference}


def compare(first: Engine, second: Engine, texts: Sequence[Text]) -> Comparison:
    """Let both engines answer, each in batches of like length."""
    return Comparison(*(numpy.stack(list(answer(engine, texts))) for engine in (first, second)))

"""What two engines answered to the same texts: did they give the same labels?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray


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

"""What may be lost, or how fast it has to be: the one thing that a user of `accelerate` decides."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from powerbert.errors import PowerBertError

LOSS, DISAGREEMENT, SPEEDUP, LATENCY = "max-loss", "max-disagreement", "speedup", "latency-ms"
_RULES: dict[str, tuple[str, Callable[[float], bool]]] = {
    LOSS: ("points of the metric, from 0 to below 100", lambda value: 0 <= value < 100),
    DISAGREEMENT: ("a share of the answers such as 1%, from 0% to below 100%", lambda value: 0 <= value < 100),
    SPEEDUP: ("how many times as fast, above 1", lambda value: 1 < value < math.inf),
    LATENCY: ("milliseconds for one text, above 0", lambda value: 0 < value < math.inf),
}


@dataclass(frozen=True)
class Goal:
    """One of four kinds, and its value: points, percent, times or milliseconds."""

    kind: str
    value: float

    def __post_init__(self) -> None:
        rule, holds = _RULES[self.kind]
        if not holds(self.value):
            raise PowerBertError(f"--{self.kind} is out of range", got=self.value, rule=rule)

    @classmethod
    def of(
        cls,
        max_loss: float | None = None,
        max_disagreement: str | float | None = None,
        speedup: float | None = None,
        latency_ms: float | None = None,
    ) -> Self:
        """The goal of whichever one is given."""
        shares = None if max_disagreement is None else in_percent(max_disagreement)
        given = dict(zip(_RULES, (max_loss, shares, speedup, latency_ms), strict=True))
        named = [(kind, value) for kind, value in given.items() if value is not None]
        if len(named) != 1:
            got = " and ".join(f"--{kind}" for kind, _ in named) or "none"
            remedy = "give one: --max-loss 1.0, --max-disagreement 5%, --speedup 2.5 or --latency-ms 5"
            raise PowerBertError("accelerate has one goal", got=got, remedy=remedy)
        return cls(*named[0])

    @property
    def limits_loss(self) -> bool:
        """Whether the goal says what may be lost; else it says how fast the model has to be."""
        return self.kind in (LOSS, DISAGREEMENT)

    def text(self, metric: str) -> str:
        """The goal in words."""
        return {
            LOSS: f"at most {self.value:g} point{'s' * (self.value != 1)} of {metric} lost",
            DISAGREEMENT: f"at most {self.value:g} % other answers than the original model's",
            SPEEDUP: f"{self.value:g} times as fast as the fastest engine runs the original model",
            LATENCY: f"one text in {self.value:g} ms",
        }[self.kind]


def in_percent(share: str | float) -> float:
    """Read "1%" or 0.01 as 1.0."""
    text = str(share).strip()
    if not re.fullmatch(r"\d+(\.\d+)?%|0?\.\d+|0", text):
        rule, remedy = "a share of the answers", "write 1% or 0.01"
        raise PowerBertError("--max-disagreement cannot be read", got=share, rule=rule, remedy=remedy)
    return float(text[:-1]) if text.endswith("%") else 100 * float(text)

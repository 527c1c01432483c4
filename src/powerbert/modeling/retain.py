"""What `apply` attaches to a model, and the ways to retain word-vectors: extract, and what stands in for it.

Paper: Soft-extract Layer
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor
from typing_extensions import override

from powerbert.elimination.selection import STRATEGIES, Scoring, sorted_positions
from powerbert.modeling import ops
from powerbert.modeling.families.base import Family
from powerbert.modeling.layout import Block, Padded, Words
from powerbert.retention import RetentionConfiguration

Scale = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(encoder j from 1, rows (batch, length, hidden), ranks (batch, length), lengths (batch,)) -> rows."""


class Extract:
    """Retain the top l_j right after the softmax: rows that nobody reads are never computed; exact."""

    def scores(self, block: Block) -> bool:
        """Whether the word-vectors of a block must be scored."""
        return block.eliminates

    def early(self, scores: Tensor, block: Block) -> Tensor | None:
        """Rows (inputs, width) to go on with after the softmax, None for all; scores: (inputs, length)."""
        return ops.select_rows(scores, block.lengths, block.counts, block.width)

    def late(self, j: int, words: Words, scores: Tensor | None) -> Words:
        """What goes on from the self-attention module of encoder j to its feed-forward network."""
        return words


class PapersOrder(Extract):
    """Extract after the self-attention module, every row computed and scored: the reference of the tests."""

    @override
    def scores(self, block: Block) -> bool:
        return True

    @override
    def early(self, scores: Tensor, block: Block) -> Tensor | None:
        return None

    @override
    def late(self, j: int, words: Words, scores: Tensor | None) -> Words:
        (block,) = blocks = words.blocks(j)
        assert scores is not None
        return words.extract(j, blocks, [Extract.early(self, scores, block)])


@dataclass(frozen=True)
class SoftExtract(PapersOrder):
    """Scale every word-vector by its rank and eliminate none, while the configuration is searched."""

    scale: Scale

    @override
    def late(self, j: int, words: Words, scores: Tensor | None) -> Words:
        if scores is None:  # CLS alone, whose degree is always 1
            return words
        assert isinstance(words, Padded)
        ranks = sorted_positions(scores, words.lengths)
        return words._replace(hidden=self.scale(j, words.hidden, ranks, words.lengths))


@dataclass(frozen=True)
class Elimination:
    """What `apply` attaches to a model."""

    family: Family
    retention: RetentionConfiguration
    strategy: str = "attn-ws"
    scoring: Scoring = field(default_factory=Scoring)
    cls_only: bool = False  # whether the head reads nothing but CLS
    packed: bool | None = None  # rows in inference: None where anything can be eliminated, True always, False never
    retain: Extract = field(default_factory=Extract)
    forgets: bool = True  # whether training drops attention probabilities, as the model says

    def score(self, probabilities: Tensor | None, block: Block) -> Tensor:
        """Scores (inputs, length) by the strategy; probabilities: (inputs, heads, length, length)."""
        return STRATEGIES[self.strategy].score(probabilities, block.positions, block.real, self.scoring)

    @property
    def static(self) -> bool:
        """Whether words are selected by position alone."""
        return STRATEGIES[self.strategy].static

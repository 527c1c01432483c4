"""The one encoder loop: project, attend, extract, feed forward.

Paper: PoWER-BERT Scheme
Paper: Self-Attention Mechanism

Training, export and inference run it, over padded or packed word-vectors (`layout.py`). Work whose result
nobody reads is not done, and that is exact: rows of eliminated word-vectors are neither mixed, projected
nor normalised; the last encoder asks with CLS alone if the head reads nothing else; an encoder that
eliminates nothing runs the fused kernel and scores nothing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from powerbert.elimination.extract import extract_queries
from powerbert.modeling import ops
from powerbert.modeling.families.base import Projections, mask_value
from powerbert.modeling.layout import Block, Words
from powerbert.modeling.retain import Elimination


def encode(
    elimination: Elimination, base: Any, context: Any, words: Words, record: Callable[[Any], None] | None
) -> Words:
    """Run the encoders over the embedded words; `record` sees the word-vectors after each of them."""
    family = elimination.family
    for j, module in enumerate(family.encoders(base)[: elimination.retention.depth], 1):
        words = _checkpointed(Encoder(elimination, j, module, context), words)
        if j == 1:
            words = words._replace(hidden=family.after_first(base, context, words.hidden, words.positions))
        if record is not None:
            record(words)
    return words


class Encoder(NamedTuple):
    """Encoder j at work."""

    elimination: Elimination
    j: int
    module: Any
    context: Any  # what the family knows of positions

    def __call__(self, words: Words) -> Words:
        """Project, attend, extract, feed forward."""
        family, blocks = self.elimination.family, words.blocks(self.j)
        known = [self.known(block) for block in blocks]
        asking = words.rows(blocks, known)
        heads = family.project(self.module, words.hidden, asking, self.context, words.positions)
        mixed, retained, scores = [], [], None
        for block, own, rows in zip(blocks, words.split(heads, blocks, known), known, strict=True):
            answer, rows, scores = self.attend(block, own, rows)
            mixed.append(answer)
            retained.append(rows)
        words = words.extract(self.j, blocks, retained)
        attended = family.attention_output(self.module, words.join(mixed), words.hidden)
        words = self.elimination.retain.late(self.j, words._replace(hidden=attended), scores)
        return words._replace(hidden=family.feed_forward(self.module, words.hidden))

    def known(self, block: Block) -> Tensor | None:
        """The rows (inputs, width) that a block retains, if no attention is needed to know them."""
        if block.cls:
            return torch.zeros_like(block.positions[:, :1])
        if not self.elimination.static or not block.eliminates:
            return None
        return self.elimination.retain.early(self.elimination.score(None, block), block)

    def attend(
        self, block: Block, heads: Projections, asking: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Softmax, significance, the top l_j and their values.

        Returns mixed values (inputs, queries, hidden), retained rows (inputs, queries), None for all, scores.
        """
        family, retain, training = self.elimination.family, self.elimination.retain, self.module.training
        mask, scale = self.mask(block, heads, asking), family.scale(self.module, heads.query)
        forget = family.dropout(self.module) if training and self.elimination.forgets else 0.0
        if asking is not None or not retain.scores(block):
            return ops.fused(heads, mask, scale, forget), asking, None
        probabilities = ops.probabilities(heads, mask, scale)
        scores = self.elimination.score(probabilities.detach(), block)
        retained = retain.early(scores, block)
        if retained is not None:
            probabilities = extract_queries(probabilities, retained)
        # Dropout comes after the scores, so that training selects as inference does.
        return ops.mix(ops.dropout(probabilities, forget, training), heads.value), retained, scores

    def mask(self, block: Block, heads: Projections, asking: Tensor | None) -> Tensor | None:
        """Bias and padding: broadcasts to (inputs, heads, queries, length); True where seen, or added."""
        positions = block.positions if asking is None else block.positions.gather(1, asking)
        bias = self.elimination.family.bias(self.module, heads, self.context, positions, block.positions)
        if block.real is None:
            return bias
        seen = block.real[:, None, None, :]
        return seen if bias is None else bias.masked_fill(~seen, mask_value(bias))


def _checkpointed(encoder: Encoder, words: Words) -> Words:
    """Recompute the encoder in the backward pass where the caller enabled gradient checkpointing."""
    if not (encoder.module.training and getattr(encoder.module, "gradient_checkpointing", False)):
        return encoder(words)

    def run(hidden: Tensor) -> Words:
        return encoder(words._replace(hidden=hidden))

    return type(words)(*encoder.module._gradient_checkpointing_func(run, words.hidden))

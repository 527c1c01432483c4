"""Slow, obvious loops: the oracle of the tests. Nothing here calls the code under test."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor


def significance(
    probabilities: Tensor, lengths: list[int], exclude_self: bool = False, padded_queries_vote: bool = False
) -> list[list[float]]:
    """Sig(w) = sum over heads and words w' of A_h[w', w]; (batch, heads, length, length) -> lists."""
    batch, heads, length, _ = probabilities.shape
    out = []
    for b in range(batch):
        voters = range(length) if padded_queries_vote else range(lengths[b])
        scores = []
        for w in range(length):
            total = 0.0
            for h in range(heads):
                for other in voters:
                    total += float(probabilities[b, h, other, w])
                if exclude_self:
                    total -= float(probabilities[b, h, w, w])
            scores.append(total)
        out.append(scores)
    return out


def order(scores: list[float], length: int) -> list[int]:
    """Rows from most to least significant: CLS, then words by score, lowest index first, then PAD."""
    words = sorted(range(1, length), key=lambda i: (-scores[i], i))
    return [0, *words, *range(max(length, 1), len(scores))]


def select(scores: list[float], length: int, count: int) -> list[int]:
    """The `count` most significant rows, ascending."""
    return sorted(order(scores, length)[:count])


def counts(kind: str, values: list[Any], length: int) -> list[int]:
    """Word-vectors retained at each encoder by an input of `length` real ones."""
    if kind == "absolute":
        return [min(value, length) for value in values]
    return [max(1, math.ceil(Fraction(str(value)) * length)) for value in values]


def soft_extract(rows: Tensor, scores: list[list[float]], lengths: list[int], r: Tensor) -> Tensor:
    """E_out[i] = r[Sig^pos(w_i)] * E_in[i], CLS with 1."""
    out = rows.clone()
    for b in range(rows.shape[0]):
        for rank, i in enumerate(order(scores[b], lengths[b])):
            out[b, i] = rows[b, i] * (1.0 if rank == 0 else r[rank])
    return out


def soft_extract_relative(rows: Tensor, scores: list[list[float]], lengths: list[int], r: Tensor) -> Tensor:
    """The same with r over bins of rank / length, for the real rows; PAD reads the last bin."""
    out = rows.clone()
    for b in range(rows.shape[0]):
        for rank, i in enumerate(order(scores[b], lengths[b])):
            bin_ = min(rank * len(r) // lengths[b], len(r) - 1)
            out[b, i] = rows[b, i] * (1.0 if rank == 0 else r[bin_])
    return out


def bert_with_elimination(model: Any, input_ids: Tensor, values: list[int]) -> tuple[Tensor, list[list[int]]]:
    """The paper's scheme on one unpadded text, with BERT's own modules and full attention matrices.

    Every word-vector goes through self-attention; the extract layer stands before the feed-forward
    network, as in the paper. Returns the final word-vectors and the positions retained by each encoder.
    """
    base = model.base_model
    hidden = base.embeddings(input_ids=input_ids[None])
    positions = list(range(len(input_ids)))
    retained = []
    for layer, value in zip(base.encoder.layer, values, strict=True):
        own = layer.attention.self
        n, head = hidden.shape[1], own.attention_head_size
        query, key, val = (part(hidden).view(n, -1, head) for part in (own.query, own.key, own.value))
        rows, scores = [], [0.0] * n
        for h in range(query.shape[1]):
            attention = (query[:, h] @ key[:, h].T / math.sqrt(head)).softmax(dim=-1)
            rows.append(attention @ val[:, h])
            for w in range(n):
                scores[w] += float(attention[:, w].sum())
        attended = layer.attention.output(torch.cat(rows, dim=-1)[None], hidden)
        chosen = select(scores, n, min(value, n))
        attended = attended[:, chosen]
        hidden = layer.feed_forward_chunk(attended)
        positions = [positions[i] for i in chosen]
        retained.append(positions)
    return hidden, retained


def bert_without_one(model: Any, input_ids: Tensor, encoder: int, rank: int) -> Tensor:
    """Logits if one encoder (from 1) eliminates the word-vector with the rank-th highest score beside CLS.

    With BERT's own modules and full attention matrices, on one unpadded text; all other encoders eliminate nothing.
    """
    base = model.base_model
    hidden = base.embeddings(input_ids=input_ids[None])
    for j, layer in enumerate(base.encoder.layer, 1):
        own = layer.attention.self
        n, head = hidden.shape[1], own.attention_head_size
        query, key, val = (part(hidden).view(n, -1, head) for part in (own.query, own.key, own.value))
        rows, scores = [], [0.0] * n
        for h in range(query.shape[1]):
            attention = (query[:, h] @ key[:, h].T / math.sqrt(head)).softmax(dim=-1)
            rows.append(attention @ val[:, h])
            for w in range(n):
                scores[w] += float(attention[:, w].sum())
        attended = layer.attention.output(torch.cat(rows, dim=-1)[None], hidden)
        if j == encoder:
            gone = order(scores, n)[rank]
            attended = attended[:, [i for i in range(n) if i != gone]]
        hidden = layer.feed_forward_chunk(attended)
    return model.classifier(base.pooler(hidden))


def pairwise_cosine(rows: Tensor) -> float:
    """The mean cosine of all pairs of different rows: (length, hidden)."""
    found = []
    for i in range(len(rows)):
        for j in range(i):
            dot = sum(float(a) * float(b) for a, b in zip(rows[i], rows[j], strict=True))
            sizes = [math.sqrt(sum(float(a) ** 2 for a in row)) for row in (rows[i], rows[j])]
            found.append(dot / (sizes[0] * sizes[1]))
    return sum(found) / len(found)


class HiddenKeys:
    """The stock model with eliminated word-vectors hidden as keys, encoder by encoder.

    Elimination is exactly that nobody attends to a word-vector any more. So a stock forward pass over
    all rows, in which encoder j + 1 sees only the keys that encoder j retained, must give the retained
    rows the same states, whatever the family does with positions. `retained` are those of one text.
    """

    def __init__(self, encoders: list[Any], retained: list[tuple[int, ...]], length: int) -> None:
        self.visible = [list(range(length)), *map(list, retained[:-1])]
        self.calls = 0
        modules = {id(module): module for module in encoders}.values()  # ALBERT shares one
        self.handles = [module.register_forward_pre_hook(self._hide, with_kwargs=True) for module in modules]

    def _hide(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        keys = self.visible[self.calls]
        self.calls += 1
        hidden = args[0]
        by_name = "attention_mask" in kwargs
        mask = kwargs["attention_mask"] if by_name else args[1]
        length = hidden.shape[1]
        shown = torch.zeros(length, dtype=torch.bool)
        shown[keys] = True
        if "DebertaV2" in type(module).__name__:
            new = mask.bool() & shown
        else:
            new = torch.zeros(1, 1, length, length) if mask is None else mask
            new = new.masked_fill(~shown, torch.finfo(torch.float32).min)
        if by_name:
            kwargs["attention_mask"] = new
        else:
            args = (args[0], new, *args[2:])
        return args, kwargs

    def __enter__(self) -> HiddenKeys:
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self.handles:
            handle.remove()

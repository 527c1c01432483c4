"""What the encoder loop asks of a family.

Paper: Background

An adapter takes one encoder of its family apart into the parts the paper names: the query, key and
value projections, the output of self-attention, the feed-forward network. It calls the model's own
modules, so weights, dropout, LoRA layers and quantised layers stay where they are.
"""

from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from powerbert.elimination.extract import extract
from powerbert.errors import UnsupportedModelError


class Inputs(NamedTuple):
    """The inputs of a base model, right-padded; absent ones are None."""

    real: Tensor  # (batch, length) bool, False at PAD
    input_ids: Tensor | None = None  # (batch, length)
    token_type_ids: Tensor | None = None  # (batch, length)
    position_ids: Tensor | None = None  # (batch, length)
    inputs_embeds: Tensor | None = None  # (batch, length, embedding)

    def given(self, names: tuple[str, ...]) -> dict[str, Tensor]:
        """The named inputs that the caller passed, as keyword arguments for an embedding layer."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


class Projections(NamedTuple):
    """Queries, keys and values, split into heads."""

    query: Tensor  # (batch, heads, queries, head)
    key: Tensor  # (batch, heads, length, head)
    value: Tensor  # (batch, heads, length, head)


class Family:
    """The common shape: post-norm encoders in `base.encoder.layer`, absolute positions in the embeddings."""

    inputs: tuple[str, ...] = Inputs._fields[1:]  # what the embeddings read
    attention: str = "attention"  # the path in an encoder of the module that makes queries, keys and values
    linear: tuple[str, ...] = ("query", "key", "value")  # its linear layers
    head_size: str = "attention_head_size"
    forget: str = "dropout.p"  # its dropout on attention probabilities
    mixing: tuple[str, ...] = ()  # paths of what the mixed values pass: the norm, last, after the residual is added
    feeding: tuple[str, ...] = ()  # the same of the feed-forward network
    layers: str = "encoder.layer"  # the path in the base model of its encoders
    alike: bool = True  # whether any of its encoders can stand in any place
    heads_output: str = ""  # the path of what projects the values of all heads; empty where no head can go by itself
    of_base: tuple[str, ...] = ("embeddings",)  # paths of what else the adapter uses of the base model
    of_encoder: tuple[str, ...] = ()  # paths of what else it uses of each encoder
    of_host: tuple[Any, tuple[str, ...]] = (None, ())  # a module of transformers and functions of it that it calls

    def parts(self) -> tuple[str, ...]:
        """Paths of all that the adapter uses of an encoder."""
        made = (*self.linear, self.head_size, self.forget)
        return (*(f"{self.attention}.{part}" for part in made), *self.mixing, *self.feeding, *self.of_encoder)

    def check(self, base: Any) -> None:
        """Refuse a model that lacks a part: transformers may have changed since the adapter was written."""
        missing = _missing(*self.of_host) or _missing(base, (self.layers, *self.of_base))
        missing = missing or _missing(self.encoders(base)[0], self.parts())
        if missing:
            what = f"{type(base).__name__} of this transformers has no {missing}"
            rule = f"{type(self).__name__}, the adapter of its family, calls it"
            remedy = "install a transformers that powerbert is tested with: docs/dependencies.md"
            raise UnsupportedModelError(what, rule=rule, remedy=remedy)

    def longest(self, config: Any) -> int:
        """The longest input the positions of this model reach."""
        return int(config.max_position_embeddings)

    def encoders(self, base: Any) -> list[Any]:
        """The modules of encoders 1 to L, in order; a shared module appears once per use."""
        return list(attrgetter(self.layers)(base))

    def embed(self, base: Any, inputs: Inputs) -> Tensor:
        """Embed the words: (batch, length, hidden)."""
        return base.embeddings(**inputs.given(self.inputs))

    def context(self, base: Any, inputs: Inputs, hidden: Tensor) -> Any:
        """Whatever depends on position, for the whole input; `None` if positions are only embedded."""
        return None

    def project(
        self, encoder: Any, hidden: Tensor, asking: Tensor | None, context: Any, positions: Tensor
    ) -> Projections:
        """Project the word-vectors (batch, length, hidden).

        asking: (batch, queries), the rows that ask, or None if all do. positions: (batch, length).
        """
        own = attrgetter(self.attention)(encoder)
        size = getattr(own, self.head_size)
        query, key, value = (getattr(own, name) for name in self.linear)
        queries = query(hidden if asking is None else extract(hidden, asking))
        return Projections(*(split_heads(each, size) for each in (queries, key(hidden), value(hidden))))

    def scale(self, encoder: Any, query: Tensor) -> float:
        """The factor on the dot products."""
        return float(query.shape[-1] ** -0.5)

    def bias(self, encoder: Any, heads: Projections, context: Any, asking: Tensor, positions: Tensor) -> Tensor | None:
        """What is added to the scaled dot products, from the words' own positions in the input.

        asking: (batch, queries) and positions: (batch, length), the positions of queries and keys.
        Returns a tensor that broadcasts to (batch, heads, queries, length), or None.
        """
        return None

    def dropout(self, encoder: Any) -> float:
        """The dropout on attention probabilities while training."""
        return float(attrgetter(f"{self.attention}.{self.forget}")(encoder))

    def attention_output(self, encoder: Any, mixed: Tensor, residual: Tensor) -> Tensor:
        """Project, add and normalise the mixed values: the output of the self-attention module."""
        return _added(encoder, self.mixing, mixed, residual)

    def feed_forward(self, encoder: Any, attended: Tensor) -> Tensor:
        """The feed-forward network with its residual."""
        return _added(encoder, self.feeding, attended, attended)

    def after_first(self, base: Any, context: Any, hidden: Tensor, positions: Tensor) -> Tensor:
        """What a family does once, after encoder 1."""
        return hidden

    def finish(self, base: Any, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """The final states and, if the model has a pooler, the pooled CLS."""
        pooler = getattr(base, "pooler", None)
        return hidden, None if pooler is None else pooler(hidden)

    def reads_cls_only(self, model: Any) -> bool:
        """Whether this head, a class of transformers itself, reads nothing but row 0."""
        return type(model).__name__.endswith(("ForSequenceClassification", "ForMultipleChoice"))


def _added(encoder: Any, paths: tuple[str, ...], rows: Tensor, residual: Tensor) -> Tensor:
    *layers, norm = (attrgetter(path)(encoder) for path in paths)
    for layer in layers:
        rows = layer(rows)
    return norm(rows + residual)


def _missing(whole: Any, paths: tuple[str, ...]) -> str | None:
    """The first path that leads nowhere."""
    for path in paths:
        try:
            attrgetter(path)(whole)
        except AttributeError:
            return path
    return None


def split_heads(projected: Tensor, head_size: int) -> Tensor:
    """(batch, length, heads * head) -> (batch, heads, length, head)."""
    return projected.view(*projected.shape[:-1], -1, head_size).transpose(1, 2)


def distances(asking: Tensor, positions: Tensor) -> Tensor:
    """Signed distance, query minus key: (batch, queries), (batch, length) -> (batch, queries, length)."""
    return asking[:, :, None] - positions[:, None, :]


def by_distance(table: Tensor, asking: Tensor, positions: Tensor) -> Tensor:
    """Look up distances from -(n - 1) to n - 1: (2 * n - 1, ...) -> (batch, queries, length, ...)."""
    return table[distances(asking, positions) + (table.shape[0] - 1) // 2]


def mask_value(like: Tensor) -> float:
    """What hides a key: the least finite number, so that a row with no visible key stays finite."""
    return torch.finfo(like.dtype).min

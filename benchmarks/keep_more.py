"""Try to lose less at the same cost: each try re-trains the same rung, in the frame of `ways.py`.

    python benchmarks/keep_more.py --model ../shared/models/gte-small --data ../shared/data --task SST-2 --rows 6000 \\
        --judged 5000 --output RUNS

carried: the scores of earlier encoders count in later ones. fused: the least significant of the retained word-vectors
becomes the mean of itself and all that are eliminated, weighed by significance. ranking: during re-training the scores
of the first half of the encoders learn those of the fine-tuned model's last four. The tries are patches of the loop
that live here alone: what does not win has no place in the library.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy
import torch
from torch import Tensor
from torch.nn.functional import dropout, one_hot
from ways import Study, arguments, prepared, shown

from powerbert.elimination.selection import significance
from powerbert.engines.answers import answer_rows
from powerbert.engines.torch_engine import TorchEngine
from powerbert.modeling import encoder, ops
from powerbert.modeling.apply import apply, attach, attached
from powerbert.modeling.encoder import Encoder
from powerbert.modeling.layout import Padded, Words
from powerbert.modeling.retain import Elimination
from powerbert.modeling.storage import load
from powerbert.retention import RetentionConfiguration
from powerbert.training import data, steps
from powerbert.training.ladder import rung
from powerbert.training.teacher import Distillation

FADING = 0.5  # of a score from one encoder to the next
WEIGHT = 0.1  # of the loss of the ranking
LAST = 4  # encoders whose scores are learned from


def shares(scores: Tensor, real: Tensor | None) -> Tensor:
    """Scores (batch, length) as shares of an input's sum; PAD has none."""
    held = scores if real is None else scores * real
    return held / held.sum(dim=1, keepdim=True).clamp(min=1e-9)


@dataclass(frozen=True)
class Carried(Elimination):
    """Scores that remember those of earlier encoders."""

    canvas: list[Tensor] = field(default_factory=list)  # (batch, N), by position in the whole input

    def score(self, probabilities: Tensor | None, block: Any) -> Tensor:
        """Own scores plus the fading ones."""
        own = shares(super().score(probabilities, block), block.real)
        if not self.canvas:
            self.canvas.append(own.new_zeros(own.shape[0], 1024))
        found = own + FADING * self.canvas[0].gather(1, block.positions)
        self.canvas[0] = self.canvas[0].scatter(1, block.positions, found)
        return found


class FusedEncoder(Encoder):
    """An encoder whose least significant retained word-vector stands for all that it eliminates."""

    def __call__(self, words: Words) -> Words:
        """Project, attend, fuse, feed forward."""
        block = words.blocks(self.j)[0]
        if not isinstance(words, Padded) or not block.eliminates or block.cls:  # the teacher's rows are packed
            return super().__call__(words)
        family = self.elimination.family
        heads = family.project(self.module, words.hidden, None, self.context, words.positions)
        scale = family.scale(self.module, heads.query)
        probabilities = ops.probabilities(heads, self.mask(block, heads, None), scale)
        scores = self.elimination.score(probabilities.detach(), block)
        retained = self.elimination.retain.early(scores, block)
        assert retained is not None
        weights = fusing(shares(scores, block.real), retained, block)  # (batch, width, length)
        forget = family.dropout(self.module) if self.module.training else 0.0
        mixed = ops.mix(dropout(weights[:, None] @ probabilities, forget, self.module.training), heads.value)
        residual = weights @ words.hidden
        words = words.extract(self.j, [block], [retained])._replace(hidden=residual)
        attended = family.attention_output(self.module, mixed, residual)
        return words._replace(hidden=family.feed_forward(self.module, attended))


def fusing(scores: Tensor, retained: Tensor, block: Any) -> Tensor:
    """Of which rows each retained row is the mean: (batch, width, length)."""
    length, width = scores.shape[1], retained.shape[1]
    weights = one_hot(retained, length).to(scores.dtype)
    counts = torch.full_like(retained[:, 0], width) if block.counts is None else block.counts
    own = torch.arange(width, device=scores.device) < counts[:, None]  # (batch, width), not filled up
    gone = 1 - (weights * own[..., None]).sum(dim=1)  # (batch, length)
    if block.real is not None:
        gone = gone * block.real
    least = scores.gather(1, retained).masked_fill(~own, torch.inf)
    least[:, 0] = torch.inf  # CLS
    slot = least.argmin(dim=1)  # (batch,)
    rows = torch.arange(len(slot), device=slot.device)
    together = (gone + weights[rows, slot]) * scores
    together = together / together.sum(dim=1, keepdim=True).clamp(min=1e-9)
    alone = (counts < 2)[:, None]
    weights[rows, slot] = torch.where(alone, weights[rows, slot], together)
    return weights


class Ranking:
    """What the ranking try knows: targets by the words of an input, those of this batch, and the losses so far."""

    def __init__(self) -> None:
        self.targets: dict[tuple[int, ...], Tensor] = {}
        self.now: Tensor | None = None  # (batch, N)
        self.losses: list[Tensor] = []


RANKING = Ranking()


class RankingEncoder(Encoder):
    """An encoder whose scores learn which words matter in the end."""

    def __call__(self, words: Words) -> Words:
        """As any encoder, with a loss beside it."""
        if RANKING.now is not None and self.module.training and 2 * self.j <= len(self.elimination.retention):
            (block,) = words.blocks(self.j)
            family = self.elimination.family
            heads = family.project(self.module, words.hidden, None, self.context, words.positions)
            mask, scale = self.mask(block, heads, None), family.scale(self.module, heads.query)
            own = shares(significance(ops.probabilities(heads, mask, scale), block.real), block.real)
            aim = shares(RANKING.now.gather(1, block.positions), block.real)
            RANKING.losses.append(-(aim * own.clamp(min=1e-9).log()).sum(dim=1).mean())
        return super().__call__(words)


class RankingDistillation(Distillation):
    """The loss of re-training and that of the ranking."""

    def __call__(self, model: Any, inputs: dict[str, Tensor], outputs: Any, step: int) -> Tensor:
        """Add the mean of the encoders' losses."""
        loss = super().__call__(model, inputs, outputs, step)
        return loss + WEIGHT * torch.stack(RANKING.losses).mean()


@torch.no_grad()
def teach_ranking(study: Study) -> None:
    """The significance of every training word in the last encoders of the fine-tuned model."""
    network, _ = load(study.fine)
    network.set_attn_implementation("eager")
    for row in study.encoded.splits["train"]:
        names = [name for name in ("input_ids", "token_type_ids", "attention_mask") if name in row]
        found = network(**{name: torch.tensor([row[name]]) for name in names}, output_attentions=True).attentions
        score = torch.stack([significance(each) for each in found[-LAST:]]).sum(dim=0)[0]
        RANKING.targets[tuple(row["input_ids"])] = score / score.sum()


def look_up(model: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Before a forward pass: the targets of its batch."""
    RANKING.losses, RANKING.now = [], None
    if model.training:
        ids, mask = kwargs["input_ids"], kwargs["attention_mask"].bool()
        RANKING.now = torch.zeros(ids.shape)
        for i, row in enumerate(ids):
            own = RANKING.targets[tuple(row[mask[i]].tolist())]
            RANKING.now[i, : len(own)] = own


def carrying(model: Any, retention: RetentionConfiguration) -> Any:
    """`apply` with scores that are carried."""
    own = attached(apply(model, retention))
    found = Carried(**{each.name: getattr(own, each.name) for each in fields(Elimination)} | {"packed": False})
    if not hasattr(model, "_clears"):
        model._clears = model.register_forward_pre_hook(lambda *_: attached(model).canvas.clear())
    return attach(model, found)


def padded(model: Any, retention: RetentionConfiguration) -> Any:
    """`apply` in one padded block."""
    apply(model, retention)
    elimination = attached(model)
    return attach(model, Elimination(**vars(elimination) | {"packed": False}))


def ranking(model: Any, retention: RetentionConfiguration) -> Any:
    """`apply` with the targets looked up before each batch."""
    if not hasattr(model, "_looks_up"):
        model._looks_up = model.register_forward_pre_hook(look_up, with_kwargs=True)
    return padded(model, retention)


TRIES: dict[str, tuple[Callable[..., Any], type[Encoder]]] = {
    "carried": (carrying, Encoder),
    "fused": (padded, FusedEncoder),
    "ranking": (ranking, RankingEncoder),
}


@contextmanager
def trying(name: str) -> Iterator[Callable[..., Any]]:
    """The loop with a try in it; yields its `apply`."""
    applied, own = TRIES[name]
    distillation = RankingDistillation if name == "ranking" else Distillation
    with (
        patch.object(steps, "apply", applied),
        patch.object(encoder, "Encoder", own),
        patch.object(steps, "Distillation", distillation),
        patch.object(data, "TorchEngine", partial(TorchEngine, unpadded=False)),
    ):
        yield applied


def main() -> None:
    """Run every try and write its line."""
    given = arguments(__doc__, TRIES)
    study = prepared(given)
    study.start(given.model)
    results = given.output / "keep_more.json"
    done: dict[str, Any] = json.loads(results.read_text()) if results.is_file() else {}
    retention = rung(study.encoders, study.budget)
    for name in given.ways.split(","):
        if name not in done:
            if name == "ranking" and not Path(study.root, name, "config.json").is_file():
                teach_ranking(study)
            with trying(name) as applied:
                folder = study.retrained(name, retention, study.cost)
                network, tokenizer = load(folder)
                with TorchEngine(applied(network, retention), tokenizer, unpadded=False) as engine:
                    logits = numpy.stack(answer_rows(engine, list(study.rows)))
            done[name] = study.compared(name, logits, retention)
            results.write_text(json.dumps(done, indent=1))
        print(shown(done[name]), flush=True)


if __name__ == "__main__":
    main()

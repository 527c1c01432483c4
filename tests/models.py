"""Tiny random models of every family: enough for shape, equality and plumbing, never for accuracy."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

SIZES: dict[str, Any] = dict(
    vocab_size=60,
    hidden_size=24,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=32,
    max_position_embeddings=40,
)
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", {}),
    "albert": ("Albert", dict(embedding_size=12, num_hidden_groups=2)),
    "roberta": ("Roberta", dict(pad_token_id=1, max_position_embeddings=48)),
    "xlm-roberta": ("XLMRoberta", dict(pad_token_id=1, max_position_embeddings=48)),
    "distilbert": ("DistilBert", {}),
    "electra": ("Electra", dict(embedding_size=12)),
    "mpnet": ("MPNet", dict(pad_token_id=1, max_position_embeddings=48)),
    "modernbert": ("ModernBert", dict(local_attention=8, global_attn_every_n_layers=2, pad_token_id=0)),
    "deberta-v2": (
        "DebertaV2",
        dict(
            relative_attention=True,
            position_buckets=8,
            pos_att_type=["c2p", "p2c"],
            share_att_key=True,
            norm_rel_ebd="layer_norm",
            position_biased_input=False,
            type_vocab_size=0,
        ),
    ),
}
DISTILBERT_NAMES = dict(
    hidden_size="dim", num_hidden_layers="n_layers", num_attention_heads="n_heads", intermediate_size="hidden_dim"
)


@lru_cache(maxsize=64)
def _built(family: str, head: str, seed: int, changes: tuple[tuple[str, Any], ...]) -> PreTrainedModel:
    name, extra = FAMILIES[family]
    sizes = {"num_labels": 2 if head == "ForQuestionAnswering" else 3} | SIZES | extra | dict(changes)
    if family == "distilbert":
        sizes = {DISTILBERT_NAMES.get(key, key): value for key, value in sizes.items()}
    config = getattr(transformers, f"{name}Config")(**sizes)
    torch.manual_seed(seed)
    model = getattr(transformers, f"{name}{head}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.2)
    return model


def tiny(family: str, head: str = "ForSequenceClassification", seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A tiny random model in eval mode; weights are wide enough that attention is far from uniform."""
    return copy.deepcopy(_built(family, head, seed, tuple(sorted(changes.items()))))


def batch_of(lengths: list[int], width: int | None = None, pad: int = 0, side: str = "right", seed: int = 1) -> Any:
    """Random words (never PAD, 5 and above) padded to `width` on one side; returns model inputs."""
    generator = torch.Generator().manual_seed(seed)
    width = width or max(lengths)
    input_ids = torch.full((len(lengths), width), pad)
    mask = torch.zeros(len(lengths), width, dtype=torch.long)
    for i, length in enumerate(lengths):
        words = torch.randint(5, 60, (length,), generator=generator)
        place = slice(0, length) if side == "right" else slice(width - length, width)
        input_ids[i, place], mask[i, place] = words, 1
    return {"input_ids": input_ids, "attention_mask": mask}

"""Encoders with fewer attention heads: taken out of the projections, so that their time is saved.

transformers has no `prune_heads` any more, and in its configurations the heads of every encoder fill the hidden size.
So what is left of an encoder is in the shapes of its layers. A saved folder has layers of the full size, the retained
heads first and zeros behind them: plain transformers reads it and answers the same, in the time of the full model.
`powerbert.json` has the number of heads of each encoder, and `load` takes the zeros out again.
"""

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from powerbert.errors import ModelFolderError, UnsupportedModelError
from powerbert.folders.manifest import MANIFEST, SAVE_AGAIN, Manifest
from powerbert.modeling.apply import base_of
from powerbert.modeling.families import FAMILIES, family_of

_Model = TypeVar("_Model")


def heads_outputs(model: Any) -> list[Any]:
    """The layer of each encoder that projects the values of all heads; refuses a family whose heads cannot go."""
    base = base_of(model)
    family = family_of(base)
    if not family.heads_output:
        serves = ", ".join(name for name, each in FAMILIES.items() if each.heads_output)
        what, got = "heads cannot be taken out of this family of models", base.config.model_type
        raise UnsupportedModelError(what, got=got, rule=f"possible in {serves}")
    return [attrgetter(family.heads_output)(encoder) for encoder in family.encoders(base)]


def all_heads(model: Any) -> tuple[int, ...]:
    """How many heads each encoder has."""
    return tuple(layer.in_features // _head_size(model) for layer in heads_outputs(model))


def fewer_heads(model: Any) -> tuple[int, ...]:
    """How many heads each encoder has; empty where none is missing, as in any model of transformers."""
    base = base_of(model)
    found = all_heads(model) if family_of(base).heads_output else ()
    return found if any(heads < base.config.num_attention_heads for heads in found) else ()


def retain_heads(model: _Model, retained: Sequence[Sequence[int]]) -> _Model:
    """Take all heads out of the encoders but these, numbered from 0 in each; in place, and not to be undone."""
    size = _head_size(model)
    for projections, output, heads in zip(_projections(model), heads_outputs(model), retained, strict=True):
        rows = torch.cat([torch.arange(head * size, (head + 1) * size) for head in heads]).to(output.weight.device)
        for layer in projections:
            layer.weight, layer.bias = (nn.Parameter(each.detach()[rows]) for each in (layer.weight, layer.bias))
            layer.out_features = len(rows)
        output.weight, output.in_features = nn.Parameter(output.weight.detach()[:, rows]), len(rows)
    return model


def whole_state(model: Any) -> dict[str, Tensor] | None:
    """The state of a model with layers of the full size, zeros where heads are missing; None where none is."""
    if not fewer_heads(model):
        return None
    state, names = model.state_dict(), {id(module): name for name, module in model.named_modules()}
    full = base_of(model).config.num_attention_heads * _head_size(model)
    for projections, output in zip(_projections(model), heads_outputs(model), strict=True):
        missing = full - output.in_features
        for layer in projections:
            name = names[id(layer)]
            state[f"{name}.weight"] = pad(layer.weight.detach(), (0, 0, 0, missing))
            state[f"{name}.bias"] = pad(layer.bias.detach(), (0, missing))
        state[f"{names[id(output)]}.weight"] = pad(output.weight.detach(), (0, missing))
    return state


def heads_in(folder: Path, manifest: Manifest, model: Any) -> list[range]:
    """The heads that a manifest says are retained of the model as it was read; those in front."""
    most, counts = all_heads(model), manifest.heads
    fits = isinstance(counts, list) and len(counts) == len(most) and all(type(count) is int for count in counts)
    if not fits or not all(1 <= count <= all_of for count, all_of in zip(counts, most, strict=True)):
        rule = f"{len(most)} whole numbers, one per encoder, from 1 to {most[0]}"
        raise ModelFolderError(f"{folder / MANIFEST} has unknown heads", got=counts, rule=rule, remedy=SAVE_AGAIN)
    return [range(count) for count in counts]


def _projections(model: Any) -> list[list[Any]]:
    """The query, key and value layers of each encoder."""
    base = base_of(model)
    family = family_of(base)
    modules = [attrgetter(family.attention)(encoder) for encoder in family.encoders(base)]
    return [[getattr(module, name) for name in family.linear] for module in modules]


def _head_size(model: Any) -> int:
    base = base_of(model)
    family = family_of(base)
    return int(attrgetter(f"{family.attention}.{family.head_size}")(family.encoders(base)[0]))

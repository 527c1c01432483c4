"""The forward pass of a base model with elimination: arrange, embed, encode, give back.

Elimination sees every input as if it stood alone: whatever the padding, left, right or holed, real
words are first moved to the front in their order and the batch is cut to its longest input. Positions,
windows and CLS are then those of the text itself, and the same text gets the same answer in any batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling

from powerbert.elimination.extract import extract
from powerbert.errors import UnsupportedModelError
from powerbert.modeling.encoder import Elimination, Encoded, Savings, Words, encode
from powerbert.modeling.families.base import Inputs
from powerbert.modeling.schedule import schedule
from powerbert.modeling.unpadded import encode_unpadded

ATTRIBUTE = "_powerbert_elimination"
SEQUENCES = ("input_ids", "token_type_ids", "position_ids", "inputs_embeds")


class Arranged(NamedTuple):
    """A batch with its real words in front."""

    inputs: Inputs
    lengths: Tensor  # (batch,), at least 1
    padded: bool
    places: Tensor  # (batch, width), where each row stood in the caller's layout
    length: int  # of the caller's layout


def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the base model with the elimination attached to it; bound in place of its own forward.

    With `output_retained=True` the output also has `retained`: for each encoder, the positions (batch,
    width) in the caller's layout and how many of them each input retains (batch,).
    """
    elimination: Elimination = getattr(self, ATTRIBUTE)
    arguments = dict(zip(("input_ids", "attention_mask"), args, strict=False)) | kwargs
    if _is_untouched(elimination, arguments):
        return type(self).forward(self, *args, **kwargs)
    _refuse_unsupported(self, arguments, len(args))
    config = self.config
    asked = arguments.get("output_hidden_states")
    record_states = bool(config.output_hidden_states if asked is None else asked)
    record_retained = bool(arguments.pop("output_retained", False))
    arranged, encoded = run(
        self, elimination, arguments, record_states=record_states, record_retained=record_retained
    )
    hidden, pooled = elimination.family.finish(self, encoded.hidden)
    last = hidden if elimination.cls_only else _give_back(hidden, arranged)
    output: Any = BaseModelOutputWithPooling(
        last_hidden_state=cast(Any, last), pooler_output=cast(Any, pooled)
    )
    if record_states:
        states = [*encoded.states[:-1], hidden]  # the last one with the model's final norm, as stock has it
        output["hidden_states"] = tuple(_give_back(state, arranged) for state in states)
    if record_retained:
        output["retained"] = [
            (arranged.places.gather(1, positions), lengths) for positions, lengths in encoded.retained
        ]
    return_dict = arguments.get("return_dict")
    return output if (config.return_dict if return_dict is None else return_dict) else output.to_tuple()


def _is_untouched(elimination: Elimination, arguments: dict[str, Any]) -> bool:
    """Whether nothing can be eliminated: full retention, and no input longer than its N."""
    if (
        not elimination.retention.is_full
        or elimination.soft_extract is not None
        or not elimination.own_forward
    ):
        return False
    if elimination.retention.max_length is None:
        return True
    given = (arguments.get(name) for name in ("input_ids", "inputs_embeds"))
    return all(rows.shape[1] <= elimination.retention.max_length for rows in given if rows is not None)


def run(
    base: Any, elimination: Elimination, arguments: dict[str, Any], **record: bool
) -> tuple[Arranged, Encoded]:
    """Arrange, embed and encode one batch."""
    arranged = _arrange(arguments, trim=not elimination.scoring.padded_queries_vote)
    inputs, lengths, padded, _, _ = arranged
    hidden = elimination.family.embed(base, inputs)
    context = elimination.family.context(base, inputs, hidden)
    batch, width = hidden.shape[:2]
    positions = torch.arange(width, device=hidden.device).expand(batch, width)
    stages = schedule(elimination.retention, lengths, width)
    words = Words(hidden, positions, lengths, padded)
    if context is None and not any(record.values()) and _can_unpad(base, elimination):
        return arranged, Encoded(encode_unpadded(elimination, base, words, stages), [], [])
    return arranged, encode(elimination, base, context, words, stages, **record)


def _can_unpad(base: Any, elimination: Elimination) -> bool:
    """Whether PAD can be left out: in inference, for a head that reads CLS, with every saving on."""
    return (
        elimination.cls_only
        and elimination.savings == Savings()
        and elimination.soft_extract is None
        and not elimination.scoring.padded_queries_vote
        and not base.training
        and not torch.compiler.is_compiling()
    )


def _arrange(arguments: dict[str, Any], trim: bool) -> Arranged:
    """Move real words to the front of each input and cut the batch to its longest."""
    given = {name: arguments[name] for name in SEQUENCES if arguments.get(name) is not None}
    like = next(given[name] for name in ("input_ids", "inputs_embeds") if name in given)
    batch, length = like.shape[:2]
    mask = arguments.get("attention_mask")
    if mask is None:
        real = torch.ones(batch, length, dtype=torch.bool, device=like.device)
    else:
        real = mask.to(torch.bool)
    lengths = real.sum(dim=1).clamp(min=1)  # an input of PAD alone still has its first row as CLS
    order = torch.arange(length, device=like.device)
    # Distinct keys, real words first: any sort of them is stable, in any runtime.
    places = torch.where(real, order, order + length).argsort(dim=1)
    width, padded = length, True
    if not torch.compiler.is_compiling():
        longest, shortest = torch.stack([lengths.max(), lengths.min()]).tolist()
        width = longest if trim else length
        padded = shortest < width
        if not padded and width == length:  # nothing is padded, so nothing moves
            return Arranged(_inputs(given, real), lengths, padded, places, length)
    places = places[:, :width]
    moved = {name: _move(rows, places) for name, rows in given.items()}
    front = torch.arange(width, device=like.device) < lengths[:, None]
    return Arranged(_inputs(moved, front), lengths, padded, places, length)


def _move(rows: Tensor, places: Tensor) -> Tensor:
    """Take rows (batch or 1, length, ...) from their places (batch, width)."""
    return extract(rows.expand(places.shape[0], *rows.shape[1:]), places)


def _inputs(given: dict[str, Tensor], real: Tensor) -> Inputs:
    return Inputs(**{name: given.get(name) for name in SEQUENCES}, real=real)


def _give_back(rows: Tensor, arranged: Arranged) -> Tensor:
    """Put rows (batch, width, hidden) back to the caller's layout (batch, length, hidden).

    PAD beyond the longest input was never computed and comes back as zeros.
    """
    if not arranged.padded and rows.shape[1] == arranged.length:
        return rows
    canvas = rows.new_zeros(rows.shape[0], arranged.length, rows.shape[2])
    return canvas.scatter(1, arranged.places[..., None].expand_as(rows), rows)


def _refuse_unsupported(base: Any, arguments: dict[str, Any], positional: int) -> None:
    """Refuse what elimination cannot honour, rather than ignore it."""
    if positional > 2:
        raise UnsupportedModelError(
            "elimination takes input_ids and attention_mask by position, the rest by name",
            got=f"{positional} positional arguments",
        )
    if (arguments.get("input_ids") is None) == (arguments.get("inputs_embeds") is None):
        raise UnsupportedModelError("give exactly one of input_ids and inputs_embeds")
    mask = arguments.get("attention_mask")
    if mask is not None and (not isinstance(mask, Tensor) or mask.dim() != 2):
        raise UnsupportedModelError(
            "elimination needs the plain attention mask",
            got=tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__,
            rule="its shape is (batch, length), 1 at words and 0 at PAD",
        )
    words = arguments["inputs_embeds"] if arguments.get("input_ids") is None else arguments["input_ids"]
    if mask is not None and mask.shape != words.shape[:2]:
        raise UnsupportedModelError(
            "the attention mask does not fit the inputs",
            got=tuple(mask.shape),
            rule=f"{tuple(words.shape[:2])}",
        )
    attentions = arguments.get("output_attentions")
    if base.config.output_attentions if attentions is None else attentions:
        raise UnsupportedModelError(
            "attention matrices shrink from encoder to encoder and are not returned",
            got="output_attentions=True",
            remedy="use powerbert.trace, or powerbert.remove for the untouched model",
        )
    for name in ("encoder_hidden_states", "past_key_values"):
        if arguments.get(name) is not None:
            raise UnsupportedModelError("elimination serves encoders", got=name)

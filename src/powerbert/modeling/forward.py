"""The forward pass of a base model with elimination: arrange, embed, encode, give back.

Elimination sees every input as if it stood alone: whatever the padding, left, right or holed, real
words are first moved to the front in their order and the batch is cut to its longest input. Positions,
windows and CLS are then those of the text itself, and the same text gets the same answer in any batch.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling

from powerbert.elimination.extract import extract, restore
from powerbert.errors import UnsupportedModelError
from powerbert.modeling import ops
from powerbert.modeling.encoder import encode
from powerbert.modeling.families.base import Inputs
from powerbert.modeling.layout import CELLS, Packed, Padded
from powerbert.modeling.retain import Elimination, Extract, PapersOrder, SoftExtract
from powerbert.modeling.schedule import cls_stage

ATTRIBUTE = "_powerbert_elimination"
OWN_FORWARD = "_powerbert_own_forward"
SEQUENCES = ("input_ids", "token_type_ids", "position_ids", "inputs_embeds")


class Arranged(NamedTuple):
    """A batch with its real words in front."""

    inputs: Inputs
    lengths: Tensor  # (batch,), at least 1
    padded: bool
    places: Tensor  # (batch, width), where each row stood in the caller's layout
    length: int  # of the caller's layout


class Encoded(NamedTuple):
    """What comes out of the encoders."""

    hidden: Tensor  # (batch, width, hidden), or (batch, 1, hidden) if the head reads nothing but CLS
    states: list[Tensor]  # after the embeddings and each encoder, whole width, if asked for
    retained: list[tuple[Tensor, Tensor]]  # positions and lengths after each encoder, if asked for


def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the base model with the elimination attached to it; bound in place of its own forward.

    With `output_retained=True` the output also has `retained`: for each encoder, the positions (batch,
    width) in the caller's layout and how many of them each input retains (batch,).
    """
    elimination: Elimination | None = getattr(self, ATTRIBUTE, None)
    if elimination is None:
        return _own_forward(self, *args, **kwargs)
    wants_retained = bool(kwargs.pop("output_retained", False))
    arguments = dict(zip(("input_ids", "attention_mask"), args, strict=False)) | kwargs
    if _is_full(elimination, arguments):
        output: Any = _own_forward(self, *args, **kwargs)
        return _with_every_word(output, elimination, arguments) if wants_retained else output
    _refuse_unsupported(self, arguments, len(args))
    config, wants_states = self.config, arguments.get("output_hidden_states")
    if wants_states is None:
        wants_states = config.output_hidden_states
    arranged, encoded = run(self, elimination, arguments, record_states=wants_states, record_retained=wants_retained)
    hidden, pooled = elimination.family.finish(self, encoded.hidden)
    last = hidden if elimination.cls_only else _give_back(hidden, arranged)
    output = BaseModelOutputWithPooling(last_hidden_state=cast(Any, last), pooler_output=cast(Any, pooled))
    if wants_states:
        states = [*encoded.states[:-1], hidden]  # the last one with the model's final norm, as stock has it
        output["hidden_states"] = tuple(_give_back(state, arranged) for state in states)
    if wants_retained:
        output["retained"] = [
            (arranged.places.gather(1, positions), lengths) for positions, lengths in encoded.retained
        ]
    return_dict = arguments.get("return_dict")
    return output if (config.return_dict if return_dict is None else return_dict) else output.to_tuple()


def _own_forward(base: Any, *args: Any, **kwargs: Any) -> Any:
    """What the base model would run without elimination: its class's forward, or one that its owner set."""
    own = getattr(base, OWN_FORWARD, None)
    return type(base).forward(base, *args, **kwargs) if own is None else own(*args, **kwargs)


def _is_full(elimination: Elimination, arguments: dict[str, Any]) -> bool:
    """Whether the model's own forward pass serves, bit for bit: nothing can be eliminated or scaled."""
    retention = elimination.retention
    if not retention.is_full or elimination.packed or isinstance(elimination.retain, SoftExtract):
        return False
    given = (arguments.get(name) for name in ("input_ids", "inputs_embeds"))
    return retention.max_length is None or all(
        rows.shape[1] <= retention.max_length for rows in given if rows is not None
    )


def _with_every_word(output: Any, elimination: Elimination, arguments: dict[str, Any]) -> Any:
    """Add to the output of the full model that every encoder retains every word."""
    arranged = _arrange(arguments, trim=True)
    retained = [(arranged.places, arranged.lengths)] * len(elimination.retention)
    if isinstance(output, tuple):
        return (*output, retained)
    output["retained"] = retained
    return output


def run(
    base: Any,
    elimination: Elimination,
    arguments: dict[str, Any],
    *,
    record_states: bool = False,
    record_retained: bool = False,
) -> tuple[Arranged, Encoded]:
    """Arrange, embed and encode one batch."""
    arranged = _arrange(arguments, trim=not elimination.scoring.padded_queries_vote)
    inputs, lengths, padded, _, _ = arranged
    hidden = elimination.family.embed(base, inputs)
    context = elimination.family.context(base, inputs, hidden)
    width = hidden.shape[1]
    positions = torch.arange(width, device=hidden.device).expand(hidden.shape[:2])
    words = Padded(hidden, positions, lengths, padded, [])
    if _packs(base, elimination, context, record_states or record_retained):
        cells = sys.maxsize if elimination.static else CELLS // base.config.num_attention_heads
        final = encode(elimination, base, None, Packed.of(words, elimination.retention, cells), None)
        return arranged, Encoded(final.cls(), [], [])
    words.stages.extend(ops.plan(elimination.retention, lengths, width))
    cls_only = elimination.cls_only and not record_states
    if cls_only and not isinstance(elimination.retain, PapersOrder):
        words.stages[-1] = cls_stage(lengths)
    recorder = Recorder(words, whole=not cls_only, states=record_states, retained=record_retained)
    final = encode(elimination, base, context, words, recorder)
    whole = final.cls() if cls_only else recorder.restored()
    return arranged, Encoded(whole, recorder.states, recorder.retained)


def _packs(base: Any, elimination: Elimination, context: Any, recording: bool) -> bool:
    """Whether the rows of a batch are packed: in eager inference, for a head that reads nothing but CLS.

    Not where positions matter outside the embeddings, where PAD has a vote, or where every row is wanted:
    to record, in soft-extract and in the paper's order.
    """
    return (
        elimination.packed is not False
        and elimination.cls_only
        and type(elimination.retain) is Extract
        and not elimination.scoring.padded_queries_vote
        and context is None
        and not recording
        and not base.training
        and not ops.is_traced()
    )


class Recorder:
    """Sees the word-vectors after the embeddings and after each encoder.

    An eliminated word-vector keeps the last state it had, the output of the last encoder that retained it,
    and is put back at its own position.
    """

    def __init__(self, words: Padded, *, whole: bool, states: bool, retained: bool) -> None:
        self.words = words
        self.canvas = words.hidden if whole or states else None  # (batch, length, hidden)
        self.states = [words.hidden] if states else []  # after the embeddings and each encoder, whole length
        self.retained: list[tuple[Tensor, Tensor]] = []  # positions and lengths after each encoder
        self.wants = states, retained

    def __call__(self, words: Padded) -> None:
        """Take the word-vectors after the next encoder."""
        if self.canvas is not None and words.positions is not self.words.positions:
            self.canvas = self.restored()  # with the last state of those that were eliminated just now
        self.words = words
        states, retained = self.wants
        if states:
            self.states.append(self.restored())
        if retained:
            self.retained.append((words.positions, words.lengths))

    def restored(self) -> Tensor:
        """Every word-vector with its last state: (batch, length, hidden)."""
        words, canvas = self.words, self.canvas
        assert canvas is not None
        if not words.padded and words.positions.shape[1] == canvas.shape[1]:
            return words.hidden
        real = torch.ones_like(words.positions, dtype=torch.bool)
        if words.padded:
            real = torch.arange(real.shape[1], device=real.device) < words.lengths[:, None]
        return restore(canvas, words.hidden, words.positions, real)


def _arrange(arguments: dict[str, Any], trim: bool) -> Arranged:
    """Move real words to the front of each input and cut the batch to its longest."""
    given = {name: arguments[name] for name in SEQUENCES if arguments.get(name) is not None}
    like = next(given[name] for name in ("input_ids", "inputs_embeds") if name in given)
    batch, length = like.shape[:2]
    mask = arguments.get("attention_mask")
    real = torch.ones(batch, length, dtype=torch.bool, device=like.device) if mask is None else mask.to(torch.bool)
    lengths = real.sum(dim=1).clamp(min=1)  # an input of PAD alone still has its first row as CLS
    order = torch.arange(length, device=like.device)
    width, padded = ops.extent(lengths, length, trim)
    if not padded and width == length:  # nothing moves
        return Arranged(_inputs(given, real), lengths, padded, order.expand(batch, length), length)
    # Distinct keys, real words first: any sort of them is stable, in any runtime.
    places = torch.where(real, order, order + length).argsort(dim=1)
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
            "the attention mask does not fit the inputs", got=tuple(mask.shape), rule=f"{tuple(words.shape[:2])}"
        )
    attentions = arguments.get("output_attentions")
    if base.config.output_attentions if attentions is None else attentions:
        raise UnsupportedModelError(
            "attention matrices shrink from encoder to encoder and are not returned",
            got="output_attentions=True",
            remedy="use powerbert.trace, or powerbert.remove for the full model",
        )
    for name in ("encoder_hidden_states", "past_key_values"):
        if arguments.get(name) is not None:
            raise UnsupportedModelError("elimination serves encoders", got=name)

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

ATTRIBUTE = "_powerbert_elimination"
OWN_FORWARD = "_powerbert_own_forward"


class Arranged(NamedTuple):
    """A batch with its real words in front."""

    inputs: Inputs
    lengths: Tensor  # (batch,), at least 1
    padded: bool
    places: Tensor  # (batch, width), where each row stood in the caller's layout
    length: int  # of the caller's layout

    def give_back(self, rows: Tensor) -> Tensor:
        """Put rows (batch, width, hidden) back to the caller's layout (batch, length, hidden).

        PAD beyond the longest input was never computed and comes back as zeros.
        """
        if not self.padded and rows.shape[1] == self.length:
            return rows
        canvas = rows.new_zeros(rows.shape[0], self.length, rows.shape[2])
        return canvas.scatter(1, self.places[..., None].expand_as(rows), rows)


def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the base model with the elimination attached to it; bound in place of its own forward.

    With `output_retained=True` the output also has `retained`: for each encoder, the positions (batch,
    width) in the caller's layout and how many of them each input retains (batch,). `retention` is for graphs that
    take the configuration as an input: `values` of `ops.stages`.
    """
    elimination: Elimination | None = getattr(self, ATTRIBUTE, None)
    if elimination is None:
        return _own_forward(self, *args, **kwargs)
    wants_retained, values = bool(kwargs.pop("output_retained", False)), kwargs.pop("retention", None)
    given = dict(zip(("input_ids", "attention_mask"), args, strict=False)) | kwargs
    if _is_full(elimination, given):
        output: Any = _own_forward(self, *args, **kwargs)
        return _with_every_word(output, elimination, given) if wants_retained else output
    _refuse_unsupported(self, given, len(args))
    wants_states = _option(self, given, "output_hidden_states")
    arranged, hidden, record = run(
        self, elimination, given, states=wants_states, retained=wants_retained, values=values
    )
    hidden, pooled = elimination.family.finish(self, hidden)
    last = hidden if elimination.cls_only else arranged.give_back(hidden)
    output = BaseModelOutputWithPooling(last_hidden_state=cast(Any, last), pooler_output=cast(Any, pooled))
    if record is not None and wants_states:
        states = [*record.states[:-1], hidden]  # the last one with the model's final norm, as stock has it
        output["hidden_states"] = tuple(map(arranged.give_back, states))
    if record is not None and wants_retained:
        output["retained"] = record.retained
    return output if _option(self, given, "return_dict") else output.to_tuple()


def _option(base: Any, given: dict[str, Any], name: str) -> bool:
    """What the caller asks for, else what the configuration says."""
    return getattr(base.config, name) if given.get(name) is None else given[name]


def _own_forward(base: Any, *args: Any, **kwargs: Any) -> Any:
    """What the base model would run without elimination: its class's forward, or one that its owner set."""
    own = getattr(base, OWN_FORWARD, None)
    return type(base).forward(base, *args, **kwargs) if own is None else own(*args, **kwargs)


def _is_full(elimination: Elimination, given: dict[str, Any]) -> bool:
    """Whether the model's own forward pass serves, bit for bit: nothing can be eliminated or scaled."""
    retention = elimination.retention
    if not retention.is_full or elimination.packed or isinstance(elimination.retain, SoftExtract):
        return False
    words = [given[name] for name in ("input_ids", "inputs_embeds") if given.get(name) is not None]
    return retention.max_length is None or all(rows.shape[1] <= retention.max_length for rows in words)


def _with_every_word(output: Any, elimination: Elimination, given: dict[str, Any]) -> Any:
    """Add to the output of the full model that every encoder retains every word."""
    arranged = _arrange(given, trim=True)
    retained = [(arranged.places, arranged.lengths)] * len(elimination.retention)
    if isinstance(output, tuple):
        return (*output, retained)
    output["retained"] = retained
    return output


def run(
    base: Any,
    elimination: Elimination,
    given: dict[str, Any],
    *,
    states: bool = False,
    retained: bool = False,
    values: Tensor | None = None,
) -> tuple[Arranged, Tensor, Recorder | None]:
    """Arrange, embed and encode one batch; the record is of `states` and `retained`, `values` as in `ops.stages`.

    What comes out of the encoders is (batch, width, hidden), or (batch, 1, hidden) if the head reads nothing but CLS.
    """
    arranged = _arrange(given, trim=not elimination.scoring.padded_queries_vote)
    hidden = elimination.family.embed(base, arranged.inputs)
    context = elimination.family.context(base, arranged.inputs, hidden)
    positions = torch.arange(hidden.shape[1], device=hidden.device).expand(hidden.shape[:2])
    words, retention = Padded(hidden, positions, arranged.lengths, arranged.padded, []), elimination.retention.running
    if _packs(base, elimination, context, states or retained):
        cells = sys.maxsize if elimination.static else CELLS // base.config.num_attention_heads
        packed = Packed.of(words, retention, cells)
        return arranged, encode(elimination, base, None, packed, None).cls(), None
    words.stages.extend(ops.stages(retention, words.lengths, hidden.shape[1], values))
    cls_only = elimination.cls_only and not states
    if cls_only and type(elimination.retain) is not PapersOrder:
        one = torch.ones_like(words.lengths)
        words.stages[-1] = ops.Stage(one, width=1, eliminates=True, padded=False, cls=True)
    record = Recorder(words, arranged.places if retained else None, whole=not cls_only, states=states)
    final = encode(elimination, base, context, words, record)
    return arranged, final.cls() if cls_only else record.restored(), record


def _packs(base: Any, elimination: Elimination, context: Any, recording: bool) -> bool:
    """Whether the rows of a batch are packed: in eager inference, for a head that reads nothing but CLS.

    Not where positions matter outside the embeddings, where PAD has a vote, or where every row is wanted:
    to record, while a configuration is searched and in the paper's order.
    """
    return (
        elimination.packed is not False
        and elimination.cls_only
        and type(elimination.retain) is Extract
        and not elimination.scoring.padded_queries_vote
        and context is None
        and not (recording or base.training or ops.is_traced())
    )


class Recorder:
    """Sees the word-vectors after the embeddings and after each encoder.

    An eliminated word-vector keeps the last state it had, the output of the last encoder that retained it,
    and is put back at its own position.
    """

    def __init__(self, words: Padded, places: Tensor | None, *, whole: bool, states: bool) -> None:
        self.words, self.places = words, places  # (batch, width), where each row stood in the caller's layout
        self.canvas = words.hidden if whole or states else None  # (batch, length, hidden)
        self.states = [words.hidden] if states else []  # after the embeddings and each encoder, whole length
        self.retained: list[tuple[Tensor, Tensor]] = []  # after each encoder, places and lengths; only with `places`

    def __call__(self, words: Padded) -> None:
        """Take the word-vectors after the next encoder."""
        if self.canvas is not None and words.positions is not self.words.positions:
            self.canvas = self.restored()  # with the last state of those that were eliminated just now
        self.words = words
        if self.states:
            self.states.append(self.restored())
        if self.places is not None:
            self.retained.append((self.places.gather(1, words.positions), words.lengths))

    def restored(self) -> Tensor:
        """Every word-vector with its last state: (batch, length, hidden)."""
        words, canvas = self.words, self.canvas
        assert canvas is not None
        width = words.positions.shape[1]
        if not words.padded and width == canvas.shape[1]:
            return words.hidden
        real = torch.arange(width, device=canvas.device) < words.lengths[:, None]
        return restore(canvas, words.hidden, words.positions, real)


def _arrange(given: dict[str, Any], trim: bool) -> Arranged:
    """Move real words to the front of each input and cut the batch to its longest."""
    rows = {name: given[name] for name in Inputs._fields[1:] if given.get(name) is not None}
    like = next(rows[name] for name in ("input_ids", "inputs_embeds") if name in rows)
    batch, length = like.shape[:2]
    mask = given.get("attention_mask")
    real = torch.ones(batch, length, dtype=torch.bool, device=like.device) if mask is None else mask.to(torch.bool)
    lengths = real.sum(dim=1).clamp(min=1)  # an input of PAD alone still has its first row as CLS
    order = torch.arange(length, device=like.device)
    places = order.expand(batch, length)
    width, padded = ops.extent(lengths, length, trim)
    if padded or width != length:
        # Distinct keys, real words first: any sort of them is stable, in any runtime.
        places = torch.where(real, order, order + length).argsort(dim=1)[:, :width]
        rows = {name: extract(each.expand(batch, *each.shape[1:]), places) for name, each in rows.items()}
        real = torch.arange(width, device=like.device) < lengths[:, None]
    return Arranged(Inputs(**rows, real=real), lengths, padded, places, length)


def _refuse_unsupported(base: Any, given: dict[str, Any], positional: int) -> None:
    """Refuse what elimination cannot honour, rather than ignore it."""
    if positional > 2:
        what = "elimination takes input_ids and attention_mask by position, the rest by name"
        raise UnsupportedModelError(what, got=f"{positional} positional arguments")
    if (given.get("input_ids") is None) == (given.get("inputs_embeds") is None):
        raise UnsupportedModelError("give exactly one of input_ids and inputs_embeds")
    mask = given.get("attention_mask")
    if mask is not None and (not isinstance(mask, Tensor) or mask.dim() != 2):
        got = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
        rule = "its shape is (batch, length), 1 at words and 0 at PAD"
        raise UnsupportedModelError("elimination needs the plain attention mask", got=got, rule=rule)
    words = given["inputs_embeds"] if given.get("input_ids") is None else given["input_ids"]
    if mask is not None and mask.shape != words.shape[:2]:
        what, rule = "the attention mask does not fit the inputs", str(tuple(words.shape[:2]))
        raise UnsupportedModelError(what, got=tuple(mask.shape), rule=rule)
    if _option(base, given, "output_attentions"):
        what = "attention matrices shrink from encoder to encoder and are not returned"
        remedy = "use powerbert.trace, or powerbert.remove for the full model"
        raise UnsupportedModelError(what, got="output_attentions=True", remedy=remedy)
    for name in ("encoder_hidden_states", "past_key_values"):
        if given.get(name) is not None:
            raise UnsupportedModelError("elimination serves encoders", got=name)

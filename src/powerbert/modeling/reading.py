"""A classifier's own head on final word-vectors of the caller's, each read in the place of CLS."""

from typing import Any, cast

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling

from powerbert.modeling.apply import base_of
from powerbert.modeling.families import family_of


@torch.no_grad()
def read_head(model: Any, rows: Tensor) -> Tensor:
    """Logits (rows, labels) of word-vectors (rows, hidden) as the last encoder made them.

    For heads that read CLS alone: those of which `apply` says `cls_only`.
    """
    base = base_of(model)
    hidden, pooled = family_of(base).finish(base, rows[:, None])
    answer = BaseModelOutputWithPooling(last_hidden_state=cast(Any, hidden), pooler_output=cast(Any, pooled))
    # The head calls its base model, whatever the family names it: for once that gives what is there already.
    own = dict(vars(base))
    vars(base)["forward"] = lambda *args, **kwargs: answer
    try:
        one = torch.ones(len(rows), 1, dtype=torch.long, device=rows.device)
        return model(input_ids=one, attention_mask=one).logits
    finally:
        vars(base).clear()
        vars(base).update(own)

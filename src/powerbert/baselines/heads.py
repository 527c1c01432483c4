"""Head-Prune: the attention heads that matter least to the loss are taken out of the model, which is then re-trained.

Paper: Baseline methods

The importance of a head is the mean over inputs of |gradient of the input's loss with respect to the head's mask|
(Michel et al., 2019), of which each encoder's have norm one.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import torch
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor

from powerbert.baselines.taught import taught, train_taught
from powerbert.errors import PowerBertError
from powerbert.folders.atomic import write_file
from powerbert.modeling.attention_heads import all_heads, heads_outputs, retain_heads
from powerbert.text.batches import Collator, plan_batches
from powerbert.training.data import Data
from powerbert.training.heads import fine_tuned
from powerbert.training.options import RetrainOptions
from powerbert.training.runner import Folder, StepResult, begin

IMPORTANCE = "heads.json"  # what was found, in the folder
MOST_ASKED = 4096  # rows of the training data that say which heads matter; a large set would cost an epoch for it

logger = logging.getLogger("powerbert.training")


def head_prune(
    model: Folder,
    data: Data,
    output: Folder,
    options: RetrainOptions | None = None,
    *,
    heads: int,
    progress: bool = False,
) -> StepResult:
    """Retain so many attention heads in all, the most important, and re-train; resumes as every step does.

    model: the fine-tuned model, which is the teacher too.
    heads: over all encoders; each retains at least one. The importance of all is in `heads.json` of the folder.
    """
    network, tokenizer = fine_tuned(model, data.task)
    _check_heads(heads, all_heads(network))
    options = options or RetrainOptions()
    width = network.config.hidden_size
    with begin("baselines.head_prune", model, data, output, options, width, progress=progress, heads=heads) as run:
        if run.finished:
            return run.result()
        rows = run.encode(network, tokenizer).splits["train"]
        importance = _importance(run.work / IMPORTANCE, network, rows, tokenizer)
        retained = most_important(importance, heads)
        logger.info("heads retained by each encoder: %s", ", ".join(str(len(own)) for own in retained))
        rows = taught(run, network, tokenizer, rows)  # by the model as it still is
        retain_heads(network, retained)
        train_taught(run, rows)
        return run.finish({IMPORTANCE: json.dumps({"importance": importance.tolist(), "retained": retained}).encode()})


def _check_heads(heads: int, there: Sequence[int]) -> None:
    if isinstance(heads, bool) or not isinstance(heads, int) or not len(there) <= heads < sum(there):
        rule = f"a whole number from {len(there)}, one per encoder, to {sum(there) - 1}: the model has {sum(there)}"
        raise PowerBertError("so many attention heads cannot be retained", got=heads, rule=rule)


def _importance(path: Path, model: Any, rows: Dataset, tokenizer: Any) -> NDArray[Any]:
    """Of each head, (encoders, heads); a stopped run goes on with what it measured."""
    if not path.is_file():
        part = rows.select(numpy.linspace(0, len(rows) - 1, min(len(rows), MOST_ASKED)).astype(int))
        logger.info("measuring which heads matter, on %s rows", f"{len(part):,}")
        write_file(path, json.dumps(head_importance(model, part, tokenizer).tolist()).encode())
    return numpy.asarray(json.loads(path.read_text(encoding="utf-8")))


def head_importance(model: Any, rows: Dataset, tokenizer: Any) -> NDArray[Any]:
    """|gradient of an input's loss with respect to a head's mask|, mean over the rows: (encoders, heads)."""
    total, collate = numpy.zeros((len(all_heads(model)), max(all_heads(model)))), Collator(tokenizer)
    for batch in plan_batches(rows["length"][:], most=32):
        inputs = collate([rows[i] for i in batch])
        total += _gradients(model.eval(), inputs).abs().sum(dim=1).numpy()
    return total / len(rows)


def _gradients(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """Of each input's own loss with respect to its own mask of every head: (encoders, batch, heads)."""
    rows, inner = len(inputs["input_ids"]), inputs["input_ids"].flatten(0, -2).shape[0]
    masks = [torch.ones(inner, heads, requires_grad=True) for heads in all_heads(model)]
    with masked(model, masks), torch.enable_grad():
        loss = model(**inputs).loss * rows  # a mean over the batch
    found = torch.autograd.grad(loss, masks)
    # The choices of a question have one mask: what they say of it adds up.
    return torch.stack([each.reshape(rows, -1, each.shape[1]).sum(dim=1) for each in found])


@contextmanager
def masked(model: Any, masks: Sequence[Tensor]) -> Iterator[None]:
    """Multiply the values of every head by its mask, (batch, heads) for each encoder, in the model's own forward."""

    def weigh(mask: Tensor) -> Any:
        def hook(layer: Any, arguments: tuple[Tensor]) -> Tensor:
            (mixed,) = arguments  # (batch, length, heads * head)
            by_head = mixed.view(*mixed.shape[:-1], mask.shape[1], -1) * mask[:, None, :, None]
            return by_head.flatten(-2)

        return hook

    layers = zip(heads_outputs(model), masks, strict=True)
    handles = [layer.register_forward_pre_hook(weigh(mask)) for layer, mask in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def most_important(importance: NDArray[Any], heads: int) -> list[list[int]]:
    """The heads of each encoder that are retained, ascending, so many in all; of each encoder its best one first."""
    norms = numpy.linalg.norm(importance, axis=1, keepdims=True)
    scores = importance / numpy.where(norms > 0, norms, 1.0)
    scores[range(len(scores)), scores.argmax(axis=1)] = numpy.inf
    chosen = numpy.argsort(-scores, axis=None, kind="stable")[:heads]
    places = numpy.zeros(scores.size, dtype=bool)
    places[chosen] = True
    return [numpy.flatnonzero(row).tolist() for row in places.reshape(scores.shape)]

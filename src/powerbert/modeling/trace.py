"""Which words survived where.

Paper: Anecdotal Examples
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.folders.cross_encoder import activation_of
from powerbert.modeling.apply import attached, base_of
from powerbert.modeling.forward import run
from powerbert.modeling.limits import CHOICE, SEQUENCE, longest_input
from powerbert.retention import RetentionConfiguration
from powerbert.text.answers import function_of, ranked, scores
from powerbert.text.batches import collate
from powerbert.text.tokenise import tokenise

Retained = list[tuple[tuple[int, ...], ...]]
"""For each input and each encoder, ascending positions in the caller's layout."""


class Span(NamedTuple):
    """Where a word piece stands: characters start to end of `Trace.texts[text]`."""

    text: int
    start: int
    end: int


@dataclass(frozen=True)
class Trace:
    """The words of one input and those that each encoder retained."""

    tokens: tuple[str, ...]  # word pieces in order, special ones included, PAD left out
    retained: tuple[tuple[int, ...], ...]  # for encoder j = 1..L, ascending indices into `tokens`
    retention: RetentionConfiguration
    strategy: str
    texts: tuple[str, ...]  # the text, and its pair if any, as tokenised: cleaned, and cut where far too long
    spans: tuple[Span | None, ...]  # of each word piece in `texts`; None where the tokenizer added it, such as [CLS]
    label: str | None = None  # the predicted label; None for regression, and for a model without a classifier
    score: float | None = None  # of the label, or the number that a regression answers
    truncated: bool = False  # whether the text was longer than the model reads

    def words(self, encoder: int) -> list[str]:
        """The word pieces that encoder j (from 1) retained."""
        if not 1 <= encoder <= len(self.retained):
            rule = f"encoders are 1 to {len(self.retained)}"
            raise PowerBertError("there is no such encoder", got=encoder, rule=rule)
        return [self.tokens[i] for i in self.retained[encoder - 1]]


def trace(model: Any, tokenizer: Any, text: str, text_pair: str | None = None) -> Trace:
    """Run one text and record which words each encoder retained."""
    elimination = attached(model)
    given = text if text_pair is None else (text, text_pair)
    _check(model, tokenizer, given if isinstance(given, tuple) else (given,))
    made = tokenise(tokenizer, [given], longest_input(model, tokenizer))
    device = base_of(model).device
    batch = {name: torch.from_numpy(words).to(device) for name, words in collate(made.rows, None).items()}
    (retained,), (read,), (encoding,) = retained_positions(model, batch), made.texts, made.encodings
    texts = (read,) if isinstance(read, str) else read
    places = zip(encoding.sequence_ids, encoding.offsets, strict=True)
    spans = tuple(None if text is None else Span(text, *place) for text, place in places)
    tokens, (retention, strategy) = tuple(encoding.tokens), (elimination.retention, elimination.strategy)
    return Trace(tokens, retained, retention, strategy, texts, spans, *_prediction(model, batch), made.cut[0])


def _check(model: Any, tokenizer: Any, texts: tuple[str, ...]) -> None:
    """Refuse a model, a tokenizer or a text that cannot be traced."""
    if (head := type(model).__name__).endswith(CHOICE):
        what, remedy = "a multiple-choice model reads several inputs at once", "trace its base model"
        raise UnsupportedModelError(what, got=head, remedy=f"{remedy}: powerbert.apply(model.base_model, ...)")
    if not getattr(tokenizer, "is_fast", False):
        what, got = "the tokenizer does not say which characters a word piece covers", type(tokenizer).__name__
        raise UnsupportedModelError(what, got=got, remedy="use a fast one, such as AutoTokenizer gives")
    for part in texts:
        if not isinstance(part, str):
            raise PowerBertError("the text is not a string", got=part)
    if not texts[0].strip():
        raise PowerBertError("the text is empty", remedy="give at least one word")


@torch.no_grad()
def retained_positions(model: Any, batch: Mapping[str, Any]) -> Retained:
    """For each input of a padded batch and each encoder, the retained positions in the caller's layout."""
    base = base_of(model)
    every_row = replace(attached(model), cls_only=False)  # so that the last encoder selects as well
    with _evaluating(base):
        _, _, record = run(base, every_row, dict(batch), retained=True)
    assert record is not None  # packed rows are not recorded, so they were not packed
    return by_input(record.retained, len(record.words.lengths))


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Hold a model in eval mode, then give every module its own mode back."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def by_input(encoders: Iterable[tuple[Any, Any]], inputs: int) -> Retained:
    """Of each encoder the positions (batch, width) and lengths (batch,), arrays or tensors: by input, as tuples."""
    per_encoder = [
        [tuple(sorted(row[:length])) for row, length in zip(places.tolist(), lengths.tolist(), strict=True)]
        for places, lengths in encoders
    ]
    return list(zip(*per_encoder, strict=True)) or [()] * inputs


@torch.no_grad()
def _prediction(model: Any, batch: Mapping[str, Any]) -> tuple[str | None, float | None]:
    """The most probable label of a sequence classifier, as its pipeline tells it; else nothing."""
    if not type(model).__name__.endswith(SEQUENCE):
        return None, None
    with _evaluating(model):
        logits = model(**batch).logits[0]
    function = function_of(model.config.problem_type, len(logits), activation_of(model.config))
    (best,) = ranked(scores(logits.tolist(), function), model.config.id2label, 1)
    return best["label"] if len(logits) > 1 else None, best["score"]  # a number has no label

"""A function from text to labels, called as transformers' text-classification pipeline is.

Unlike that one it runs in any engine, it sorts the texts it is given into batches of like length, and
around the forward pass of a single text it does next to nothing but tokenise.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp
from typing import Any, Literal

from powerbert.engines.auto import Choice
from powerbert.engines.engine import Engine
from powerbert.errors import PowerBertError
from powerbert.text.batches import WINDOW, Row, Text, answer_rows, encode

logger = logging.getLogger(__name__)

FUNCTIONS = ("softmax", "sigmoid", "none")
BEST: Literal["best"] = "best"

Label = dict[str, Any]  # label and score
TopK = int | Literal["best"] | None


@dataclass(frozen=True)
class Classifier:
    """classifier("some text") gives [{"label", "score"}]; a list gives a list, a stream a stream."""

    engine: Engine
    problem_type: str | None = None
    """Of the model's configuration; says together with the number of labels what becomes of the logits."""
    choice: Choice | None = None
    """What engine="auto" measured and chose."""

    def __call__(
        self,
        inputs: str | Mapping[str, str] | Iterable[str | Mapping[str, str]],
        *,
        top_k: TopK = BEST,
        function_to_apply: str | None = None,
        batch_size: int | None = None,
    ) -> Any:
        """Classify a text, a pair {"text", "text_pair"}, a list of them, or a stream of any size.

        Answers come in the order of the inputs. As in transformers, text is cut to what the model reads, an
        empty text is answered like any other, and no text gets no answer; a warning says so.

        top_k: so many labels for each input, the best first; None is all of them. By default the best
            label alone, not in a list.
        function_to_apply: "softmax", "sigmoid" or "none" instead of what the model is made for.
        batch_size: inputs of a batch at most; the answers do not depend on it.
        """
        function = self._function(function_to_apply)
        for name, value in (("top_k", None if top_k == BEST else top_k), ("batch_size", batch_size)):
            if value is not None and (type(value) is not int or value < 1):
                raise PowerBertError(f"{name} is out of range", got=value, rule="a whole number from 1")
        alone = isinstance(inputs, str | bytes | Mapping)
        try:
            stream = iter([inputs] if alone else inputs)
        except TypeError as error:
            raise _not_text(0, inputs) from error
        answers = self._answers(stream, top_k, function, batch_size)
        if alone:
            # transformers answers a lone text in a list, and a lone pair not.
            return list(answers) if isinstance(inputs, str) and top_k == BEST else next(answers)
        return list(answers) if isinstance(inputs, list | tuple) else answers

    def _answers(
        self, stream: Iterator[Any], top_k: TopK, function: str, batch_size: int | None
    ) -> Iterator[Label | list[Label]]:
        read = 0
        while held := list(islice(stream, WINDOW)):
            texts = [_text(item, number) for number, item in enumerate(held, read)]
            rows = encode(self.engine, texts)
            _warn(texts, rows, self.engine.limits.longest, read)
            read += len(held)
            for logits in answer_rows(self.engine, rows, most=batch_size):
                yield self._labels(scores(logits.tolist(), function), top_k)
        if not read:
            logger.warning("no text was given, so there is no answer")

    def _labels(self, found: list[float], top_k: TopK) -> Label | list[Label]:
        names = self.engine.labels
        ranked = sorted(range(len(found)), key=lambda i: -found[i])  # of equal scores the first label
        count = 1 if isinstance(top_k, str) else top_k
        best = [{"label": names.get(i, f"LABEL_{i}"), "score": found[i]} for i in ranked[:count]]
        return best[0] if top_k == BEST else best

    def _function(self, asked: str | None) -> str:
        """What becomes of the logits: as transformers decides it, unless the caller does."""
        if asked is not None:
            if asked not in FUNCTIONS:
                raise PowerBertError(
                    "unknown function_to_apply", got=asked, rule="one of " + ", ".join(FUNCTIONS)
                )
            return asked
        if self.problem_type == "regression":
            return "none"
        several = self.problem_type == "multi_label_classification"
        return "sigmoid" if several or len(self.engine.labels) == 1 else "softmax"


def scores(logits: list[float], function: str) -> list[float]:
    """What becomes of the logits of a text; a few numbers, for which numpy would be the slow way."""
    if function == "none":
        return logits
    if function == "sigmoid":
        return [1 / (1 + exp(-x)) if x > 0 else exp(x) / (1 + exp(x)) for x in logits]
    most = max(logits)
    shares = [exp(x - most) for x in logits]
    total = sum(shares)
    return [share / total for share in shares]


def _text(item: object, number: int) -> Text:
    """A text, or a pair; an empty text_pair is none, as in transformers."""
    if isinstance(item, str):
        return item
    if isinstance(item, Mapping) and set(item) <= {"text", "text_pair"}:
        text, pair = item.get("text"), item.get("text_pair") or None
        if isinstance(text, str) and (pair is None or isinstance(pair, str)):
            return text if pair is None else (text, pair)
    raise _not_text(number, item)


def _warn(texts: Sequence[Text], rows: Sequence[Row], longest: int, first: int) -> None:
    """Tell of texts whose answer says little about them, a line for each kind."""
    empty = [i for i, text in enumerate(texts) if not "".join(text).strip()]
    full = [i for i, row in enumerate(rows) if len(row["input_ids"]) >= longest]
    cut = f"more than {longest} words, or just as many: what is beyond them is not read"
    for found, what in ((empty, "no word in it: the answer is that of an empty text"), (full, cut)):
        if found:
            others = f" (as have {len(found) - 1} others)" if len(found) > 1 else ""
            logger.warning("text %d has %s%s", first + found[0], what, others)


def _not_text(number: int, got: object) -> PowerBertError:
    rule = 'a string, or a pair as {"text": ..., "text_pair": ...}'
    return PowerBertError(f"text {number} is not text", got=got, rule=rule)

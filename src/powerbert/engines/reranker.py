"""A function from pairs to scores, called as a CrossEncoder of sentence-transformers is, in any engine."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor
from tqdm import tqdm

from powerbert.engines.answers import answer_rows, tokenise_for, windows
from powerbert.engines.classifier import pipeline
from powerbert.engines.engine import Engine
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.folders.safe import read_config
from powerbert.modeling.limits import SEQUENCE

Activation = Callable[[Tensor], Tensor]

_APPLIED: dict[str, Activation] = {"sigmoid": torch.sigmoid, "none": lambda logits: logits}
_A_PAIR = "a pair is a list or tuple of two strings"


@dataclass(frozen=True)
class Reranker:
    """reranker.rank("a query", documents) gives [{"corpus_id", "score"}], the best first.

    Arguments bear the names, and answers the shapes, that they have with a CrossEncoder.
    """

    engine: Engine

    @property
    def num_labels(self) -> int:
        """1 of a model that scores pairs."""
        return len(self.engine.labels)

    @property
    def activation(self) -> str:
        """What becomes of the logits, "sigmoid" or "none": the model's own, else that of its kind."""
        return self.engine.function() if self.num_labels == 1 else self.engine.activation or "none"

    def predict(
        self,
        inputs: Sequence[Any],
        *,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        activation_fn: Activation | None = None,
        apply_softmax: bool | None = False,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
    ) -> Any:
        """Scores (pairs,) of pairs in their order, or (pairs, labels) where there are several; of one pair its score.

        batch_size: pairs of a batch at most; the scores do not depend on it.
        activation_fn: of logits (pairs, labels), instead of the model's own.
        apply_softmax: scores of several labels add up to 1.
        convert_to_numpy, convert_to_tensor: one array, one tensor, or with neither a list of tensors.
        """
        given = _listed(inputs, "there are no pairs", _A_PAIR)
        alone = len(given) > 0 and not isinstance(given[0], list | tuple)
        pairs = [_pair(pair, number) for number, pair in enumerate([given] if alone else given)]
        if type(batch_size) is not int or batch_size < 1:
            raise PowerBertError("batch_size is out of range", got=batch_size, rule="a whole number from 1")
        scores = (activation_fn or _APPLIED[self.activation])(self._logits(pairs, batch_size, bool(show_progress_bar)))
        if self.num_labels == 1:
            scores = scores.reshape(-1)
        elif apply_softmax:
            scores = scores.softmax(dim=1)
        found: Any = scores if convert_to_tensor else scores.numpy() if convert_to_numpy else list(scores)
        return found[0] if alone else found

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        top_k: int | None = None,
        return_documents: bool = False,
        *,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        activation_fn: Activation | None = None,
    ) -> list[dict[str, Any]]:
        """The documents by how well they fit a query: `corpus_id`, `score` and, if asked for, `text`; the best first.

        top_k: so many of them; None is all.
        """
        if self.num_labels != 1:
            got, rule = f"{self.num_labels} labels", "rank orders by one score"
            raise UnsupportedModelError("the model is not a reranker", got=got, rule=rule, remedy="use predict")
        what, rule = "there are no documents", "a list of one string or more"
        if not (given := _listed(documents, what, rule)):
            raise PowerBertError(what, got=documents, rule=rule)
        if top_k is not None and (type(top_k) is not int or top_k < 1):
            raise PowerBertError("top_k is out of range", got=top_k, rule="a whole number from 1, or None")
        pairs = [(query, document) for document in given]
        how: dict[str, Any] = {"batch_size": batch_size, "show_progress_bar": show_progress_bar}
        found = self.predict(pairs, **how, activation_fn=activation_fn).tolist()
        if any(map(isnan, found)):
            raise PowerBertError("a score is not a number", rule="rank orders by numbers", remedy="check the model")
        order = sorted(range(len(found)), key=lambda i: -found[i])[:top_k]
        texts = [{"text": document} if return_documents else {} for document in given]
        return [{"corpus_id": i, "score": found[i]} | texts[i] for i in order]

    def _logits(self, pairs: list[tuple[str, str]], batch_size: int, progress: bool) -> Tensor:
        """(pairs, labels), in the order of the pairs."""
        found: list[Any] = []
        with tqdm(total=len(pairs), unit=" pairs", disable=not progress) as bar:
            for held in windows(pairs):
                rows = tokenise_for(self.engine, held).rows
                found += answer_rows(self.engine, rows, most=batch_size, done=bar.update)
        return torch.from_numpy(numpy.stack(found)) if found else torch.empty(0, self.num_labels)


def reranker(
    folder: str | Path, engine: str | None = None, precision: str | None = None, *, budget: str | None = None
) -> Reranker:
    """Load a CrossEncoder of sentence-transformers, or what `accelerate`, `save` or `export` made of one.

    engine, precision, budget: as in `pipeline`. Where a folder names no activation, a score is what `pipeline` says.
    """
    names = read_config(Path(folder)).get("architectures")
    if not isinstance(names, list) or not any(str(name).endswith(SEQUENCE) for name in names):
        rule, remedy = "one reads both texts at once and scores them", "train a CrossEncoder on this model first"
        raise UnsupportedModelError(f"{folder} is not a cross-encoder", got=names, rule=rule, remedy=remedy)
    return Reranker(pipeline(folder, engine, precision, budget=budget).engine)


def _listed(given: Any, what: str, rule: str) -> list[Any]:
    """What is given as a list; a string is none, although it has parts."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise PowerBertError(what, got=given, rule=rule)
    return list(given)


def _pair(pair: Any, number: int) -> tuple[str, str]:
    if isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(text, str) for text in pair):
        return pair[0], pair[1]
    raise PowerBertError(f"pair {number} is not a pair of texts", got=pair, rule=_A_PAIR)

"""A function from text to labels, called as transformers' text-classification pipeline is.

Unlike that one it runs in any engine, it sorts the texts it is given into batches of like length, and
around the forward pass of a single text it does next to nothing but tokenise.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from powerbert.engines.answers import FIRST, MOST_HELD, answer_rows, tokenise_for, windows
from powerbert.engines.auto import AutoEngine, Choice, open_auto
from powerbert.engines.engine import Engine
from powerbert.engines.open import ENGINES, open_engine
from powerbert.errors import PowerBertError
from powerbert.text.answers import Label, ranked, scores
from powerbert.text.tokenise import Text

logger = logging.getLogger(__name__)

BEST: Literal["best"] = "best"
_A_TEXT = 'a string, or a pair as {"text": ..., "text_pair": ...}'

TopK = int | Literal["best"] | None


@dataclass(frozen=True)
class Classifier:
    """classifier("some text") gives [{"label", "score"}]; a list gives a list, a stream a stream."""

    engine: Engine
    choice: Choice | None = None
    """What engine="auto" measured and chose."""

    def __call__(
        self,
        inputs: str | Mapping[str, str] | Iterable[str | Mapping[str, str]],
        *,
        top_k: TopK = BEST,
        function_to_apply: str | None = None,
        batch_size: int | None = None,
        progress: bool = False,
        budget: str | None = None,
    ) -> Any:
        """Classify a text, a pair {"text", "text_pair"}, a list of them, or a stream of any size.

        Answers come in the order of the inputs. As in transformers, text is cut to what the model reads, an
        empty text is answered like any other, and no text gets no answer; a warning says so.

        A stream (any other iterable) is answered while it is read: its first 32 inputs are read before the
        first answer, then twice as many each time up to 2,048, which are held and sorted by length. If it
        fails, or holds something that is no text, the answers before come first and then the error.

        top_k: so many labels for each input, the best first; None is all of them. By default the best
            label alone, not in a list.
        function_to_apply: "softmax", "sigmoid" or "none" instead of what the model is made for.
        batch_size: inputs of a batch at most; the answers do not depend on it.
        progress: show a bar with the time left on standard error.
        budget: a budget of the model's dial, such as "2x", for this call; by default that of `pipeline`.
        """
        function = self.engine.function(function_to_apply)
        for name, value in (("top_k", None if top_k == BEST else top_k), ("batch_size", batch_size)):
            if value is not None and (type(value) is not int or value < 1):
                raise PowerBertError(f"{name} is out of range", got=value, rule="a whole number from 1")
        alone = isinstance(inputs, str | bytes | Mapping)
        given = [inputs] if alone else inputs
        if not isinstance(given, Iterable):
            raise PowerBertError("text 0 is not text", got=inputs, rule=_A_TEXT)
        at_budget = self if budget is None else replace(self, engine=self.engine.at(budget))
        answers = at_budget._answers(given, top_k, function, batch_size, progress)
        if alone:
            # transformers answers a lone text in a list, and a lone pair not.
            return list(answers) if isinstance(inputs, str) and top_k == BEST else next(answers)
        return list(answers) if isinstance(inputs, list | tuple) else answers

    def _answers(
        self, given: Iterable[Any], top_k: TopK, function: str, batch_size: int | None, progress: bool
    ) -> Iterator[Label | list[Label]]:
        read, total = 0, len(given) if isinstance(given, Sequence) else None
        texts = (_text(item, number) for number, item in enumerate(given))
        with tqdm(total=total, unit=" texts", disable=not progress) as bar:
            for held in windows(texts, MOST_HELD, FIRST if total is None else None):
                made = tokenise_for(self.engine, held)
                self._warn(held, made.cut, read)
                read += len(held)
                for logits in answer_rows(self.engine, made.rows, most=batch_size, done=bar.update):
                    found = scores(logits.tolist(), function)
                    best = ranked(found, self.engine.labels, 1 if isinstance(top_k, str) else top_k)
                    yield best[0] if top_k == BEST else best
        if not read:
            logger.warning("no text was given, so there is no answer")

    def _warn(self, texts: Sequence[Text], cut: Sequence[bool], first: int) -> None:
        """Say which texts the answer says little about, a line for each kind."""
        empty = [not "".join(text).strip() for text in texts]
        most = f"more than {self.engine.limits.longest} words, or very long ones: the rest of it is not read"
        for flags, what in ((empty, "no word in it: the answer is that of an empty text"), (cut, most)):
            if any(flags):
                others = f" (as have {sum(flags) - 1} others)" if sum(flags) > 1 else ""
                logger.warning("text %d has %s%s", first + flags.index(True), what, others)


def pipeline(
    folder: str | Path, engine: str | None = None, precision: str | None = None, *, budget: str | None = None
) -> Classifier:
    """Load a saved or exported classifier: pipeline(folder)("some text") gives [{"label", "score"}].

    engine: by default what the folder was made for; torch, with a warning, where that does not run here. "torch"
        runs a saved folder; "onnx" and "openvino" run what was exported to them. "auto" opens an exported folder
        with its own engine; a saved one it opens in every engine that is installed, with and without
        elimination, and takes the fastest. That takes some seconds per encoder.
    precision: by default the folder's own: fp32 unless it was exported otherwise.
    budget: of a folder with a dial, one of its configurations, such as "2x"; by default the model's own.
    """
    folder = Path(folder)
    if engine is not None and engine not in (AutoEngine.name, *ENGINES):
        raise PowerBertError("unknown engine", got=engine, rule="one of " + ", ".join((AutoEngine.name, *ENGINES)))
    opened = open_auto(folder, precision) if engine == AutoEngine.name else open_engine(folder, engine, precision)
    return Classifier(opened.at(budget), opened.choice if isinstance(opened, AutoEngine) else None)


def _text(item: object, number: int) -> Text:
    """A text, or a pair; an empty text_pair is none, as in transformers."""
    if isinstance(item, str):
        return item
    if isinstance(item, Mapping) and set(item) <= {"text", "text_pair"}:
        text, pair = item.get("text"), item.get("text_pair") or None
        if isinstance(text, str) and (pair is None or isinstance(pair, str)):
            return text if pair is None else (text, pair)
    raise PowerBertError(f"text {number} is not text", got=item, rule=_A_TEXT)

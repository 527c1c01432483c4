"""The body of a request, as the clients of Text Embeddings Inference and of Hugging Face's inference API send it.

Read strictly: what `json` would let pass (NaN, a key given twice, half a character) and what a route does not know is
refused, because two readers would understand it differently, or because the client believes something was heard.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from powerbert.folders.manifest import unique_keys
from powerbert.serving.limits import RequestError, ServeLimits, refused
from powerbert.text.answers import FUNCTIONS
from powerbert.text.tokenise import Text

LONGEST_NAME = 80  # characters of a field's name that an answer repeats
Several = Annotated[list[str], Field(min_length=1, max_length=2)]


class Body(BaseModel):
    """What every route takes."""

    model_config = ConfigDict(strict=True, extra="forbid")
    rule: ClassVar[str] = ""  # of `inputs`, in words

    budget: str | None = Field(default=None, description="Of the model's dial, such as 2x; only where it has one.")

    def to_texts(self) -> list[Text]:
        """The texts and pairs that are asked about."""
        raise NotImplementedError


class TeiBody(Body):
    """What both routes of Text Embeddings Inference take."""

    truncate: bool | None = Field(default=True, description="Cut what is too long; otherwise it is refused.")
    truncation_direction: Literal["Right", "right"] = Field(default="Right", description="Where a text is cut.")
    raw_scores: bool = Field(default=False, description="Logits instead of probabilities.")

    @property
    def function(self) -> str | None:
        """What becomes of the logits; None is what the model is made for."""
        return "none" if self.raw_scores else None


class PredictBody(TeiBody):
    """`POST /predict`."""

    rule = "a text, a pair [text, text], or a batch of such lists [[text], [text, text], ...]"

    inputs: str | Several | list[Several] = Field(description=rule, examples=["a gripping film"])

    @property
    def alone(self) -> bool:
        """Whether one answer is asked for, not a list of answers."""
        return isinstance(self.inputs, str) or any(isinstance(each, str) for each in self.inputs)

    def to_texts(self) -> list[Text]:
        """A list of one text is that text; a list of two is a pair."""
        given: Any = [[self.inputs]] if isinstance(self.inputs, str) else [self.inputs] if self.alone else self.inputs
        return [each[0] if len(each) == 1 else (each[0], each[1]) for each in given]


class RerankBody(TeiBody):
    """`POST /rerank`."""

    query: str = Field(examples=["a film for children"])
    texts: list[str] = Field(examples=[["a gripping film", "a tale of a bear"]])
    return_text: bool = Field(default=False, description="Give each text back beside its score.")

    def to_texts(self) -> list[Text]:
        """The query beside each text."""
        return [(self.query, text) for text in self.texts]


class Pair(BaseModel):
    """A text, and perhaps another one, as transformers' pipeline takes them."""

    model_config = ConfigDict(strict=True, extra="forbid")
    text: str
    text_pair: str | None = None


class Parameters(BaseModel):
    """What `InferenceClient.text_classification` may ask for."""

    model_config = ConfigDict(strict=True, extra="forbid")
    top_k: int | None = Field(default=None, ge=1, description="So many labels, the best first; by default all.")
    function_to_apply: str | None = Field(default=None, description=f"One of {', '.join(FUNCTIONS)}.")


class InferenceBody(Body):
    """`POST /`, Hugging Face's inference API."""

    rule = 'a text, a pair {"text": ..., "text_pair": ...}, or a list of them'

    inputs: str | Pair | list[str | Pair] = Field(description=rule, examples=["a gripping film"])
    parameters: Parameters | None = None

    def to_texts(self) -> list[Text]:
        """An empty text_pair is none, as in transformers."""
        return list(self._texts())

    def _texts(self) -> Iterator[Text]:
        for each in self.inputs if isinstance(self.inputs, list) else [self.inputs]:
            yield each if isinstance(each, str) else (each.text, each.text_pair) if each.text_pair else each.text


Given = TypeVar("Given", bound=Body)


def read_body(content: bytes, kind: type[Given], limits: ServeLimits) -> tuple[Given, list[Text]]:
    """A body and its texts, or a refusal that says what is wrong with it."""
    try:
        body = kind.model_validate(_strict_json(content))
    except ValidationError as error:
        raise _unfit(error, kind) from None
    texts = body.to_texts()
    if not texts:
        raise RequestError(400, "empty", "there is no input", rule="at least one")
    if len(texts) > limits.inputs:
        raise refused("too many inputs", got=len(texts), rule=f"at most {limits.inputs}", status=413)
    for number, text in enumerate(texts):
        if (characters := characters_of(text)) > limits.characters:
            rule = f"at most {limits.characters:,} characters"
            raise refused(f"input {number} is too long", got=characters, rule=rule, status=413)
    return body, texts


def _unfit(error: ValidationError, kind: type[Body]) -> RequestError:
    """What is wrong with the first field that is wrong, in words of HTTP and not of Python."""
    first = error.errors(include_url=False)[0]
    place, name = first["loc"], ".".join(map(str, first["loc"]))[:LONGEST_NAME]
    if not place:
        return refused("the body is not a JSON object")
    if place[0] == "inputs" and first["type"] != "missing":
        return refused("inputs is not what this route takes", rule=kind.rule)
    if first["type"] == "extra_forbidden":
        owner = Parameters if place[0] == "parameters" else kind
        return refused(f"unknown field {name!r}", rule=f"this route knows {', '.join(owner.model_fields)}")
    if name == "truncation_direction":
        return refused("texts are cut at the right alone", got=first["input"])
    said = "a JSON object" if first["type"] == "model_type" else first["msg"].removeprefix("Input should be ")
    return refused(f"{name} is not as it should be", rule=said)


def characters_of(text: Text) -> int:
    """Of a text, or of both of a pair."""
    return len(text) if isinstance(text, str) else sum(map(len, text))


def _strict_json(content: bytes) -> Any:
    try:
        data = json.loads(content.decode(), object_pairs_hook=unique_keys, parse_constant=_no_number)
        if b"\\u" in content:  # only an escape can name half a character, which is no text
            json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise refused("the body is not JSON", rule=_why(error), status=400) from None
    return data


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _why(error: Exception) -> str:
    """In few words, and without what the client sent."""
    match error:
        case json.JSONDecodeError():
            return f"{error.msg} at {error.pos}"
        case UnicodeDecodeError():
            return "it is not UTF-8"
        case UnicodeEncodeError():
            return "an escape names half a character"
        case RecursionError():
            return "it is nested too deeply"
    return "a number has too many digits" if "digits" in str(error) else str(error)

"""The page to try a text: its label, its time, and the words that each encoder retained.

Nothing is fetched and no script but the fade's own runs. What is asked for stands in the address, so that a page
can be reloaded and linked to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from string import Template
from threading import Lock

from powerbert.engines.engine import Engine
from powerbert.engines.open import open_engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import PowerBertError
from powerbert.folders.manifest import glance
from powerbert.modeling.limits import eliminates
from powerbert.modeling.trace import Trace, trace
from powerbert.report.fade_html import POLICY, STYLE, fade_page
from powerbert.report.markup import facts, ms, say
from powerbert.text.answers import Label
from powerbert.text.tokenise import Text

FORM_LENGTH = 4000  # characters that the form takes: an address has its limits
_HOME = files("powerbert.serving")
_FORM, _EMPTY = (Template((_HOME / name).read_text("utf-8")) for name in ("form.html", "try.html"))
_STYLE = (_HOME / "try.css").read_text("utf-8")


class Tracer:
    """Which words survive, told by torch with the weights that are served, whatever engine answers."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._torch = engine if isinstance(engine, TorchEngine) else None
        self._folder, self._lock = folder, Lock()

    def __call__(self, text: Text, budget: str | None) -> Trace | str:
        """The trace of a text, or why there is none."""
        try:
            with self._lock:  # one at a time: a page is for a person, the machine is for the requests
                return self._traced((text,) if isinstance(text, str) else text, budget)
        except PowerBertError as error:
            return str(error)

    def _traced(self, texts: tuple[str, ...], budget: str | None) -> Trace | str:
        if self._torch is None:
            if glance(self._folder).export is not None:
                return "The folder holds a graph alone: serve the saved model to see which words survive."
            opened = open_engine(self._folder, TorchEngine.name)
            assert isinstance(opened, TorchEngine)
            self._torch = opened
        model = self._torch.at(budget).model
        if not eliminates(model):
            return "The model eliminates nothing: every encoder reads all words."
        return trace(model, self._torch.tokenizer, *texts)


@dataclass(frozen=True)
class PageForm:
    """What can be asked, and what was."""

    name: str  # of the model
    budgets: Sequence[str]
    text: str = ""
    text_pair: str = ""
    budget: str = ""

    @property
    def given(self) -> Text:
        """The text, or the pair."""
        return (self.text, self.text_pair) if self.text_pair.strip() else self.text

    def markup(self) -> str:
        """The form with what was asked in it."""
        values = {"": "own"} | {say(name): say(name) for name in self.budgets}
        chosen = say(self.budget) if self.budget else ""
        options = (
            f'<option value="{value}"{" selected" if value == chosen else ""}>{shown}</option>'
            for value, shown in values.items()
        )
        choice = f'<label>Budget <select name="budget">{"".join(options)}</select></label>' if self.budgets else ""
        focus, text, pair = "" if self.text else " autofocus", _shown(self.text), _shown(self.text_pair)
        return _FORM.substitute(focus=focus, text=text, pair=pair, longest=FORM_LENGTH, choice=choice)


def answer_page(form: PageForm, best: Label, seconds: float, how: str, found: Trace | str) -> str:
    """The page with an answer; without a trace it says what, how fast, and why there is none."""
    time = ("Answered in", ms(1000 * seconds), say(how))
    if isinstance(found, str):
        label = ("Predicted", say(best["label"]), f"{best['score']:.3f}")
        return _whole(form, facts([label, time]) + f'<p class="note">{say(found)}</p>')
    found = replace(found, label=best["label"], score=best["score"])
    return fade_page(found, f"Words retained by {form.name}", above=form.markup(), style=_STYLE, more=[time])


def plain_page(form: PageForm, error: PowerBertError | None = None) -> str:
    """The page before anything was asked, or with what went wrong."""
    return _whole(form, "" if error is None else f'<p class="error" role="alert">{say(error)}</p>')


def _whole(form: PageForm, body: str) -> str:
    style, title = STYLE + _STYLE, say(form.name)
    return _EMPTY.substitute(policy=POLICY, title=title, style=style, form=form.markup(), body=body)


def _shown(text: str) -> str:
    """In a text area, where line ends stay as they are."""
    return "\n".join(say(line) if line else "" for line in text.splitlines())

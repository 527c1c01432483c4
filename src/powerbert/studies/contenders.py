"""Everything that is compared: our curve and every baseline, trained alike from one fine-tuned model.

Paper: Comparison to Prior Methods

A training is a folder and is not done twice; one that was stopped goes on where it was.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from powerbert.baselines.distil import distilbert
from powerbert.baselines.heads import head_prune
from powerbert.baselines.patient import bert_pkd
from powerbert.baselines.plain import first_k, truncate
from powerbert.baselines.students import StudentOptions
from powerbert.errors import PowerBertError
from powerbert.modeling.apply import encoders_of
from powerbert.modeling.attention_heads import all_heads
from powerbert.modeling.storage import load
from powerbert.training.data import Data
from powerbert.training.ladder import dial_of, least_budget, rung
from powerbert.training.options import RetrainOptions
from powerbert.training.runner import StepResult
from powerbert.training.steps import retrain

OURS, IN_STUDENT = "PoWER-BERT", "PoWER-BERT in a student"


class Contender(NamedTuple):
    """A model that is compared."""

    method: str
    point: str  # such as "6 encoders"
    folder: Path
    budget: str | None = None  # of the dial of its folder


@dataclass(frozen=True)
class Sizes:
    """How large the models of each method are; shares are of the fine-tuned model."""

    budgets: tuple[float, ...] = (0.7, 0.6, 0.45, 0.36, 0.29)  # of the work: ours, Head-WS and Rand-WS
    depths: tuple[float, ...] = (1 / 4, 1 / 3, 1 / 2)  # of the encoders: the paper's 3, 4 and 6 of 12
    heads: tuple[float, ...] = (0.75, 0.5, 0.25)
    cuts: tuple[float, ...] = (0.7, 0.5, 0.35)  # of the words of a text, on the average


class Trainings:
    """The trainings of one seed."""

    def __init__(
        self, fine: Path, data: Data, home: Path, sizes: Sizes, options: RetrainOptions, *, progress: bool
    ) -> None:
        """fine: the folder of the fine-tuned model. home: the folder of all others."""
        self.fine, self.data, self.home, self.sizes = fine, data, home, sizes
        self.options, self.progress = options, progress
        # Two methods teach by hidden states too, with the weight of their own.
        self.students = StudentOptions(**asdict(options) | {"hidden_weight": StudentOptions.hidden_weight})

    @cached_property
    def network(self) -> Any:
        """The fine-tuned model."""
        return load(self.fine)[0]

    @property
    def depths(self) -> list[int]:
        """How many encoders the smaller models have."""
        encoders = encoders_of(self.network)
        return sorted({max(1, min(encoders - 1, round(share * encoders))) for share in self.sizes.depths})

    def of(self, method: str) -> list[Contender]:
        """Train all models of a method."""
        if method not in METHODS:
            raise PowerBertError("unknown method", got=method, rule="one of " + ", ".join(METHODS))
        return METHODS[method](self, method)

    def run(self, step: Callable[..., StepResult], name: str, **more: Any) -> Path:
        """Train one model, from the fine-tuned one."""
        options = self.students if step in (distilbert, bert_pkd) else self.options
        return step(self.fine, self.data, self.home / name, options, progress=self.progress, **more).folder

    def by_depth(
        self, method: str, step: Callable[..., StepResult], name: str, least: int = 1, **more: Any
    ) -> list[Contender]:
        """A model of each number of encoders."""
        return [
            Contender(method, f"{k} encoders", self.run(step, f"{name}-{k}", encoders=k, **more))
            for k in self.depths
            if k >= least
        ]

    def by_heads(self, method: str) -> list[Contender]:
        """A model of each number of attention heads."""
        there = all_heads(self.network)
        counts = {max(len(there), min(sum(there) - 1, round(share * sum(there)))) for share in self.sizes.heads}
        found = sorted(counts)
        return [Contender(method, f"{n} heads", self.run(head_prune, f"heads-{n}", heads=n)) for n in found]

    def by_length(self, method: str) -> list[Contender]:
        """A model of each length that texts are cut to."""
        cuts = sorted(self.sizes.cuts)
        return [Contender(method, f"{cut:.0%}", self.run(truncate, f"cut-{cut:g}", share=cut)) for cut in cuts]

    def eliminating(
        self, method: str, name: str, source: Path | None = None, strategy: str | None = None
    ) -> list[Contender]:
        """One model that serves every budget."""
        source = source or self.fine
        encoders = encoders_of(load(source)[0])
        budgets = [budget for budget in sorted(self.sizes.budgets) if budget > least_budget(encoders)]
        rungs = [rung(encoders, budget) for budget in budgets]
        more: dict[str, Any] = {"retention": rungs[len(rungs) // 2], "ladder": rungs, "strategy": strategy}
        result = retrain(source, self.data, self.home / name, self.options, **more, progress=self.progress)
        return [Contender(method, budget, result.folder, budget) for budget in dial_of(rungs)]

    def in_student(self, method: str) -> list[Contender]:
        """Elimination inside the student of most encoders, of which the paper says that it is orthogonal."""
        k = self.depths[-1]
        return self.eliminating(method, f"in-distilbert-{k}", self.run(distilbert, f"distilbert-{k}", encoders=k))


METHODS: dict[str, Callable[[Trainings, str], list[Contender]]] = {
    OURS: partial(Trainings.eliminating, name="attn-ws"),
    IN_STUDENT: Trainings.in_student,
    "first encoders": partial(Trainings.by_depth, step=first_k, name="first"),
    "DistilBERT": partial(Trainings.by_depth, step=distilbert, name="distilbert"),
    "BERT-PKD skip": partial(Trainings.by_depth, step=bert_pkd, name="pkd-skip", least=2, variant="skip"),
    "BERT-PKD last": partial(Trainings.by_depth, step=bert_pkd, name="pkd-last", least=2, variant="last"),
    "Head-Prune": Trainings.by_heads,
    "truncation": Trainings.by_length,
    "Head-WS": partial(Trainings.eliminating, name="head-ws", strategy="head-ws"),
    "Rand-WS": partial(Trainings.eliminating, name="rand-ws", strategy="rand-ws"),
}
"""By the name that the picture has."""

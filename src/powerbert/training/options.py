"""What a user can set of a training step: each field is a flag of the same name on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from math import inf, log2
from typing import TYPE_CHECKING, Annotated, Any, Self

from typing_extensions import override

from powerbert.errors import PowerBertError

if TYPE_CHECKING:
    from powerbert.tasks.task import Task

TRAVEL = 3.0
"""How far r moves in a search if every step pushes it one way at full strength. Adam's normalised step
has size one, so this, not the number of steps, decides how far lambda * j can press r down."""
DECOUPLED_LAMBDA = 0.03
ROOM = 16  # inputs that are trained on at once unless they are short or long; more are accumulated, to save memory
PUBLISHED_WIDTH = 768  # hidden dimensions of the BERT that the published learning rates are for
STEADY = 16  # inputs of a step with which a learning rate cannot be raised: with twice as many it can be doubled
WORDS_AT_ONCE = 1024, 2048  # word-vectors: fewer leave a core waiting; 16 inputs of 512 took 17 GB, and more time
USUAL = 128.0  # word-vectors of an input whose length nobody knows
SEEN, PASSES = 16_000, (3.0, 6.0)  # inputs that fine-tune a model, and passes to do it in: 3 of RTE teach it a guess
Precision = Annotated[str, "Of matrix products in training: fp32, bf16, or auto for bf16 where that is faster."]
BY_TASK: Any = None  # what the task and its rows decide: `for_task` or `fine_tuning` puts the value in its place


@dataclass(frozen=True)
class Options:
    """Options common to all steps; the text beside a type is its help."""

    epochs: Annotated[float, "Passes over the training data."] = 3.0
    learning_rate: Annotated[
        float, "Peak learning rate; by default the authors' for the task, raised for a narrower model."
    ] = BY_TASK
    batch_size: Annotated[int, "Inputs at once and process; by default about 16, by their length."] = BY_TASK
    accumulation: Annotated[int, "Batches per step; by default up to the task's published batch in all."] = BY_TASK
    warmup: Annotated[float, "Share of the steps over which the learning rate rises."] = 0.1
    weight_decay: Annotated[float, "Decay of the weights, not of norms and biases."] = 0.01
    seed: Annotated[int, "Decides new weights, the order of batches and dropout."] = 0
    precision: Precision = "fp32"
    threads: Annotated[int | None, "Threads; by default OMP_NUM_THREADS, else the free cores."] = None
    gradient_checkpointing: Annotated[bool, "Less memory, more time: recompute in the backward pass."] = False
    evaluations: Annotated[int, "Evaluations and checkpoints per epoch."] = 1
    report_to: Annotated[str, "Where transformers' Trainer reports: none, tensorboard, wandb."] = "none"

    def __post_init__(self) -> None:
        for field in fields(self):
            value, (rule, holds) = getattr(self, field.name), RULES.get(field.name, ("", lambda value: True))
            if value is not None and not holds(value):
                raise PowerBertError(f"--{field.name.replace('_', '-')} is out of range", got=value, rule=rule)

    def for_task(self, task: Task, processes: int = 1, length: float = USUAL, width: int = PUBLISHED_WIDTH) -> Self:
        """The same options with what was left open filled in from the task's published hyper-parameters.

        The effective batch is the published one, whatever part of it is trained on at once: 16 inputs, more of them
        where they are short, fewer where they are long. length: about how many word-vectors of an input are trained
        on. width: hidden dimensions; a narrower model needs a larger learning rate, and steps of few inputs do not
        bear it (docs/results/learning-rate.md).
        """
        published = task.hyper_parameters
        least, most = (2 ** int(log2(max(1.0, words / length))) for words in WORDS_AT_ONCE)
        room = max(least, min(ROOM, most))
        batch = self.batch_size or min(published.batch_size, room)
        batches = max(1, round(published.batch_size / (batch * processes)))
        raised = min(PUBLISHED_WIDTH / width, max(1.0, published.batch_size / STEADY))
        return self._filled(learning_rate=published.lr * raised, batch_size=batch, accumulation=batches)

    def _filled(self, **defaults: Any) -> Self:
        return replace(self, **{name: value for name, value in defaults.items() if getattr(self, name) is None})


@dataclass(frozen=True)
class SearchOptions(Options):
    """Options of the configuration search."""

    epochs: Annotated[float, "Passes over the training data."] = 2.0
    regulariser: Annotated[float, f"lambda: presses mass down, times j; by default {DECOUPLED_LAMBDA}."] = BY_TASK
    retention_learning_rate: Annotated[float | None, "Of r; by default lambda means the same for any data."] = None
    relative: Annotated[bool, "Learn shares of an input's own length, or with --no-relative the paper's counts."] = True
    bins: Annotated[int, "Bins of relative rank per encoder."] = 32
    lengths: Annotated[str, "half: retain the ranks with r of a half or more; mass: the paper's ceiling."] = "half"
    optimiser: Annotated[str, "decoupled: lambda acts outside Adam; release: the authors' clipped Adam."] = "decoupled"
    budget: Annotated[float | None, "Share of the work to end at: lambda is found for it, not given."] = None

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget is not None and self.optimiser != "decoupled":
            rule = "under the authors' clipped Adam lambda hardly acts"
            raise PowerBertError("--budget needs --optimiser decoupled", got=self.optimiser, rule=rule)

    @override
    def for_task(self, task: Task, processes: int = 1, length: float = USUAL, width: int = PUBLISHED_WIDTH) -> Self:
        # The published lambda and rate of r are those of the release's optimiser.
        found, published = super().for_task(task, processes, length, width), task.hyper_parameters
        if self.optimiser == "decoupled":
            return found._filled(regulariser=DECOUPLED_LAMBDA)
        return found._filled(regulariser=published.lambda_, retention_learning_rate=published.lr_soft_extract)

    def retention_rate(self, steps: float) -> float:
        """The peak learning rate of r for so many steps of training."""
        peak = 2 * TRAVEL / max(steps, 1.0)  # it falls linearly, so its mean is half of that
        return self.retention_learning_rate or peak


@dataclass(frozen=True)
class RetrainOptions(Options):
    """Options of re-training."""

    distillation: Annotated[float, "Weight of the teacher's answers against the labels; 0: labels alone."] = 0.5
    temperature: Annotated[float, "Softens the answers that are distilled."] = 2.0
    hidden_weight: Annotated[float, "Weight of the distance to the fine-tuned model's final CLS vector."] = 0.0

    @override
    def for_task(self, task: Task, processes: int = 1, length: float = USUAL, width: int = PUBLISHED_WIDTH) -> Self:
        return super().for_task(task, processes, length / 2, width)  # about half of the word-vectors are retained

    @property
    def needs_teacher(self) -> bool:
        """Whether anything is learned from a teacher."""
        return self.distillation > 0 or self.hidden_weight > 0


@dataclass(frozen=True)
class AnytimeOptions(RetrainOptions):
    """Options of one re-training for several budgets."""

    epochs: Annotated[float, "Passes over the training data."] = 5.0


@dataclass(frozen=True)
class AccelerateOptions(Options):
    """Options of the acceleration; none of them has to be given."""

    epochs: Annotated[
        float, "Passes that fine-tune a model without a head; by default 3, up to 6 where rows are few."
    ] = BY_TASK
    retraining_epochs: Annotated[float, "Passes of the re-training that serves all budgets."] = 5.0
    precision: Precision = "auto"

    def fine_tuning(self, rows: int) -> Options:
        """Options of the fine-tuning on so many rows."""
        least, most = PASSES
        return self._common(self.epochs or min(max(least, SEEN / rows), most))

    def retraining(self, *, labelled: bool) -> RetrainOptions:
        """Options of the re-training; without labels the original model's answers alone teach."""
        same = asdict(self._common(self.retraining_epochs))
        return RetrainOptions(**same, distillation=0.5 if labelled else 1.0)

    def _common(self, epochs: float) -> Options:
        return Options(**{field.name: getattr(self, field.name) for field in fields(Options)} | {"epochs": epochs})


def _one_of(*names: str) -> tuple[str, Callable[[Any], bool]]:
    return " or ".join(names), lambda value: value in names


_POSITIVE = ("a finite number above 0", lambda value: 0 < value < inf)
_WEIGHT = ("a finite number of at least 0", lambda value: 0 <= value < inf)
_COUNT = ("a whole number of at least 1", lambda value: isinstance(value, int) and value >= 1)
RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(
        ("epochs", "retraining_epochs", "learning_rate", "retention_learning_rate", "temperature"), _POSITIVE
    ),
    **dict.fromkeys(("weight_decay", "regulariser", "hidden_weight"), _WEIGHT),
    **dict.fromkeys(("batch_size", "accumulation", "evaluations", "bins", "threads"), _COUNT),
    "seed": ("a whole number below 2^32", lambda value: isinstance(value, int) and 0 <= value < 2**32),
    "warmup": ("a share of the steps, from 0 to below 1", lambda value: 0 <= value < 1),
    "precision": _one_of("fp32", "bf16", "auto"),
    "lengths": _one_of("half", "mass"),
    "optimiser": _one_of("decoupled", "release"),
    "distillation": ("a weight from 0 to 1", lambda value: 0 <= value <= 1),
    "budget": ("a share between 0 and 1", lambda value: 0 < value < 1),
}
"""What the value of an option has to be; NaN fails every comparison, and so every rule."""

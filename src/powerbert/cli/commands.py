"""The commands: their help, their flags, and where their work is done.

The module of a command is imported when it runs, not before: `powerbert COMMAND --help` and a wrong flag
answer at once, and the modules import what they need at their top.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from powerbert.cli.flags import command
from powerbert.cli.groups import (
    BenchFlags,
    Columns,
    DemoFlags,
    EvaluateFlags,
    ExplainFlags,
    ExportFlags,
    Figures,
    Folders,
    PredictFlags,
    Reported,
    Teaching,
    TrainingData,
)
from powerbert.errors import MissingExtraError, install
from powerbert.training.options import AnytimeOptions, Options, RetrainOptions, SearchOptions

EXTRA = ("accelerate", "datasets", "matplotlib", "pyarrow", "scipy")
"""Packages of the extra `train`: a command may miss them."""


@dataclass(frozen=True)
class Command:
    """A command, done by the function of its name in `powerbert.cli.<home>`."""

    name: str
    home: str
    groups: tuple[type, ...]
    help: str

    def make(self) -> Callable[..., None]:
        """The function that typer makes a command of."""

        def work(*groups: Any) -> None:
            getattr(_module(f"powerbert.cli.{self.home}"), self.name)(*groups)

        work.__doc__, work.__name__ = self.help, self.name
        return command(work, *self.groups)


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        raise MissingExtraError(f"this command needs {package}", remedy=install("train", clone=True)) from None


COMMANDS = (
    Command(
        "demo",
        "demo",
        (DemoFlags,),
        """Make a real classifier of movie reviews faster: fine-tune, search, re-train, compare.

        Takes all-MiniLM-L6-v2 and 5,000 sentences through the paper's three steps, in under ten minutes on
        two cores.

        Example:

            powerbert demo
        """,
    ),
    Command(
        "finetune",
        "training",
        (Folders, TrainingData, Options),
        """Fine-tune a pretrained encoder on a task: step 1 of 3.

        A model that already answers the task is only evaluated.

        Example:

            powerbert finetune --model base --train a.csv --dev b.csv --text review --label stars --output one
        """,
    ),
    Command(
        "search",
        "training",
        (Folders, TrainingData, SearchOptions),
        """Learn how many word-vectors each encoder retains: step 2 of 3.

        Trains all weights and the retention parameters r together; the picture of r is retention.png in the
        output folder. A larger --regulariser (lambda) retains less.

        Example:

            powerbert search --model one --train a.csv --dev b.csv --text review --label stars --output two
        """,
    ),
    Command(
        "retrain",
        "training",
        (Folders, TrainingData, RetrainOptions, Teaching),
        """Re-train with the eliminated word-vectors gone: step 3 of 3.

        Example:

            powerbert retrain --model two --train a.csv --dev b.csv --text review --label stars --output three
        """,
    ),
    Command(
        "anytime",
        "training",
        (Folders, TrainingData, AnytimeOptions, Reported),
        """Train once so that any configuration can be applied to the same weights.

        Each step trains the full model on the labels, and the smallest and a random configuration on the
        full model's answers. Ends with the metric for a set of shapes and budgets.

        Example:

            powerbert anytime --model one --train a.csv --dev b.csv --text review --label stars --output any
        """,
    ),
    Command(
        "evaluate",
        "evaluate",
        (EvaluateFlags, Columns),
        """Score a model with the task's own metric, a bootstrap interval and its real word-vectors.

        Example:

            powerbert evaluate --model three --data dev.csv --text review --label stars
        """,
    ),
    Command(
        "predict",
        "predict",
        (PredictFlags, Columns),
        """Answer every row of a file; labels in it are not looked at.

        Example:

            powerbert predict --model three --data new.csv --text review --output answers.jsonl
        """,
    ),
    Command(
        "explain",
        "explain",
        (ExplainFlags,),
        """Show the words that each encoder retains.

        Example:

            powerbert explain --model FOLDER "a gorgeous, witty movie" --html fade.html
        """,
    ),
    Command(
        "export",
        "export",
        (ExportFlags, Columns),
        """Write a classifier, its tokenizer and its retention configuration for ONNX Runtime or OpenVINO.

        Batch and length stay free, and each input retains word-vectors by its own length. With --data the
        answers of the exported model are compared with those of torch in fp32.

        Example:

            powerbert export --model three --to openvino --output fast --precision int8 --data a.csv --text t
        """,
    ),
    Command(
        "bench",
        "bench",
        (BenchFlags, Columns),
        """Measure elimination against the best that the machine does without it.

        All arms run in turn in one run, and it says beforehand how long that will take. The headline is the
        ratio to the best full arm of the same precision, then of any precision, then to stock transformers.

        Example:

            powerbert bench --model three --texts reviews.txt --json bench.json --plot bench.png
        """,
    ),
    Command(
        "doctor",
        "doctor",
        (Figures,),
        """Say what this machine can run: engines, precisions, speed, and the choice they recommend.

        Every engine is tried in every precision in a process of its own, because a CPU that claims
        instructions which it does not have ends the process that uses them. The other commands remember
        what is found here.

        Example:

            powerbert doctor --json machine.json
        """,
    ),
)

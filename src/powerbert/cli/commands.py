"""The commands: their help, their flags, and where their work is done.

The module of a command is imported when it runs, not before: `powerbert COMMAND --help` and a wrong flag
answer at once, and the modules import what they need at their top.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from importlib import import_module
from inspect import Parameter, Signature, getdoc
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_type_hints

import typer

from powerbert.cli import answering, flags
from powerbert.cli.output import PLACES, check_apart
from powerbert.errors import MissingExtraError, install
from powerbert.training.options import AccelerateOptions, AnytimeOptions, Options, RetrainOptions, SearchOptions

EXTRAS = {
    "train": ("accelerate", "datasets", "matplotlib", "pyarrow", "scipy"),
    "serve": ("fastapi", "fastapi_offline", "h11", "prometheus_client", "pydantic", "uvicorn"),
}
"""Packages that a command may miss, by the extra that brings them."""

COMMANDS: dict[str, tuple[str, Callable[..., None]]] = {}
"""Name -> home: the function of that name in `powerbert.cli.<home>` does the work; and what typer makes it of."""


def declare(home: str, example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Take a function for a command: its docstring is the help, its arguments are groups of flags."""

    def taken(stub: Callable[..., None]) -> Callable[..., None]:
        def work(*groups: Any) -> None:
            try:
                module = import_module(f"powerbert.cli.{home}")
            except ModuleNotFoundError as error:
                package = (error.name or "").partition(".")[0]
                extra = next((extra for extra, packages in EXTRAS.items() if package in packages), None)
                if extra is None:
                    raise
                raise MissingExtraError(f"this command needs {package}", remedy=install(extra, clone=True)) from None
            getattr(module, name)(*groups)

        name = stub.__name__
        work.__doc__ = f"{getdoc(stub)}\n\nExample:\n\n    powerbert {name} {example}".rstrip()
        work.__name__ = name
        kinds = [kind for argument, kind in get_type_hints(stub).items() if argument != "return"]
        COMMANDS[name] = home, command(work, *kinds)
        return stub

    return taken


def command(work: Callable[..., None], *groups: type) -> Callable[..., None]:
    """Make a typer command of `work`, which takes one instance of each group, in order.

    A flag that the user left out is left to the group's own default; a group refuses what it cannot be.
    """

    def run(**given: Any) -> None:
        told = {name: value for name, value in given.items() if value is not None}
        made = [group(**{one.name: told[one.name] for one in fields(group) if one.name in told}) for group in groups]
        check_apart({name: told[name] for name in paths if name in told})
        work(*made)

    asked = [(group, *one) for group in groups for one in flags.flags_of(group)]
    paths = [one.name for _, one, _, _, metavar, _ in asked if metavar in ("FILE", "FOLDER") or one.name in PLACES]
    parameters = [_parameter(*one) for *one, _ in asked]
    parameters.sort(key=lambda parameter: parameter.default is not Parameter.empty)
    setattr(run, "__signature__", Signature(parameters))  # noqa: B010 - typer reads what inspect sees
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__, run.__name__ = work.__doc__, work.__name__
    return run


def _parameter(group: type, field: Field[Any], kind: Any, text: str, metavar: str | None) -> Parameter:
    """One keyword of the command; None stands for "not given"."""
    plain = next(part for part in get_args(kind) if part is not NoneType) if isinstance(kind, UnionType) else kind
    required = field.default is MISSING
    if not required and not isinstance(field.default, bool | None) and "by default" not in text:
        text = f"{text} [{field.default}]"  # typer itself would show the None that stands for "not given"
    names = [flags.flag_of(field)] if field.default is False else []  # no --no-... of an off
    panel = (group.__doc__ or "").splitlines()[0].rstrip(".").split(";")[0]
    shown: dict[str, Any] = {"help": text, "show_default": False, "rich_help_panel": panel}
    by_position = metavar == flags.ARGUMENT
    flag = (
        typer.Argument(metavar=PLACES.get(field.name), **shown)
        if by_position
        else typer.Option(*names, metavar=metavar, **shown)
    )
    kind, default = (plain, Parameter.empty) if required else (plain | None, None)
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, flag])


@declare("demo", "")
def demo(asked: flags.DemoFlags) -> None:
    """Make a real classifier of movie reviews faster: `accelerate` with at most 1 point to lose.

    Takes all-MiniLM-L6-v2 and 4,000 sentences, and ends with a table and a page.
    """


@declare(
    "accelerate", "--model mine --train a.csv --dev b.csv --text review --label stars --max-loss 1.0 --output fast"
)
def accelerate(
    folders: flags.Folders, goals: flags.Goals, data: flags.TrainingData, options: AccelerateOptions
) -> None:
    """Make a classifier faster within a goal: say what may be lost, or how fast it has to be.

    Fine-tunes a model that has no head for the task, finds a retention configuration, re-trains, quantises and
    exports for the engine that is the fastest here, and judges on rows that nothing was chosen on. Without labels
    (--texts) the model's own answers teach. The output opens with `pipeline` and `score`; report.html in it is
    for people.
    """


@declare("training", "--model base --train a.csv --dev b.csv --text review --label stars --output one")
def finetune(folders: flags.Folders, data: flags.TrainingData, options: Options) -> None:
    """Fine-tune a pretrained encoder on a task: step 1 of 3.

    A model that already answers the task is only evaluated.
    """


@declare("training", "--model one --train a.csv --dev b.csv --text review --label stars --output two")
def search(folders: flags.Folders, data: flags.TrainingData, options: SearchOptions) -> None:
    """Learn how many word-vectors each encoder retains: step 2 of 3.

    Trains all weights and the retention parameters r together; the picture of r is retention.png in the
    output folder. A larger --regulariser (lambda) retains less.
    """


@declare("training", "--model two --train a.csv --dev b.csv --text review --label stars --output three")
def retrain(
    folders: flags.Folders, data: flags.TrainingData, options: RetrainOptions, teaching: flags.Teaching
) -> None:
    """Re-train with the eliminated word-vectors gone: step 3 of 3."""


@declare("training", "--model one --train a.csv --dev b.csv --text review --label stars --output any")
def anytime(folders: flags.Folders, data: flags.TrainingData, options: AnytimeOptions, table: flags.Reported) -> None:
    """Re-train once for several budgets, which the folder then has on its dial.

    Each batch is answered with the configuration of another budget. Ends with the metric of each; `--budget` of
    predict, evaluate and serve, or pipeline(folder, budget=...), chooses one.
    """


@declare("evaluate", "--model three --data dev.csv --text review --label stars")
def evaluate(asked: answering.EvaluateFlags, columns: flags.Columns) -> None:
    """Score a model with the task's own metric, a bootstrap interval and its real word-vectors."""


@declare("score", "reviews.csv.gz answers.parquet --model three --text review")
def score(asked: answering.ScoreFlags, columns: flags.Columns) -> None:
    """Answer every row of a file of any size: all its columns come back, in order, with label and score beside them.

    Stopped at any moment, even killed, the same command goes on, and what it writes is the same to the byte. Labels
    in the file are not looked at.
    """


@declare("score", "--model three --data new.csv --text review --output answers.jsonl")
def predict(asked: answering.ScoreFlags, columns: flags.Columns) -> None:
    """Do the same as `score`, under another name."""


@declare("serve", "fast --port 8080")
def serve(asked: answering.ServeFlags) -> None:
    """Answer over HTTP, in batches of like length that are formed while the engine is busy.

    Clients of Text Embeddings Inference (/predict, /rerank) and huggingface_hub's InferenceClient work
    unchanged; the page at / shows which words survive. Only this machine is served unless there is an API key.
    """


@declare("explain", '--model FOLDER "a gorgeous, witty movie" --html fade.html')
def explain(asked: flags.ExplainFlags) -> None:
    """Show the words that each encoder retains."""


@declare("export", "--model three --to openvino --output fast --precision int8 --data a.csv --text t")
def export(asked: flags.ExportFlags, columns: flags.Columns) -> None:
    """Write a classifier, its tokenizer and its retention configuration for ONNX Runtime or OpenVINO.

    Batch and length stay free, and each input retains word-vectors by its own length. With --data the
    answers of the exported model are compared with those of torch in fp32.
    """


@declare("measure", "--model three --texts reviews.txt --json bench.json --plot bench.png")
def bench(asked: flags.BenchFlags, columns: flags.Columns) -> None:
    """Measure elimination against the best that the machine does without it.

    All arms run in turn in one run, and it says beforehand how long that will take. The headline is the
    ratio to the best full arm of the same precision, then of any precision, then to stock transformers.
    """


@declare("study", "redundancy --model one --data dev.csv --text review --label stars --output studies")
def study(asked: flags.StudyFlags, columns: flags.Columns, options: RetrainOptions) -> None:
    """Draw a figure of the paper for a model and data of your own, and say whether it agrees with the paper's.

    Writes the figures (JSON) and the picture (PNG, SVG). Options of re-training are for `selection`, which trains and
    goes on where it was stopped; of them --seed and --threads are for all studies.
    """


@declare("measure", "--json machine.json")
def doctor(asked: flags.Figures) -> None:
    """Say what this machine can run: engines, precisions, speed, and the choice they recommend.

    Every engine is tried in every precision in a process of its own, because a CPU that claims
    instructions which it does not have ends the process that uses them. The other commands remember
    what is found here.
    """

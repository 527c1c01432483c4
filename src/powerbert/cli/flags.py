"""The flags of all commands, in groups.

A field is written `name: Annotated[type, "help", "METAVAR", least]`, the last two if need be, so that a flag
has one home, one meaning and one help text in every command. A group refuses by itself what it cannot be,
before the command that takes it is loaded. Nothing heavy is imported: help and mistakes are instant.
"""

from collections.abc import Iterator
from dataclasses import Field, dataclass, fields
from typing import Annotated, Any, get_args, get_type_hints

from powerbert.acceleration.goal import Goal
from powerbert.cli.output import OUTPUTS, STANDARD_OUTPUT, check_file
from powerbert.errors import PowerBertError, RetentionError
from powerbert.retention import RetentionConfiguration
from powerbert.studies.registry import STUDIES, find_study
from powerbert.tasks.task import check_max_length

MOST = 2**31 - 1  # of any number: what counts with it counts in 32 bits, or stops in time
ARGUMENT = "ARGUMENT"  # in the place of a METAVAR: the field is given by its position, without a flag
CALIBRATION = 256  # rows from which int8 in OpenVINO takes its scales; what gives scales is not compared

_RETENTION = 'Fractions ("0.9,0.8,...") or counts of N, instead of what the folder carries.'
_TASK = "CoLA, RTE, QQP, MRPC, SST-2, MNLI-m, MNLI-mm, QNLI, STS-B, IMDB or RACE; leave out for your own columns."
_METRIC = "accuracy, f1 (macro_f1 of 3 classes or more), matthews, spearman; by default the task's."
_FAST = "fp32, int8; openvino: bf16, int8+bf16. By default fp32, with auto the fastest that keeps the labels of --data."
_PAPER = "Also measure as the paper does, batches of 128 padded to N, over this many runs; it takes 100."
_FILES = "JSONL, CSV, TSV or Parquet with the columns below, .txt with one text per line (a tab separates a pair)"
OWN_DATA = f"{_FILES}, or with --task the folder that holds the task."
_OWN = f"without --calibration int8 in OpenVINO takes its scales from the first {CALIBRATION} rows"
_SCALES = f"of which {CALIBRATION}, drawn with seed 0, give int8 in OpenVINO its scales; then all of --data is compared"
_COMPARED = f"Your own texts, to compare the answers with torch; {_OWN} and is compared on the others."
_STUDIES = "; ".join(f"{name}: {study.help}" for name, study in STUDIES.items())
_STUDIED = "Folder for NAME.json, NAME.png and NAME.svg; other studies may lie in it."
RetentionFlag = Annotated[str | None, _RETENTION, "LIST"]
RowsFlag = Annotated[int | None, "A part of this many rows, drawn with seed 0.", "ROWS"]
SplitFlag = Annotated[str | None, "Split of --task, where --data is a folder; by default dev.", "NAME"]


def flags_of(group: type) -> Iterator[tuple[Field[Any], Any, str, str | None, int | None]]:
    """Of every flag its field, its type, its help, and METAVAR and least value where they are given."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        kind, text, *more = get_args(hints[field.name])
        metavar, least = (*more, None, None)[:2]
        yield field, kind, text, metavar, least


def flag_of(field: Field[Any]) -> str:
    """Its name on the command line."""
    return f"--{field.name.replace('_', '-')}"


@dataclass(frozen=True, kw_only=True)
class Flags:
    """Flags that are checked by what is written beside them: the least value, and files that can be written."""

    def __post_init__(self) -> None:
        for field, _, _, metavar, least in flags_of(type(self)):
            value, flag = getattr(self, field.name), flag_of(field)
            if value is not None and least is not None and value < least:
                raise PowerBertError(f"{flag} is too small", got=value, rule=f"at least {least}")
            if value is not None and least is not None and not value <= MOST:  # nor NaN
                raise PowerBertError(f"{flag} is too large", got=value, rule=f"at most {MOST:,}")
            if value is not None and field.name in OUTPUTS and metavar == "FILE":
                check_file(value, flag)


@dataclass(frozen=True, kw_only=True)
class Figures(Flags):
    """Where the figures go."""

    json: Annotated[str | None, 'Write the figures to this file; "-" is standard output.', "FILE"] = None

    @property
    def shows(self) -> bool:
        """Whether standard output is a person's, not the figures'."""
        return self.json != STANDARD_OUTPUT


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What the texts are."""

    task: Annotated[str | None, _TASK, "NAME"] = None
    text: Annotated[str | None, "Column of the text, for a task of your own.", "COL"] = None
    text_pair: Annotated[str | None, "Column of the second text, if there is one.", "COL"] = None
    label: Annotated[str | None, "Column of the label; by default label.", "COL"] = None
    regression: Annotated[bool, "The labels are numbers to predict, not classes."] = False
    metric: Annotated[str | None, _METRIC, "NAME"] = None
    max_length: Annotated[int | None, "N, the longest input; by default the task's, else the paper's rule.", "N"] = None

    def __post_init__(self) -> None:
        check_max_length(self.max_length)


@dataclass(frozen=True, kw_only=True)
class TrainingData(Columns):
    """What a model is trained and evaluated on."""

    data: Annotated[str | None, "Folder with the files of --task, or the word hub.", "FOLDER"] = None
    train: Annotated[str | None, "Training data: JSONL, CSV, TSV (also .gz) or Parquet.", "FILE"] = None
    dev: Annotated[str | None, "Data to evaluate on, in the same formats.", "FILE"] = None
    rows: Annotated[int | None, "Train on a part of this many rows, drawn with --seed.", "ROWS"] = None
    dev_rows: Annotated[int | None, "Evaluate on a part of this many rows, drawn with seed 0.", "ROWS"] = None


@dataclass(frozen=True, kw_only=True)
class Folders(Figures):
    """Where a step starts and where its result goes."""

    model: Annotated[str, "Model folder to start from.", "FOLDER"]
    output: Annotated[str, "Folder for the result; the same command goes on with a stopped run.", "FOLDER"]


@dataclass(frozen=True, kw_only=True)
class Goals:
    """What may be lost, or how fast it has to be; give one."""

    max_loss: Annotated[float | None, "Points of the metric that may be lost, such as 1.0.", "POINTS"] = None
    max_disagreement: Annotated[str | None, "Share of answers that may differ, such as 1%.", "SHARE"] = None
    speedup: Annotated[float | None, "Times as fast as the fastest engine runs the original model.", "TIMES"] = None
    latency_ms: Annotated[float | None, "Milliseconds in which one text is answered.", "MS"] = None
    texts: Annotated[str | None, "Texts without labels, instead of --train: the model itself teaches.", "FILE"] = None

    def goal(self) -> Goal:
        """The one that was given."""
        return Goal.of(self.max_loss, self.max_disagreement, self.speedup, self.latency_ms)

    def __post_init__(self) -> None:
        self.goal()


@dataclass(frozen=True)
class Teaching:
    """What is re-trained, and who teaches."""

    retention: RetentionFlag = None
    teacher: Annotated[str | None, "Model to distil from; by default the one the search began with.", "FOLDER"] = None


@dataclass(frozen=True)
class Reported:
    """Which budgets are trained for."""

    budgets: Annotated[
        str | None, "Shares of the work of the full model; by default seven, as many as it has encoders for.", "LIST"
    ] = None

    def __post_init__(self) -> None:
        self.shares()

    def shares(self) -> list[float] | None:
        """The budgets as numbers."""
        if self.budgets is None:
            return None
        what, rule, remedy = "--budgets is a list of shares", "above 0, at most 1", "write for instance 0.7,0.5"
        try:
            found = [float(word) for word in self.budgets.split(",")]
        except ValueError:
            raise PowerBertError(what, got=self.budgets, rule=rule, remedy=remedy) from None
        if not all(0 < share <= 1 for share in found):
            raise PowerBertError(what, got=self.budgets, rule=rule, remedy=remedy)
        return found


@dataclass(frozen=True, kw_only=True)
class DemoFlags(Figures):
    """Where the demo works."""

    output: Annotated[str, "Where the models go; a stopped demo goes on from there.", "FOLDER"] = "powerbert-demo"


@dataclass(frozen=True, kw_only=True)
class ExportFlags(Figures):
    """What is exported, and to what."""

    model: Annotated[str, "Model folder.", "FOLDER"]
    to: Annotated[str, "onnx, openvino, or auto: whichever is the fastest here.", "ENGINE"]
    output: Annotated[str, "Folder for the exported model.", "FOLDER"]
    precision: Annotated[str | None, _FAST, "NAME"] = None
    data: Annotated[str | None, _COMPARED, "FILE"] = None
    calibration: Annotated[str | None, f"Texts with the columns of --data, {_SCALES}.", "FILE"] = None
    split: SplitFlag = None
    rows: RowsFlag = None
    retention: RetentionFlag = None


@dataclass(frozen=True, kw_only=True)
class BenchFlags(Figures):
    """What is measured, and how."""

    model: Annotated[str, "Model folder with elimination.", "FOLDER"]
    texts: Annotated[str | None, "Text file, one input per line; a tab separates a pair.", "FILE"] = None
    data: Annotated[str | None, "Instead of --texts, a data file, or with --task the task's folder.", "FILE"] = None
    split: SplitFlag = None
    thorough: Annotated[bool, "Every feed, batches of 1, 8 and 32, memory, 5 rounds: about ten times as long."] = False
    engines: Annotated[str, "stock (transformers), torch, onnx, openvino; by default all installed ones.", "LIST"] = ""
    precisions: Annotated[
        str | None, "Precisions to measure; by default all, bf16 where the CPU is faster with it.", "LIST"
    ] = None
    batches: Annotated[str | None, "Batch sizes; by default 1,32.", "LIST"] = None
    feeds: Annotated[str | None, "fixed, dynamic, sorted, packed; by default the best of each engine.", "LIST"] = None
    inputs: Annotated[int, "At most this many texts.", None, 1] = 64
    rounds: Annotated[int | None, "How often each arm answers all texts; by default 3.", None, 1] = None
    curves: Annotated[bool, "Measure also cost against length and against batch size."] = False
    paper: Annotated[int, _PAPER, "RUNS", 0] = 0
    plot: Annotated[str | None, "Write a picture (PNG).", "FILE"] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.texts is None) == (self.data is None):
            raise PowerBertError("which texts?", remedy="give --texts FILE, or --data FILE and --text COL, not both")
        self.batch_sizes()

    @property
    def rows(self) -> int:
        """Of --data, drawn with seed 0; --texts gives its first lines."""
        return self.inputs

    def batch_sizes(self) -> list[int]:
        """The batch sizes as numbers."""
        words = (self.batches or ("1,8,32" if self.thorough else "1,32")).split(",")
        if not all(word.strip().isdecimal() and int(word) > 0 for word in words):
            raise PowerBertError("--batches is a list of numbers", got=self.batches, remedy="write for instance 1,8,32")
        return [int(word) for word in words]


@dataclass(frozen=True, kw_only=True)
class ExplainFlags(Figures):
    """What is explained, and how it is shown."""

    text: Annotated[str, 'The text; "-" reads standard input.', ARGUMENT]
    model: Annotated[str, "Model folder.", "FOLDER"]
    text_pair: Annotated[str | None, "Second text, for models of pairs.", "TEXT"] = None
    retention: RetentionFlag = None
    max_length: Annotated[int | None, "The length N that counts are meant for.", "N"] = None
    strategy: Annotated[str | None, "attn-ws, head-ws, rand-ws; by default the folder's, else attn-ws.", "NAME"] = None
    html: Annotated[str | None, "Write a page that shows the fade.", "FILE"] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.html == self.json == STANDARD_OUTPUT:
            raise PowerBertError("--html and --json both ask for standard output", remedy="write one of them to a file")
        self.configuration()

    def configuration(self) -> RetentionConfiguration | None:
        """The asked retention, if there is one."""
        found, what = asked_retention(self.retention, self.max_length), "--max-length belongs to counts"
        if found is None and self.max_length is not None:
            raise RetentionError(what, got=self.max_length, remedy="give the counts with --retention")
        if found is not None and found.is_relative and self.max_length is not None:
            raise RetentionError(what, got=self.retention, rule="fractions are of each text's own length")
        return found


@dataclass(frozen=True, kw_only=True)
class StudyFlags(Figures):
    """What is studied, and where the picture goes."""

    name: Annotated[str, f"{_STUDIES}.", ARGUMENT]
    model: Annotated[str, "Model folder; word-vectors are eliminated only where a study says so.", "FOLDER"]
    data: Annotated[str, OWN_DATA, "FILE"]
    output: Annotated[str, _STUDIED, "FOLDER"]
    split: SplitFlag = None
    rows: Annotated[int | None, "A part of this many rows, drawn with --seed.", "ROWS", 1] = None
    ranks: Annotated[int | None, "mutual-information: k from 1 to this; by default 16.", "K", 2] = None
    encoders: Annotated[str | None, "mutual-information: such as 1,3,6,9; by default all.", "LIST"] = None
    inputs: Annotated[int | None, "examples: inputs that are shown; by default 2.", None, 1] = None
    retention: Annotated[str | None, "examples, selection: instead of the folder's or the paper's.", "LIST"] = None
    train: Annotated[str | None, "selection, pareto: training data, in the formats of --data.", "FILE"] = None
    train_rows: Annotated[int | None, "selection, pareto: train on so many rows, drawn with --seed.", "ROWS", 1] = None
    methods: Annotated[str | None, "pareto: some of the methods, by their names; by default all.", "LIST"] = None
    seeds: Annotated[str | None, "pareto: of every training; several give bands. By default 0.", "LIST"] = None
    threshold: Annotated[int | None, "selection: inputs longer than this are long; by default N/4.", None, 1] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        study = find_study(self.name)
        own = {flag for one in STUDIES.values() for flag in one.reads} - {*study.reads}
        for field in fields(self):
            if field.name in own and getattr(self, field.name) is not None:
                others = [name for name, one in STUDIES.items() if field.name in one.reads]
                what, rule = f"{flag_of(field)} is not of {self.name}", f"it belongs to {' and '.join(others)}"
                raise PowerBertError(what, rule=rule, remedy="leave it out")
        self.listed_encoders()

    def listed_encoders(self) -> list[int]:
        """The encoders as numbers; none if all are meant."""
        words = self.encoders.split(",") if self.encoders else []
        if not all(word.strip().isdecimal() for word in words):
            raise PowerBertError(
                "--encoders is a list of numbers", got=self.encoders, remedy="write for instance 1,3,6,9"
            )
        return [int(word) for word in words]


def asked_retention(text: str | None, max_length: int | None) -> RetentionConfiguration | None:
    """Read fractions, or counts together with the N they are meant for, if any are given."""
    if text is None:
        return None
    counts = all(word.strip().isdecimal() for word in text.split(","))
    if counts and max_length is None:
        remedy = "add --max-length N, or give fractions such as 0.9,0.5,0.1"
        raise RetentionError("counts need the length N they are meant for", got=text, remedy=remedy)
    return RetentionConfiguration.parse(text, max_length if counts else None)

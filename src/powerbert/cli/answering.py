"""The flags of the commands that answer texts: evaluate, score and serve; in groups, as all flags are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from powerbert.cli.flags import ARGUMENT, OWN_DATA, Figures, Flags, RetentionFlag, RowsFlag, SplitFlag
from powerbert.cli.output import STANDARD_OUTPUT
from powerbert.errors import PowerBertError
from powerbert.serving.limits import ServeLimits, read_key

LOCAL = "local"  # the address of a Ray cluster that is started for one run
ADDRESS = re.compile(r"auto|local|(ray://)?([\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}")
_IN = 'What is answered: a file, a quoted pattern such as "parts/*.jsonl", or "-", standard input; also as --data.'
_OUT = 'Where the rows go, with their answers: .jsonl, .csv, .tsv (.gz, .zst) or .parquet, or "-"; also as --output.'
_ON_ERROR = "A row that cannot be answered: fail ends the run, skip leaves it out, record writes it with its error."
_SORTED = "Rows that are sorted by length at a time; a stopped run loses no more"
_RAY = "Answer on Ray: on a cluster of this machine, or on that at HOST:PORT or ray://HOST:PORT; auto finds one."
_ADAPTIVE = "Spend a smaller budget of the dial while the queue is long; the answer's header says so."
_KEY_FILE = "File with the API key; by default POWERBERT_API_KEY. Needed for any --host that others can reach."
_TABLES = ("jsonl", "csv", "tsv", "parquet")
_Engine = Annotated[str | None, "torch, onnx or openvino; by default what the folder was made for.", "NAME"]
_Precision = Annotated[str | None, "fp32, int8, bf16 or int8+bf16; by default what the folder was made for.", "NAME"]
_Threads = Annotated[int | None, "Threads; by default OMP_NUM_THREADS, else the free cores.", "N", 1]
_Budget = Annotated[str | None, "Budget of the folder's dial, such as 2x, instead of its own retention.", "NAME"]


def with_addresses(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command, with the address that `--ray` may go without; typer has no such flags."""
    following = [*arguments, ""][1:]
    bare = [this == "--ray" and not ADDRESS.fullmatch(then) for this, then in zip(arguments, following, strict=True)]
    return [f"--ray={LOCAL}" if alone else this for this, alone in zip(arguments, bare, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Answering(Flags):
    """Which model answers what, and how."""

    model: Annotated[str, "Model folder, saved or exported.", "FOLDER"]
    engine: _Engine = None
    precision: _Precision = None
    threads: _Threads = None
    retention: RetentionFlag = None
    budget: _Budget = None
    rows: RowsFlag = None
    batch_size: Annotated[int, "Inputs of like length that are answered at once.", None, 1] = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget is not None and self.retention is not None:
            got, remedy = f"{self.budget} and {self.retention}", "give one of --budget and --retention"
            raise PowerBertError("a budget is a retention configuration", got=got, remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class EvaluateFlags(Answering, Figures):
    """Which model answers what, and how."""

    data: Annotated[str, OWN_DATA, "FILE"]
    split: SplitFlag = None


@dataclass(frozen=True, kw_only=True)
class ScoreFlags(Answering, Figures):
    """Which model answers what, and where the answers go."""

    source: Annotated[str | None, _IN, ARGUMENT] = None
    target: Annotated[str | None, _OUT, ARGUMENT] = None
    data: Annotated[str | None, "IN by a flag; with --task also the folder that holds the task.", "FILE"] = None
    output: Annotated[str | None, "OUT by a flag.", "FILE"] = None
    format: Annotated[str | None, "Of OUT: jsonl, csv, tsv or parquet; by default as its name says.", "NAME"] = None
    input_format: Annotated[str | None, "Of IN; by default as its name says, of standard input jsonl.", "NAME"] = None
    all: Annotated[bool, "Write the score of every label, as score_LABEL."] = False
    prefix: Annotated[str, "Put before the names of the added columns, where the input has such ones.", "TEXT"] = ""
    on_error: Annotated[str, _ON_ERROR, "NAME"] = "fail"
    window: Annotated[int, _SORTED, "ROWS", 1] = 16_384
    ray: Annotated[str | None, _RAY, "[ADDRESS]"] = None
    ray_cpus: Annotated[int, "Cores, and threads, of a worker on Ray", "N", 1] = 1
    ray_workers: Annotated[int | None, "Workers on Ray; by default as many as it has room for.", "N", 1] = None
    glue: Annotated[str | None, "Write GLUE's submission file, such as MNLI-m.tsv, into this folder.", "FOLDER"] = None
    split: Annotated[str | None, "Split of --task, where --data is a folder; by default test.", "NAME"] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        twice = {"IN and --data": (self.source, self.data), "OUT and --output": (self.target, self.output)}
        for both, given in twice.items():
            if None not in given:
                raise PowerBertError(f"{both} are one thing", got=" and ".join(map(str, given)), remedy="give one")
        if self.rows_in is None:
            raise PowerBertError("what is to be answered?", remedy="give IN, a file, or - for standard input")
        if self.rows_out is None and self.glue is None:
            raise PowerBertError("where do the answers go?", remedy="give OUT, a file, or --glue FOLDER")
        known = {"--format": (self.format, _TABLES), "--input-format": (self.input_format, (*_TABLES, "txt"))}
        for flag, (name, names) in (known | {"--on-error": (self.on_error, ("fail", "skip", "record"))}).items():
            if name is not None and name not in names:
                raise PowerBertError(f"unknown {flag}", got=name, rule="one of " + ", ".join(names))
        if not self.prefix.isprintable():
            rule = "it has no tab, line end or control character"
            raise PowerBertError("--prefix is no part of a name", got=self.prefix, rule=rule)
        if self.ray is not None and not ADDRESS.fullmatch(self.ray):
            rule = "auto, HOST:PORT or ray://HOST:PORT, and nothing for a cluster of this machine"
            raise PowerBertError("--ray is not an address", got=self.ray, rule=rule)
        if self.ray is None and (self.ray_cpus, self.ray_workers) != (1, None):
            raise PowerBertError("--ray-cpus and --ray-workers are for --ray", remedy="give --ray, or leave them out")
        if self.rows_in == STANDARD_OUTPUT and (self.rows, self.split, self.glue) != (None, None, None):
            remedy = "give a file, or leave out --rows, --split and --glue"
            raise PowerBertError("standard input is answered as a whole", remedy=remedy)
        if self.glue is not None and self.rows is not None:
            raise PowerBertError("a submission has all rows", got=f"--rows {self.rows}", remedy="leave it out")
        if self.json == self.rows_out == STANDARD_OUTPUT:
            raise PowerBertError("OUT and --json both ask for standard output", remedy="write one of them to a file")

    @property
    def rows_in(self) -> str | None:
        """IN, however it was given."""
        return self.data if self.source is None else self.source

    @property
    def rows_out(self) -> str | None:
        """OUT, however it was given."""
        return self.output if self.target is None else self.target


@dataclass(frozen=True, kw_only=True)
class ServeFlags(Flags):
    """What is served, to whom, and how much of it."""

    model: Annotated[str, "Model folder, saved or exported.", ARGUMENT]
    host: Annotated[str, "Address to listen at; any but this machine's own needs an API key.", "ADDRESS"] = "127.0.0.1"
    port: Annotated[int, "Port to listen at; 0 takes a free one.", None, 0] = 8080
    api_key_file: Annotated[str | None, _KEY_FILE, "FILE"] = None
    engine: _Engine = None
    precision: _Precision = None
    threads: _Threads = None
    budget: _Budget = None
    adaptive: Annotated[bool, _ADAPTIVE] = False
    word_vectors: Annotated[int, "Word-vectors of a batch at encoder 1, at most.", None, 1] = ServeLimits.word_vectors
    queue: Annotated[int, "Inputs that may wait; more are refused with 429.", None, 1] = ServeLimits.waiting
    deadline: Annotated[float, "Seconds after which a request is answered with 504.", None, 1] = ServeLimits.deadline
    max_inputs: Annotated[int, "Inputs of a request, at most.", None, 1] = ServeLimits.inputs
    max_characters: Annotated[int, "Characters of an input, at most.", None, 1] = ServeLimits.characters
    max_bytes: Annotated[int, "Bytes of a request, at most.", None, 1] = ServeLimits.body

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_inputs > self.queue:
            got = f"--max-inputs {self.max_inputs}, --queue {self.queue}"
            raise PowerBertError("a request does not fit into the queue", got=got, remedy="give a longer --queue")
        self.key()

    def key(self) -> str | None:
        """The API key; an address that others can reach needs one."""
        return read_key(self.api_key_file, self.host)

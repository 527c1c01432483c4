"""`powerbert bench`: the honest benchmark."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from powerbert.cli.data import existing_folder
from powerbert.cli.flags import command
from powerbert.cli.output import (
    STANDARD_OUTPUT,
    check_target,
    note,
    progress,
    show,
    working,
    write_bytes,
    write_json,
)
from powerbert.cli.training import Given
from powerbert.errors import PowerBertError

PACKAGES = {"onnx": "onnxruntime", "openvino": "openvino"}


@dataclass(frozen=True)
class Asked:
    """What is measured, and how."""

    model: Annotated[str, "Model folder with elimination.", "FOLDER"]
    texts: Annotated[str, "Text file, one input per line; a tab separates the two texts of a pair.", "FILE"]
    engines: Annotated[
        str, "stock (transformers itself), torch, onnx, openvino; by default all that are installed.", "LIST"
    ] = ""
    precisions: Annotated[str, "Precisions to measure.", "LIST"] = "fp32,int8"
    batches: Annotated[str, "Batch sizes.", "LIST"] = "1,8,32"
    feeds: Annotated[str, "fixed, dynamic, sorted, packed.", "LIST"] = "fixed,dynamic,sorted,packed"
    inputs: Annotated[int, "At most this many lines of the file."] = 64
    max_length: Annotated[int, "N: longer inputs are cut, the feed fixed pads to it.", "N"] = 128
    rounds: Annotated[int, "How often each arm answers all texts."] = 5
    curves: Annotated[bool, "Measure also cost against length and against batch size."] = False
    paper: Annotated[
        int,
        "Also measure as the paper does, batches of 128 padded to N, over this many runs; it takes 100.",
        "RUNS",
    ] = 0
    plot: Annotated[str | None, "Write a picture (PNG).", "FILE"] = None
    json: Annotated[str | None, 'Write the figures to this file; "-" is standard output.', "FILE"] = None


def _bench(flags: Given) -> None:
    """Measure elimination against the best that the machine does without it.

    All arms run in turn in one run. The headline is the ratio to the best unpruned arm of the same
    precision, then of any precision, then to stock transformers, then to the paper's padding to N.

    Example:

        powerbert bench --model three --texts reviews.txt --json bench.json --plot bench.png
    """
    asked = Asked(**flags)
    for target, flag in ((asked.json, "--json"), (asked.plot, "--plot")):
        if target is not None:
            check_target(target, flag)
    if asked.rounds < 1 or asked.inputs < 1 or asked.paper < 0:
        got = (asked.rounds, asked.inputs, asked.paper)
        raise PowerBertError("--rounds and --inputs are at least 1, --paper at least 0", got=got)
    folder, texts = existing_folder(asked.model), _texts(asked)
    engines, batches, feeds = _engines(asked), _numbers(asked.batches), _feeds(asked)
    from powerbert.bench.arms import Field
    from powerbert.bench.curves import by_batch, by_length
    from powerbert.bench.protocol import paper_protocol
    from powerbert.bench.run import bench as measure
    from powerbert.bench.run import choose
    from powerbert.report.bench_table import arms_table, efficiency_table, headline_table

    with tempfile.TemporaryDirectory() as temporary:
        with working("loading and exporting"):
            field = Field(folder, Path(temporary), texts, asked.max_length)
            if asked.paper and field.retention is None:
                raise PowerBertError(
                    "--paper compares with a model that eliminates",
                    got=f"{asked.model} without a retention configuration",
                    remedy="give the folder of a search or a re-training",
                )
            arms = choose(engines, batches, feeds, field.retention is not None)
            for arm in arms:
                field.engine(arm)
        figures = measure(field, arms, asked.rounds, progress)
        if asked.json != STANDARD_OUTPUT:
            show(arms_table(figures))
            if asked.json is not None and (asked.curves or asked.paper):
                write_json(asked.json, figures)  # what follows takes long and may be interrupted
        if asked.curves:
            longest = min(512, *(field.engine(arm).limits.longest for arm in arms))
            with working("measuring cost against length and batch size"):
                figures["by_length"] = by_length(field, engines, asked.rounds, longest)
                figures["by_batch"] = by_batch(field, engines, asked.rounds, longest)
        if asked.paper:
            figures["paper"] = paper_protocol(field, asked.paper, progress)
    if asked.json != STANDARD_OUTPUT:
        show(headline_table(figures))
        if asked.curves and field.retention is not None:
            show(efficiency_table(figures))
    if figures["warning"]:
        note(f"warning: {figures['warning']}")
    if asked.plot is not None:
        from powerbert.report.bench_picture import bench_picture

        write_bytes(asked.plot, bench_picture(figures), "--plot")
        note(f"wrote {asked.plot}")
    if asked.json is not None:
        write_json(asked.json, figures)


def _texts(asked: Asked) -> list[str | tuple[str, str]]:
    try:
        lines = Path(asked.texts).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PowerBertError("--texts cannot be read", got=asked.texts, rule=str(error)) from error
    texts: list[str | tuple[str, str]] = []
    for line in [line for line in lines if line.strip()][: asked.inputs]:
        first, tab, second = line.partition("\t")
        texts.append((first, second) if tab else line)
    if not texts:
        raise PowerBertError("--texts has no line", got=asked.texts, remedy="give one input per line")
    return texts


def _engines(asked: Asked) -> list[tuple[str, str]]:
    """Engines with each precision they have; those that were named have to be installed."""
    from powerbert.bench.arms import STOCK, Stock
    from powerbert.engines.open import ENGINES

    known = {STOCK: Stock.precisions} | {name: engine.precisions for name, engine in ENGINES.items()}
    installed = [name for name in known if name not in PACKAGES or find_spec(PACKAGES[name])]
    names = asked.engines.split(",") if asked.engines else installed
    if unknown := [name for name in names if name not in known]:
        raise PowerBertError("unknown engine", got=unknown[0], rule="one of " + ", ".join(known))
    precisions = asked.precisions.split(",")
    pairs = [(name, precision) for name in names for precision in precisions if precision in known[name]]
    if not pairs:
        raise PowerBertError("no engine has this precision", got=asked.precisions)
    return [pair for pair in pairs if _runs(*pair)]


def _runs(engine: str, precision: str) -> bool:
    """Whether this machine survives it; what does not is told and left out."""
    if precision == "fp32":
        return True
    from powerbert.machine.verdicts import hold_isa, probe

    with working(f"trying {engine} in {precision}"):
        verdict = probe(engine, precision)
    if verdict.runs and (verdict.cap is None or hold_isa(verdict.cap)):
        return True
    note(f"left out: {engine} in {precision} {verdict.state} ({verdict.detail})")
    return False


def _feeds(asked: Asked) -> list[str]:
    from powerbert.bench.arms import FEEDS

    feeds = asked.feeds.split(",")
    if unknown := [feed for feed in feeds if feed not in FEEDS]:
        raise PowerBertError("unknown feed", got=unknown[0], rule="one of " + ", ".join(FEEDS))
    return feeds


def _numbers(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.strip().isdigit() and int(word) > 0 for word in words):
        raise PowerBertError("--batches is a list of numbers", got=text, remedy="write for instance 1,8,32")
    return [int(word) for word in words]


bench = command(_bench, Asked)

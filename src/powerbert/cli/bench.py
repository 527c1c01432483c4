"""`powerbert bench`: the honest benchmark."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path

from powerbert.bench.arms import FEEDS, STOCK, Field, Stock
from powerbert.bench.curves import by_batch, by_length
from powerbert.bench.protocol import paper_protocol
from powerbert.bench.run import bench as measure
from powerbert.bench.run import choose
from powerbert.cli.data import existing_folder
from powerbert.cli.groups import BenchFlags
from powerbert.cli.output import note, progress, show, working, write_bytes, write_json
from powerbert.engines.open import ENGINES
from powerbert.errors import PowerBertError
from powerbert.machine.verdicts import hold_isa, probe
from powerbert.report.bench_picture import bench_picture
from powerbert.report.bench_table import arms_table, efficiency_table, headline_table

PACKAGES = {"onnx": "onnxruntime", "openvino": "openvino"}


def bench(asked: BenchFlags) -> None:
    """Measure elimination against the best that the machine does without it."""
    folder, texts = existing_folder(asked.model), _texts(asked)
    engines, batches, feeds = _engines(asked), _numbers(asked.batches), _feeds(asked)
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
        if asked.shows:
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
    if asked.shows:
        show(headline_table(figures))
        if asked.curves and field.retention is not None:
            show(efficiency_table(figures))
    if figures["warning"]:
        note(f"warning: {figures['warning']}")
    if asked.plot is not None:
        write_bytes(asked.plot, bench_picture(figures), "--plot")
        note(f"wrote {asked.plot}")
    if asked.json is not None:
        write_json(asked.json, figures)


def _texts(asked: BenchFlags) -> list[str | tuple[str, str]]:
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


def _engines(asked: BenchFlags) -> list[tuple[str, str]]:
    """Engines with each precision they have; those that were named have to be installed."""
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
    with working(f"trying {engine} in {precision}"):
        verdict = probe(engine, precision)
    if verdict.runs and (verdict.cap is None or hold_isa(verdict.cap)):
        return True
    note(f"left out: {engine} in {precision} {verdict.state} ({verdict.detail})")
    return False


def _feeds(asked: BenchFlags) -> list[str]:
    feeds = asked.feeds.split(",")
    if unknown := [feed for feed in feeds if feed not in FEEDS]:
        raise PowerBertError("unknown feed", got=unknown[0], rule="one of " + ", ".join(FEEDS))
    return feeds


def _numbers(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.strip().isdigit() and int(word) > 0 for word in words):
        raise PowerBertError("--batches is a list of numbers", got=text, remedy="write for instance 1,8,32")
    return [int(word) for word in words]

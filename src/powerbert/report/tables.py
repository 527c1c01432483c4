"""What a command found, as tables for a terminal, none wider than 80 columns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from powerbert.machine.probes import TRAINING
from powerbert.machine.verdicts import BY_BATCH, CAPPED, CRASHES, MISSING, Verdict
from powerbert.report.words import runs
from powerbert.retention import RetentionConfiguration

FULL_CELLS, SHADED_CELLS = "cyan", "bright_black"
LEAST_BAR, WIDEST_BAR = 8, 40  # cells


def plain_table(
    title: str, words: Iterable[str], numbers: Iterable[str], last: Iterable[str] = (), **style: Any
) -> Table:
    """An empty table with columns of words, then of numbers, and last of words that may break anywhere."""
    table = Table(title=title, box=box.SIMPLE_HEAD, show_edge=False, **{"padding": 0} | style)
    kinds: Any = ((words, {}), (numbers, {"justify": "right"}), (last, {"overflow": "fold"}))
    for columns, how in kinds:
        for column in columns:
            table.add_column(column, **how)
    return table


@dataclass(frozen=True)
class ShareBar:
    """A share as full and shaded cells, as wide as there is room for.

    Shades fill it up to the end, so that the whole is seen and no line of a file ends in spaces.
    """

    share: float

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Ask for `WIDEST_BAR` cells, and make do with `LEAST_BAR`."""
        return Measurement(LEAST_BAR, WIDEST_BAR).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Round to cells, but never to none, nor to all where something is eliminated."""
        full, shaded = ("#", ".") if options.ascii_only else ("█", "░")
        width = min(options.max_width, WIDEST_BAR)
        cells = max(1, min(round(self.share * width), width - (self.share < 1)))
        yield Text.assemble((full * cells, FULL_CELLS), (shaded * (width - cells), SHADED_CELLS))


def retention_table(retention: RetentionConfiguration) -> Table:
    """What each encoder retains: a share of the input's own length, or word-vectors of N.

    Consecutive encoders that retain the same share one row.
    """
    whole = "of the input's own length" if retention.is_relative else f"of N={retention.max_length}"
    style: Any = {"padding": (0, 1), "pad_edge": False, "header_style": SHADED_CELLS}
    table = plain_table("", [], ["encoder", "retains"], [whole], **style)
    for name, (value, share) in runs(zip(retention.values, retention.fractions, strict=True)):
        retained = f"{100 * share:.2f} %" if retention.is_relative else f"{value}"
        table.add_row(name, retained if value else "left out", ShareBar(share) if value else "")
    return table


def evaluation_table(evaluations: Mapping[str, Mapping[str, Any]]) -> Table:
    """Metric, interval and real word-vectors from the figures of one model or configuration per row."""
    first = next(iter(evaluations.values()))
    title = f"{first['rows']:,} rows, real word-vectors without padding"
    table = plain_table(title, [""], [first["metric"], "95 % interval", "word-vectors", "of the full model"])
    for name, one in evaluations.items():
        low, high = one["interval"]
        metric, interval = f"{100 * one['value']:.2f}", f"{100 * low:.1f} to {100 * high:.1f}"
        table.add_row(name, metric, interval, f"{one['word_vectors']:,}", f"{100 * one['work']:.1f} %")
    return table


def comparison_table(figures: Mapping[str, Any], exported: str, metric: str) -> Table:
    """An exported model against torch in fp32, by their labels, logits and, where there are labels, the metric."""
    title = f"{figures['texts']:,} texts that were not used for the scales"
    table = plain_table(title, [""], [f"{exported} against torch fp32"])
    if figures["agreement"] is not None:
        table.add_row("same label", f"{100 * figures['agreement']:.2f} %")
    table.add_row("largest difference of a logit", f"{figures['difference']:.4f}")
    if figures["metric"] is not None:
        before, after = (100 * value for value in figures["metric"].values())
        table.add_row(metric, f"{before:.2f} -> {after:.2f}")
    return table


def headline_table(figures: dict[str, Any]) -> Table:
    """How many times as fast, the hardest comparison first."""
    mean = figures["mean_length"]
    title = f"times as fast: {figures['texts']} texts, {mean:.0f} words on average"
    table = plain_table(title, [], [""], ["against", "eliminated", "baseline"])
    for row in figures["headline"]:
        arms = [row[name].rpartition(" ")[0] for name in ("arm", "baseline")]  # the column says which model
        table.add_row(f"{row['ratio']:.2f}x", row["against"], *arms)
    if paper := figures.get("paper"):
        how = f"as the paper measures: {paper['batch']} x {paper['length']}, mean of {paper['runs']} runs"
        arms = [name.rpartition(" ")[0] for name in reversed(paper["mean_seconds"])]
        table.add_row(f"{paper['ratio']:.2f}x", how, *arms)
    return table


def arms_table(figures: dict[str, Any]) -> Table:
    """Every arm, the fastest first; peak: the share of it that is used. Word-vectors are in the JSON."""
    title = f"{figures['rounds']} rounds, arms in turn; medians, and the distance of the quartiles"
    columns = ["batch", "inputs/s", "±", "p95 ms", "GFLOP", "peak", "MB"]
    table = plain_table(title, ["model", "engine", "feed"], columns)
    for arm in sorted(figures["arms"], key=lambda arm: -float(arm["inputs_per_second"])):
        share, memory = arm["share_of_peak"], arm["extra_memory_mb"]
        table.add_row(
            *(arm["model"], f"{arm['engine']} {arm['precision']}", arm["feed"], str(arm["batch"])),
            *(_number(arm["inputs_per_second"]), f"{100 * arm['spread']:.0f} %"),
            *(_number(arm["p95_ms"]), _number(arm["gflop"])),
            *("" if share is None else f"{100 * share:.0f} %", "" if memory is None else f"{memory:,.0f}"),
        )
    return table


def _number(value: float) -> str:
    """With a decimal where it matters."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def efficiency_table(figures: dict[str, Any]) -> Table:
    """What of the work that is saved shows as time, at each length and batch size."""
    title = "speed-up over the full model in the same engine, and its share of the FLOP ratio"
    columns = ["speed-up", "FLOP ratio", "efficiency", "against stock"]
    table = plain_table(title, ["inputs", "engine"], columns)
    points = [point for curve in ("by_length", "by_batch") for point in figures[curve]]
    both = {(p["engine"], p["precision"], p["batch"], p["length"]): p for p in points if "speed_up" in p}
    for (engine, precision, batch, length), point in both.items():
        stock = "" if point["against_stock"] is None else f"{point['against_stock']:.2f}x"
        ratios = (f"{point['speed_up']:.2f}x", f"{point['flop_ratio']:.2f}", f"{point['efficiency']:.2f}", stock)
        table.add_row(f"{batch} x {length}", f"{engine} {precision}", *ratios)
    return table


def machine_table(figures: dict[str, Any]) -> Table:
    """The machine and the versions of what computes."""
    machine, cap = figures["machine"], figures["machine"]["onednn_max_cpu_isa"]
    rows = {
        "processor": machine["processor"],
        "cores": f"{machine['cores']}",
        "memory": f"{machine['memory_gb']} GB",
        "instructions": " ".join(machine["isa"]) or "unknown",
        "system": f"{machine['system']}, Python {machine['python']}",
        "versions": ", ".join(f"{name} {found}" for name, found in machine["versions"].items()),
        "environment": f"ONEDNN_MAX_CPU_ISA={cap}" if cap else "",
        "threads": f"{figures['threads']} ({figures['threads_because']})",
        "peak": ", ".join(f"{name} {rate:,.0f}" for name, rate in figures["peak_gflops"].items()) + " GFLOP/s",
    }
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value:
            table.add_row(name, value)
    return table


def engines_table(figures: dict[str, Any]) -> Table:
    """Every engine in every precision: whether it runs, and how fast."""
    title = "one linear layer of a BERT-base, 256 word-vectors, one core"
    narrow = {"padding": (0, 1, 0, 0), "pad_edge": False}  # the pip command fits 80 columns
    table = plain_table(title, ["engine", "precision"], ["GFLOP/s", "x fp32"], [""], **narrow)
    for row in figures["engines"]:
        verdict = Verdict(**row)
        speed = "" if verdict.gflops is None else f"{verdict.gflops:,.0f}"
        ratio = "" if verdict.ratio is None or verdict.precision == "fp32" else f"{verdict.ratio:.2f}"
        table.add_row(verdict.engine, verdict.precision, speed, ratio, Text(_word(verdict)))  # its brackets: no markup
    return table


def _word(verdict: Verdict) -> str:
    """What a verdict comes to, in plain words."""
    if verdict.state in (CRASHES, MISSING):
        return f"{verdict.state}: {verdict.detail}"
    words = ["slower than fp32"] if verdict.is_slower else []
    if verdict.state == CAPPED or not words:
        words.append(verdict.state)
    if (verdict.engine, verdict.precision) == TRAINING:
        words.append("training only")
    elif verdict.precision in BY_BATCH:
        words.append("answers depend on the batch")
    return ", ".join(words)


def choice_lines(figures: dict[str, Any]) -> list[str]:
    """What to choose, one line each."""
    said = {"fastest": "fastest", "same_answers": "fastest with the answers of fp32"}
    choices = {said[name]: choice for name, choice in figures["recommended"].items() if choice is not None}
    lines = [f"{name}: {choice['engine']} {choice['precision']}" for name, choice in choices.items()]
    also = "for training in bf16; engines that need it are opened with it anyway"
    lines += [f"set {variable}={value} {also}" for variable, value in figures["environment"].items()]
    return [*lines, "powerbert bench measures your own model and texts"]

"""Attn-WS beside Head-WS and Rand-WS: one configuration, each re-trained alike from one fine-tuned model.

Paper: Ablation Study

Every re-training is a model folder in OUTPUT/selection. One that was stopped goes on, one that is complete is not done
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from rich.table import Table

from powerbert.elimination.selection import STRATEGIES
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import DataError, UnsupportedModelError
from powerbert.modeling.storage import load
from powerbert.report.style import INK, MARKS, SERIES, SMALL, TRACK, label, legend
from powerbert.report.tables import plain_table
from powerbert.retention import RetentionConfiguration
from powerbert.studies.study import StudyOutcome, Subject
from powerbert.tasks.metrics import bootstrap_interval, metric, paired_bootstrap
from powerbert.training.data import Data, EncodedData, answers_with, encode_data
from powerbert.training.options import RetrainOptions
from powerbert.training.steps import retrain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETRAINED = "selection"  # the folder of the re-trained models
FULL = "full model"
ATTENTION, *OTHERS = [strategy.title for strategy in STRATEGIES.values()]
PAPERS_SCORES: dict[str, Any] = {
    "task": "SST-2",
    "retention": [64, 32, *[16] * 7],
    "all": {"Attn-WS": 88.3, "Head-WS": 85.4, "Rand-WS": 85.7},
    "long": {"Attn-WS": 87.4, "Head-WS": 83.7, "Rand-WS": 83.4},
}


def study_selection(
    subject: Subject,
    data: Data,
    retention: RetentionConfiguration | None = None,
    threshold: int | None = None,
    options: RetrainOptions | None = None,
    *,
    progress: bool = False,
) -> StudyOutcome:
    """Re-train with each strategy, and score each on all of dev and on its inputs longer than a threshold.

    retention: by default the paper's: N, N/2, and N/4 in all further encoders. threshold: by default N/4.
    """
    if subject.retention is not None:
        rule, remedy = "the strategies are compared from one fine-tuned model", "give the folder that finetune wrote"
        raise UnsupportedModelError(f"{subject.folder} already eliminates", rule=rule, remedy=remedy)
    encoded = encode_data(data, subject.model, subject.tokenizer)
    retention = retention or papers_quarter(subject.encoders, encoded.max_length)
    retention.check_encoders(subject.encoders)
    threshold = encoded.max_length // 4 if threshold is None else threshold
    parts = long_inputs(subject, encoded, threshold)
    said = {FULL: _answers(subject.model, subject.tokenizer, encoded)}
    for name, strategy in STRATEGIES.items():
        home = subject.output / RETRAINED / name
        retrain(subject.folder, data, home, options, retention=retention, strategy=name, progress=progress)
        said[strategy.title] = _answers(*load(home), encoded)
    figures: dict[str, Any] = {"retention": retention.to_json(), "threshold": threshold, "paper": PAPERS_SCORES}
    figures |= {"metric": encoded.task.metric, "inputs": {name: int(part.sum()) for name, part in parts.items()}}
    figures["scores"] = {
        name: score_strategies(said, subject.labels, part, encoded.task.metric) for name, part in parts.items()
    }
    agrees, seen = _finding(figures)
    return StudyOutcome(figures, agrees, seen, _table(figures), lambda figure: _draw(figure, figures))


def papers_quarter(encoders: int, longest: int) -> RetentionConfiguration:
    """The paper's sample configuration, (64, 32, 16, ..., 16) of N = 64, for any N and number of encoders."""
    counts = [longest, longest // 2, *[longest // 4] * encoders][:encoders]
    return RetentionConfiguration.absolute(counts, longest)


def long_inputs(subject: Subject, encoded: EncodedData, threshold: int) -> dict[str, NDArray[Any]]:
    """Which rows of dev are scored: all, and those that are longer than a threshold; too few of these are refused."""
    long = numpy.asarray(encoded.splits["dev"]["length"][:]) > threshold
    if len(set(subject.labels[long].tolist())) < 2:
        got = f"{long.sum():,} of {len(long):,} inputs are longer than {threshold} word-vectors"
        rule, remedy = "at least two, with different labels", "give a smaller --threshold"
        raise DataError("there are too few long inputs", got=got, rule=rule, remedy=remedy)
    return {"all": numpy.ones_like(long), "long": long}


def _answers(model: Any, tokenizer: Any, encoded: EncodedData) -> NDArray[Any]:
    with TorchEngine(model, tokenizer) as engine:
        return answers_with(engine, encoded.splits["dev"], encoded.task)


def score_strategies(
    said: dict[str, NDArray[Any]], labels: NDArray[Any], part: NDArray[Any], name: str
) -> dict[str, dict[str, Any]]:
    """Metric and interval of each on a part of the rows, in points; of the others also how far Attn-WS leads."""
    found: dict[str, dict[str, Any]] = {}
    truth = labels[part]
    for who, answers in said.items():
        own = answers[part]
        interval = [100 * end for end in bootstrap_interval(name, own, truth, seed=0)]
        found[who] = {"value": 100 * metric(name)(own, truth), "interval": interval}
        if who in OTHERS:
            leads = 100 * paired_bootstrap(name, said[ATTENTION][part], own, truth, seed=0)
            found[who]["lead"] = found[ATTENTION]["value"] - found[who]["value"]
            found[who]["lead_interval"] = numpy.percentile(leads, (2.5, 97.5)).tolist()
    return found


def _lead(values: dict[str, float]) -> float:
    return values[ATTENTION] - max(values[who] for who in OTHERS)


def _finding(figures: dict[str, Any]) -> tuple[bool, str]:
    """Whether Attn-WS leads both others, and by more on long inputs."""
    values = {part: {who: one["value"] for who, one in scores.items()} for part, scores in figures["scores"].items()}
    own, papers = ({part: _lead(each[part]) for part in ("all", "long")} for each in (values, PAPERS_SCORES))
    figures["leads"] = own
    seen = f"Attn-WS leads the better of the others by {own['all']:.1f} points, on inputs longer than "
    seen += f"{figures['threshold']} by {own['long']:.1f}; the paper's by {papers['all']:.1f} and {papers['long']:.1f}"
    return own["all"] > 0 and own["long"] > own["all"], seen


def _table(figures: dict[str, Any]) -> Table:
    rows = figures["inputs"]
    columns = [f"all {rows['all']:,}", f"the {rows['long']:,} longer than {figures['threshold']}"]
    table = plain_table(f"{figures['metric']}, 95 % interval", [""], columns, padding=(0, 1))
    for who in (FULL, ATTENTION, *OTHERS):
        cells = [figures["scores"][part][who] for part in ("all", "long")]
        table.add_row(who, *("{:.1f} ({:.1f} to {:.1f})".format(cell["value"], *cell["interval"]) for cell in cells))
    return table


def _draw(figure: Figure, figures: dict[str, Any]) -> None:
    """Draw each strategy with its interval, on all inputs and on long ones; the line is the full model."""
    axes, inputs, scores = figure.add_subplot(), figures["inputs"], figures["scores"]
    for at, (who, colour, mark) in enumerate(zip((ATTENTION, *OTHERS), SERIES, MARKS, strict=False)):
        cells = [scores[part][who] for part in ("all", "long")]
        values, places = [cell["value"] for cell in cells], [group + 0.25 * (at - 1) for group in (0, 1)]
        errors = [[abs(cell["value"] - cell["interval"][side]) for cell in cells] for side in (0, 1)]
        axes.errorbar(places, values, errors, color=colour, fmt=mark, markersize=8, capsize=4, linewidth=1.6, label=who)
        for place, value in zip(places, values, strict=True):
            axes.text(place + 0.03, value, f"{value:.1f}", va="center", fontsize=SMALL, color=INK)
    full = [scores[part][FULL]["value"] for part in ("all", "long")]
    axes.hlines(full, (-0.42, 0.58), (0.42, 1.42), color=INK, linestyle="--", linewidth=1.2, label=FULL)
    long = f"{inputs['long']:,} inputs longer than {figures['threshold']}"
    axes.set_xticks((0, 1), (f"all {inputs['all']:,} inputs", long))
    axes.grid(axis="y", color=TRACK)
    legend(figure)
    label(axes, "Which word-vectors are retained, each re-trained", "", f"{figures['metric']} (points, 95 % interval)")

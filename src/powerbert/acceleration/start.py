"""`powerbert.accelerate`: the same as the command, from Python."""

from pathlib import Path
from typing import Any

from powerbert.acceleration.goal import Goal
from powerbert.acceleration.parts import divide, parts_of_texts
from powerbert.acceleration.recipe import run_acceleration
from powerbert.errors import DataError
from powerbert.tasks.readers import read_splits
from powerbert.tasks.registry import own_task
from powerbert.tasks.sources import DataSource
from powerbert.training.options import AccelerateOptions
from powerbert.training.runner import Folder


def accelerate(
    model: Folder,
    output: Folder,
    *,
    train: DataSource | None = None,
    dev: DataSource | None = None,
    texts: DataSource | None = None,
    text: str = "text",
    text_pair: str | None = None,
    label: str = "label",
    max_loss: float | None = None,
    max_disagreement: str | float | None = None,
    speedup: float | None = None,
    latency_ms: float | None = None,
    max_length: int | None = None,
    options: AccelerateOptions | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Make a classifier faster within one goal; returns the figures of `output`/report.json.

    train, dev: files or datasets with columns `text`, `text_pair` if there is one, and `label`; without `dev` a part of
        `train` is held back.
    texts: instead of them, texts without labels; the model's own answers teach.
    max_loss: points of the metric that may be lost.
    max_disagreement: share of answers that may differ, "1%" or 0.01.
    speedup: times as fast as the fastest engine runs the original model.
    latency_ms: milliseconds in which one text alone is answered.
    """
    goal = Goal.of(max_loss, max_disagreement, speedup, latency_ms)
    if (train is None) == (texts is None):
        raise DataError("accelerate needs data", rule="either train or texts", remedy="give train=..., or texts=...")
    if texts is not None:
        parts = parts_of_texts(Path(model), texts, text, text_pair, max_length)
    else:
        files: dict[str, Any] = {"train": train} | ({} if dev is None else {"dev": dev})
        parts = divide(*read_splits(files, own_task(text, text_pair, label)), max_length)
    return run_acceleration(model, parts, goal, output, options, progress=progress)

"""`powerbert retrain`: step 3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from powerbert.cli.data import TrainingData, existing_folder
from powerbert.cli.flags import command
from powerbert.cli.retention import asked_retention
from powerbert.cli.training import Folders, Given, finish, start, uninterrupted
from powerbert.training.options import RetrainOptions


@dataclass(frozen=True)
class Lesson:
    """What is re-trained, and who teaches."""

    retention: Annotated[
        str | None, 'Fractions ("0.9,0.8,...") or counts of N; by default what the search learned.', "LIST"
    ] = None
    teacher: Annotated[
        str | None, "Fine-tuned model to distil from; by default the one the search began with.", "FOLDER"
    ] = None


def _retrain(folders: Given, data: Given, options: Given, lesson: Given) -> None:
    """Re-train with the eliminated word-vectors gone: step 3 of 3.

    Example:

        powerbert retrain --model two --train a.csv --dev b.csv --text review --label stars --output three
    """
    asked = Lesson(**lesson)
    retention = asked_retention(asked.retention, data.get("max_length")) if asked.retention else None
    teacher = None if asked.teacher is None else existing_folder(asked.teacher)
    run = start("retrain", RetrainOptions, folders, data, options)
    from powerbert.training.steps import retrain as step

    finish(uninterrupted(lambda: step(run, retention, teacher)), folders, "re-trained")


retrain = command(_retrain, Folders, TrainingData, RetrainOptions, Lesson)

"""`powerbert finetune`: step 1."""

from __future__ import annotations

from powerbert.cli.data import TrainingData
from powerbert.cli.flags import command
from powerbert.cli.training import Folders, Given, finish, start, uninterrupted
from powerbert.training.options import Options


def _finetune(folders: Given, data: Given, options: Given) -> None:
    """Fine-tune a pretrained encoder on a task: step 1 of 3.

    A model that already answers the task is only evaluated.

    Example:

        powerbert finetune --model FOLDER --train a.csv --dev b.csv --text review --label stars --output one
    """
    run = start("finetune", Options, folders, data, options)
    from powerbert.training.steps import finetune as step

    finish(uninterrupted(lambda: step(run)), folders, "fine-tuned")


finetune = command(_finetune, Folders, TrainingData, Options)

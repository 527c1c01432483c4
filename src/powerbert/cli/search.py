"""`powerbert search`: step 2."""

from __future__ import annotations

from powerbert.cli.data import TrainingData
from powerbert.cli.flags import command
from powerbert.cli.output import note
from powerbert.cli.training import Folders, Given, finish, start, uninterrupted
from powerbert.training.options import SearchOptions


def _search(folders: Given, data: Given, options: Given) -> None:
    """Learn how many word-vectors each encoder retains: step 2 of 3.

    Trains all weights and the retention parameters r together; the picture of r is retention.png in the
    output folder. A larger --regulariser (lambda) retains less.

    Example:

        powerbert search --model one --train a.csv --dev b.csv --text review --label stars --output two
    """
    run = start("search", SearchOptions, folders, data, options)
    from powerbert.training.steps import PICTURE
    from powerbert.training.steps import search as step

    result = uninterrupted(lambda: step(run))
    finish(result, folders, "before re-training")
    note(f"the learned r as a picture: {result.folder / PICTURE}")


search = command(_search, Folders, TrainingData, SearchOptions)

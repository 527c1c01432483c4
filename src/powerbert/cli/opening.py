"""The folder of a model, and the engine that answers from it; nothing here needs what training does."""

import os
from pathlib import Path

from powerbert.cli.answering import Answering, ServeFlags
from powerbert.cli.output import note, working
from powerbert.engines.engine import Engine
from powerbert.engines.open import open_engine
from powerbert.errors import ModelFolderError, UnsupportedModelError
from powerbert.machine.describe import choose_threads


def existing_folder(folder: str) -> Path:
    """The folder of a model, absolute, so that a later step finds it from anywhere."""
    path = Path(os.path.expanduser(folder))  # Path's own raises where there is no such user
    if not folder or not os.path.isdir(path):  # Path's own raises: a name that is too long
        raise ModelFolderError(f"{folder} is not a folder", remedy="give the folder of a model")
    return path.resolve()


def open_answering(asked: Answering | ServeFlags, engine: str | None) -> Engine:
    """The folder in this engine, or in that which it was made for, at the asked budget."""
    folder = existing_folder(asked.model)
    try:
        with working("loading the model"):
            threads, _ = choose_threads(asked.threads)
            return open_engine(folder, engine, asked.precision, threads=threads).at(asked.budget)
    except UnsupportedModelError as error:
        remedy = "run finetune first, or name another folder"
        raise UnsupportedModelError(f"{asked.model} does not answer texts", got=str(error), remedy=remedy) from error


def say_engine(engine: Engine) -> None:
    """Tell a person what answers."""
    note(f"{engine.name} in {engine.precision}, N={engine.limits.longest}")

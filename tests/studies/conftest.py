"""A comparison of all methods on a tiny model, made once."""

from __future__ import annotations

import pytest
from pareto_runs import FEW, PLAN, SHORT
from runs import pretrained, small_data

from powerbert.studies.contenders import Trainings
from powerbert.studies.pareto import pareto
from powerbert.training import Options, RetrainOptions


@pytest.fixture(scope="session")
def compared_tiny(tmp_path_factory):
    """The folder, the figures, and the trainings, which are complete."""
    root, data = tmp_path_factory.mktemp("pareto"), small_data(32)
    pretrained(root / "encoder")
    options = RetrainOptions(**SHORT)
    figures = pareto(root / "encoder", data, root / "out", PLAN, fine_tuning=Options(**SHORT), options=options)
    home = root / "out" / "seed-0"
    return root, figures, Trainings(home / "fine-tuned", data, home, FEW, options, progress=False)

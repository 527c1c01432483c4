"""The registry of studies. Oracle: the modules, the flags and the documentation themselves."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from powerbert.cli.flags import StudyFlags
from powerbert.errors import PowerBertError
from powerbert.studies.registry import STUDIES, find_study, study_function

READ_FOR_IT = {"train", "train_rows"}  # flags by which the command reads the training data


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_a_function_that_takes_its_flags_and_a_page_tells_of_it(name):
    study, takes = STUDIES[name], set(signature(study_function(name)).parameters)
    assert {*study.reads} <= {*StudyFlags.__dataclass_fields__}
    assert {*study.reads} - READ_FOR_IT <= takes
    assert ({"data", "options"} <= takes) == study.trains
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text("utf-8")
    assert f"powerbert study {name} " in page


def test_an_unknown_study_is_refused():
    with pytest.raises(PowerBertError, match="unknown study; got 'redundance'; one of redundancy, cls-position"):
        find_study("redundance")


def test_help_needs_no_torch():
    code = "import sys; from powerbert.studies import registry; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

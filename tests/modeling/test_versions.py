"""Which versions of transformers are supported, said in one way everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from powerbert.modeling import TESTED, untested

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("installed", ["5.14.0", "5.22.2", "5.18.0.dev0", "5.22.0rc1"])
def test_a_tested_version_is_used_without_a_word(installed):
    assert untested(installed) is None


@pytest.mark.parametrize("installed", ["5.13.1", "5.23.0", "6.0.0", "4.57.6", "6.0a1", "5.23rc1"])
def test_another_version_is_named_beside_the_tested_ones(installed):
    line = untested(installed)
    assert line.startswith(f"transformers {installed} is not tested")
    assert "5.14 to 5.22" in line
    assert "\n" not in line


def test_another_version_is_said_once_and_not_refused():
    code = (
        "import importlib.metadata as metadata; own = metadata.version\n"
        "metadata.version = lambda name: '5.99.0' if name == 'transformers' else own(name)\n"
        "import powerbert; powerbert.apply, powerbert.load, powerbert.trace"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr.splitlines() == [untested("5.99.0")]


def test_the_package_the_makefile_and_the_warning_name_the_same_versions():
    oldest, newest = (f"{major}.{minor}" for major, minor in TESTED)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"transformers>={oldest},<6" in project["dependencies"]
    (tested,) = re.findall(r"^VERSIONS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [re.match(r"\d+\.\d+", name)[0] for name in tested.split()] == [oldest, newest]
    assert re.search(rf"^transformers=={newest}\.\d+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)

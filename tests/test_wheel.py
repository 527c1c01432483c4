"""The package as it is installed: outside the clone, without the Makefile."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from itertools import chain
from pathlib import Path

import pytest

import powerbert
from powerbert.cli.commands import EXTRAS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "powerbert"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NAMES = {name.replace("-", "_"): name for name in ("fastapi-offline", "prometheus-client", "typing-extensions")}
"""Packages whose module has another name."""


def required(*extras: str) -> set[str]:
    """Names of the packages that the core and these extras bring, without those that they bring in turn."""
    groups = [PROJECT["project"]["optional-dependencies"][extra] for extra in extras]
    lines = [*PROJECT["project"]["dependencies"], *chain(*groups)]
    return {re.match(r"[\w-]+", line)[0] for line in lines}


def imported() -> set[str]:
    """Top-level modules that the source imports, but for the standard library and itself."""
    modules = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module.partition(".")[0])
    return modules - set(sys.stdlib_module_names) - {"powerbert"}


def test_every_package_that_is_imported_is_declared():
    assert {NAMES.get(name, name) for name in imported()} <= required("train", "onnx", "openvino", "serve", "ray")


def test_a_command_knows_the_packages_that_it_may_miss():
    for extra, packages in EXTRAS.items():
        assert {NAMES.get(name, name) for name in packages} == required(extra) - required()


def test_files_that_are_not_python_are_package_data():
    data = PROJECT["tool"]["setuptools"]["package-data"]["powerbert"]
    others = {path for path in SOURCE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    named = {path for pattern in data for path in SOURCE.glob(pattern)}
    assert {str(path.relative_to(SOURCE)) for path in others} == {str(path.relative_to(SOURCE)) for path in named}


@pytest.mark.slow
def test_the_wheel_runs_outside_the_clone(tmp_path):
    copy = tmp_path / "clone"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, copy)
    (wheel,) = tmp_path.glob("powerbert-*.whl")
    shutil.rmtree(copy)

    # A venv over the packages of this one, which brings the dependencies but not the editable install.
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    purelib = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    Path(purelib, "below.pth").write_text(sysconfig.get_path("purelib"))
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--force-reinstall", wheel)

    command = python.parent / "powerbert"
    assert run(command, "--version") == f"powerbert {powerbert.__version__}\n"
    assert "Usage" in run(command, "doctor", "--help")
    code = """
import powerbert, powerbert.report.fade_html as page
powerbert.apply, powerbert.load, powerbert.pipeline, powerbert.trace
assert "prefers-color-scheme" in page.STYLE and "use strict" in page.SCRIPT
from powerbert.report.acceleration_html import acceleration_page
assert "Accelerated model" in acceleration_page({})
from importlib.resources import files
assert files("powerbert").joinpath("py.typed").is_file()
print(powerbert.__file__)
"""
    assert Path(run(python, "-c", code).strip()).is_relative_to(purelib)


def run(*command: str | Path) -> str:
    """Run outside the clone and without its environment; return what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], cwd="/", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout

"""The site: what is made of the code is whole, and its pages are those of docs/.

Oracle: the declarations themselves, the files on disk, and small pages written here. `make docs` builds all of it.
"""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import powerbert
from powerbert.cli import flags
from powerbert.cli.answering import ServeFlags
from powerbert.cli.commands import COMMANDS

ROOT = Path(__file__).parents[1]


def tool(name: str) -> ModuleType:
    spec = spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site() -> ModuleType:
    return tool("site")


def test_every_command_is_there_with_its_example_and_its_flags(site):
    page = site.commands()
    assert re.findall(r"^## (.+)$", page, re.M) == list(COMMANDS)
    served = page.partition("## serve\n")[2].partition("\n## ")[0]
    assert "$ powerbert serve fast --port 8080" in served
    assert "| `MODEL` |" in served
    for field in fields(ServeFlags):
        assert field.name == "model" or f"`{flags.flag_of(field)}" in served
    assert "`--model FOLDER` | Model folder to start from. **Required.**" in page
    assert "`--relative`, `--no-relative`" in page
    assert "`--no-regression`" not in page


def test_every_public_name_is_asked_for(site):
    asked = re.findall(r"^::: (.+)$", site.names(), re.M)
    assert {f"powerbert.{name}" for name in powerbert.__all__} <= set(asked)
    assert {f"powerbert.training.{name}" for name in import_module("powerbert.training").__all__} <= set(asked)
    assert "powerbert.errors.DataError" in asked
    assert len(asked) == len(set(asked))


def test_links_of_a_page_of_the_root_lead_to_the_same_places(site):
    page = "[a](docs/a.md#b) [c](CHANGELOG.md) ![d](docs/pictures/d.png) [e](LICENSE) [f](https://x.org/docs/a) [g](#h)"
    moved = "[a](a.md#b) [c](changelog.md) ![d](pictures/d.png) [e](LICENSE.txt) [f](https://x.org/docs/a) [g](#h)"
    assert site.moved(page) == moved


def test_what_stands_for_a_reference_on_github_is_replaced(site):
    class Page:
        class file:
            src_uri = "cli.md"

    for name, holds in (("cli", "## accelerate"), ("api", "::: powerbert.apply")):
        made = site.on_page_markdown((ROOT / "docs" / f"{name}.md").read_text("utf-8"), page=Page)
        assert holds in made
        assert "make docs" not in made


def test_every_page_has_its_place_in_the_navigation():
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not page.startswith("results/notes/")} <= named


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], ids=lambda page: page.name)
def test_a_list_stands_after_an_empty_line(page):
    """GitHub takes it for a list in any case, the site does not."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    item = r"(?:[-*]|\d+\.) "
    assert re.findall(rf"^(?!\s|#|{item})[^\n]+\n{item}[^\n]*", text, re.M) == []


@pytest.mark.skipif(find_spec("griffe") is None, reason="griffe comes with the extra docs")
def test_parameters_of_a_docstring_become_a_list():
    told = "Do it.\n\na, b: one\n    and more.\nc: two\n_d: private\n    too.\n\nRule: words of another kind."
    listed = "Do it.\n\n\n- `a`, `b`: one\n    and more.\n- `c`: two\n\nRule: words of another kind."
    assert tool("docstrings").listed(told, {"a", "b", "c"}) == listed

"""The documentation: its examples run and print what it says, its links and paths lead somewhere."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import transformers
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert.modeling.families import FAMILIES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [*PAGES, *sorted((ROOT / "docs").glob("*/*.md")), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
NOT_YET = "not yet"
MACHINE_PATH = re.compile(r"(?<![\w./:-])/(" + "|".join(("work", "root")) + r")(/|\b)")
PAPER = re.compile(r"^\s*Paper: (.+?)\s*$", re.MULTILINE)


class Example(NamedTuple):
    """A Python block, the line it starts at, and the text block right after it, if there is one."""

    line: int
    code: str
    printed: str | None


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Each fenced block: the lines of its fences (from 0), its language and its content."""
    lines = text.splitlines()
    start: int | None = None
    for i, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = i
        else:
            yield start, i, lines[start].removeprefix("```").strip(), "\n".join(lines[start + 1 : i])
            start = None
    assert start is None, "a code block is not closed"


def examples(text: str) -> list[Example]:
    """The Python blocks that are not marked `<!-- not run: reason -->` in the line before."""
    lines, blocks = text.splitlines(), list(fences(text))
    found = []
    for k, (start, end, language, code) in enumerate(blocks):
        if language != "python" or (start and re.fullmatch(r"<!-- not run: .+ -->", lines[start - 1])):
            continue
        printed = None
        if k + 1 < len(blocks) and blocks[k + 1][2] == "text":
            between = lines[end + 1 : blocks[k + 1][0]]
            printed = None if any(between) else blocks[k + 1][3]
        found.append(Example(start + 1, code, printed))
    return found


def prose(text: str) -> str:
    """The page without its fenced blocks."""
    lines = text.splitlines()
    for start, end, _, _ in fences(text):
        lines[start : end + 1] = [""] * (end + 1 - start)
    return "\n".join(lines)


def anchor(heading: str) -> str:
    """The name that a heading gets in a page, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def section(page: Path) -> set[str]:
    return {anchor(match[1]) for match in re.finditer(r"^#+ (.+)$", prose(page.read_text("utf-8")), re.M)}


@pytest.fixture
def sandbox(tmp_path, monkeypatch):
    """A folder to work in; whatever examples change for the whole process is set back."""
    monkeypatch.chdir(tmp_path)
    _users_files(tmp_path)
    families, logger = dict(FAMILIES), logging.getLogger("powerbert")
    level, verbosity, threads = logger.level, transformers.logging.get_verbosity(), torch.get_num_threads()
    transformers.logging.disable_progress_bar()
    with torch.random.fork_rng():
        yield
    transformers.logging.enable_progress_bar()
    FAMILIES.clear()
    FAMILIES.update(families)
    logger.setLevel(level)
    transformers.logging.set_verbosity(verbosity)
    torch.set_num_threads(threads)
    shutil.rmtree(tmp_path, ignore_errors=True)  # weights of 90 MB each


def _users_files(folder: Path) -> None:
    """What the pages call the reader's own: a classifier, a reranker and labelled reviews."""
    powerbert.save(tiny("bert", num_labels=1), tokenizer_for(), folder / "ranker")
    model = tiny("bert", num_labels=2)
    model.config.id2label, model.config.label2id = {0: "bad", 1: "good"}, {"bad": 0, "good": 1}
    powerbert.save(model, tokenizer_for(), folder / "mine")
    rows = [f"a {word} film {letter},{word}" for letter in "bcdefgh" for word in ("good", "bad")]
    for name in ("train.csv", "dev.csv"):
        (folder / name).write_text("\n".join(["review,stars", *rows, ""]), encoding="utf-8")


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("page", [page for page in PAGES if examples(page.read_text("utf-8"))], ids=named)
def test_examples_run_in_order_and_print_what_the_page_shows(page):
    namespace = {"__name__": "example"}
    for line, code, printed in examples(page.read_text("utf-8")):
        output = io.StringIO()
        # As many empty lines before it as in the page: a traceback then names the page's own line.
        compiled = compile("\n" * line + code, str(page), "exec")
        with contextlib.redirect_stdout(output):
            exec(compiled, namespace)
        if printed is not None:
            assert output.getvalue().strip() == printed.strip(), f"{named(page)}, line {line}"


def test_an_example_is_skipped_only_with_a_reason_and_a_text_block_belongs_to_the_code_before_it():
    page = "```python\na\n```\n\n```text\nb\n```\n<!-- not run: slow -->\n```python\nc\n```\n"
    assert examples(page) == [Example(1, "a", "b")]
    assert examples("```python\na\n```\nwords\n```text\nb\n```\n") == [Example(1, "a", None)]
    assert examples("<!-- not run -->\n```python\na\n```\n") == [Example(2, "a", None)]


def test_the_readme_shows_code_before_line_30():
    starts = [line for line, *_ in examples((ROOT / "README.md").read_text("utf-8"))]
    assert starts
    assert starts[0] < 30


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_every_relative_link_leads_to_a_file_and_its_section(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, name = target.partition("#")
        linked = page if not path else page.parent / path
        assert linked.exists(), f"{named(page)} links to {target}"
        if name:
            assert name in section(linked), f"{named(page)} links to {target}"


def test_every_page_of_docs_can_be_reached_from_the_readme():
    readme = (ROOT / "README.md").read_text("utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in readme


def test_every_path_in_the_paper_map_exists():
    rows = [line for line in (ROOT / "docs/paper-map.md").read_text("utf-8").splitlines() if line[:1] == "|"]
    assert len(rows) > 30
    for row in rows:
        if NOT_YET in row:
            continue
        for path in re.findall(r"\b((?:src|tests|benchmarks|docs)/[\w./-]+\.\w+)", row):
            assert (ROOT / path).is_file(), row


def test_every_heading_that_a_module_names_is_in_the_paper_map():
    first_cells = [
        line.split("|")[1].strip(" *")
        for line in (ROOT / "docs/paper-map.md").read_text("utf-8").splitlines()
        if line.startswith("|")
    ]
    named_in_code = {
        heading for module in (ROOT / "src").rglob("*.py") for heading in PAPER.findall(module.read_text("utf-8"))
    }
    assert "Attention-based Scoring" in named_in_code
    for heading in named_in_code:
        # A row may narrow the heading: "Loss Function: mass", "Datasets (GLUE)".
        assert any(re.match(re.escape(heading) + r"( \(|: |$)", cell) for cell in first_cells), heading


def test_no_tracked_file_names_a_path_of_one_machine():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    files = {ROOT / name for name in listed.stdout.split("\0") if name} | set(LINKED)
    assert MACHINE_PATH.search("in /" + "work/main")  # the pattern can fail this test
    for path in sorted(files):
        if path.is_file():
            found = MACHINE_PATH.search(path.read_text("utf-8", errors="ignore"))
            assert found is None, f"{path.relative_to(ROOT)} names {found[0]}"

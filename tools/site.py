"""What the site has beside docs/: `mkdocs` calls these functions while it builds (see mkdocs.yml).

Nothing here is written by hand twice. The overview is README.md, the notebook is its cells, and the references
of commands and of Python are made of the code.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType
from typing import Any, get_args

ROOT = Path(__file__).parent.parent

OF_ROOT = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files beside docs/, and the pages that are made of them."""
COPIED = {"LICENSE": "LICENSE.txt"}
PACKAGES: dict[str, tuple[str, ...]] = {
    "powerbert": (),
    "powerbert.training": (),
    "powerbert.training.options": ("AccelerateOptions",),
    "powerbert.baselines": (),
    "powerbert.studies.pareto": ("pareto", "ParetoPlan"),
    "powerbert.studies.contenders": ("Sizes",),
    "powerbert.modeling.trace": ("Trace", "Span"),
    "powerbert.errors": (),
}
"""Whose names the reference of Python has: these, or all public ones."""
METAVARS = {int: "N", float: "NUMBER", str: "TEXT"}

_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")
_MARK = re.compile(r"<!-- the site has (\w+) here -->.*?<!-- end -->", re.DOTALL)


def on_config(config: Any) -> Any:
    """Read the code that stands beside this file, whatever else is installed."""
    sys.path.insert(0, str(ROOT / "src"))
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that docs/ does not hold."""
    from mkdocs.structure.files import File

    pages = {page: moved((ROOT / name).read_text("utf-8")) for name, page in OF_ROOT.items()}
    pages["notebook.md"] = notebook((ROOT / "docs" / "notebook.ipynb").read_text("utf-8"))
    pages |= {page: (ROOT / name).read_text("utf-8") for name, page in COPIED.items()}
    for page, content in pages.items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in what is made of the code, and lead to the notebook's page."""
    if page.file.src_uri != "notebook.md":
        markdown = markdown.replace("(notebook.ipynb)", "(notebook.md)")
    made = {"commands": commands, "names": names}
    return _MARK.sub(lambda mark: made[mark[1]](), markdown)


def moved(text: str) -> str:
    """A page of the root as a page of docs/: its links lead to the same places."""

    def link(match: re.Match[str]) -> str:
        target = {**OF_ROOT, **COPIED}.get(match[2], match[2].removeprefix("docs/"))
        return f"{match[1]}{target}{match[3] or ''})"

    return _LINK.sub(link, text)


def notebook(text: str) -> str:
    """A notebook as a page: its words, and its code as blocks."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    parts.insert(1, "[Take the notebook](notebook.ipynb) and run it: nothing is fetched.")
    return "\n\n".join(parts) + "\n"


# ---- commands ----------------------------------------------------------------------------


def commands() -> str:
    """Every command with its help, its example and its flags, as `powerbert COMMAND --help` has them."""
    from powerbert.cli.commands import COMMANDS

    return "\n".join(line for name, (_, command) in COMMANDS.items() for line in _command(name, command))


def _command(name: str, command: Callable[..., None]) -> Iterator[str]:
    said, _, example = (command.__doc__ or "").partition("\n\nExample:\n\n")
    yield f"## {name}\n\n{_words(said)}\n\n```console\n$ {example.strip()}\n```\n"
    panels: dict[str, list[str]] = {}
    for parameter in signature(command).parameters.values():
        kind, info = get_args(parameter.annotation)
        needed = " **Required.**" if parameter.default is Parameter.empty else ""
        row = f"| {_flag(parameter.name, kind, info)} | {_cell(info.help)}{needed} |"
        panels.setdefault(info.rich_help_panel, []).append(row)
    for panel, rows in panels.items():
        yield "\n".join((f"**{panel}**\n", "| flag | meaning |", "|---|---|", *rows, ""))


def _flag(name: str, kind: Any, info: Any) -> str:
    """`--name METAVAR`, and `--no-name` where there is one; an argument by its name alone."""
    from typer.models import ArgumentInfo

    if isinstance(info, ArgumentInfo):
        return f"`{name.upper()}`"
    flag = "--" + name.replace("_", "-")
    plain = next((part for part in get_args(kind) if part is not NoneType), kind)
    if plain is bool:  # a flag that names itself has no --no-...; typer keeps the name where a default would be
        return f"`{flag}`" if info.param_decls or str(info.default).startswith("--") else f"`{flag}`, `--no-{flag[2:]}`"
    return f"`{flag} {info.metavar or METAVARS[plain]}`"


def _words(text: str) -> str:
    """Prose of the terminal as Markdown: flags and words in angle brackets stay as they are."""
    return re.sub(r"(?<![`\w-])(--[a-z][\w-]*)", r"`\1`", text.replace("<", "&lt;"))


def _cell(text: str) -> str:
    return _words(" ".join(text.split())).replace("|", "\\|")


# ---- names -------------------------------------------------------------------------------


def names() -> str:
    """The public names of the packages, for mkdocstrings to fill in."""
    return "\n".join(
        f"## `{package}`\n\n" + "".join(f"::: {package}.{name}\n\n" for name in chosen or public(package))
        for package, chosen in PACKAGES.items()
    )


def public(package: str) -> list[str]:
    """What a package names in `__all__`, in order; of the errors all but the first, which is public elsewhere."""
    module = import_module(package)
    errors = [name for name, kind in vars(module).items() if isinstance(kind, type) and issubclass(kind, Exception)]
    return sorted(getattr(module, "__all__", errors[1:]), key=str.lower)

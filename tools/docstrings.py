"""How mkdocstrings reads this project's docstrings: a griffe extension, named in mkdocs.yml.

Here a parameter is told as `name: meaning` at the start of a line, and a field by the comment, or by the help text,
beside it. Both become what the site can show: a list, and a docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from typing import Any

import griffe

_COMMENT = re.compile(r"#\s+(.+)$")
_PARAMETER = re.compile(r"^(\*?\w+(?:, \w+)*): (?=\S)")


class HouseStyle(griffe.Extension):
    """Docstrings of fields, and parameters as lists."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """List the parameters that a docstring tells of; private ones are nobody's business."""
        for private in [one.name for one in func.parameters if one.name.startswith("_")]:
            del func.parameters[private]
        if func.docstring:
            func.docstring.value = listed(func.docstring.value, {one.name for one in func.parameters})

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Take the help of `Annotated[type, "help"]`, or the comment behind a field, for its docstring."""
        attr.labels -= {"class-attribute", "instance-attribute"}
        told = None
        if isinstance(attr.annotation, griffe.ExprSubscript) and str(attr.annotation.left) == "Annotated":
            kind, *more = attr.annotation.slice.elements  # type: ignore[union-attr]
            attr.annotation, told = kind, ast.literal_eval(str(more[0])) if str(more[0])[0] in "'\"" else None
        elif attr.annotation is not None and (comment := _COMMENT.search(attr.source)):
            told = f"{comment[1][0].upper()}{comment[1][1:]}."
        if told and not attr.docstring:
            attr.docstring = griffe.Docstring(told, parent=attr)


def listed(text: str, names: Collection[str]) -> str:
    """The docstring with its lines `name: meaning` as a list; those of other names, all private, are left out."""
    lines: list[str] = []
    inside = hidden = False
    for line in text.splitlines():
        match = _PARAMETER.match(line)
        known = match is not None and set(match[1].split(", ")) <= set(names)
        if match and (known or match[1].startswith("_")):
            hidden = not known
            if not inside:
                lines.append("")
            line, inside = f"- `{match[1].replace(', ', '`, `')}`: {line[match.end() :]}", True
        elif not line.strip():
            inside = hidden = False
        if not hidden:
            lines.append(line)
    return "\n".join(lines)

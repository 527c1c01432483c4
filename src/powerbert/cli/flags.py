"""Flags from dataclasses: a command's flags are the fields of the groups it takes.

A field is written `name: Annotated[type, "help"]` or `Annotated[type, "help", "METAVAR"]`, so that a flag
has one home, one meaning and one help text in every command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from types import UnionType
from typing import Annotated, Any, get_args, get_type_hints

import typer

from powerbert.cli.output import check_apart

ARGUMENT = "ARGUMENT"
"""In the place of a METAVAR: the field is given by its position, without a flag."""


def command(work: Callable[..., None], *groups: type) -> Callable[..., None]:
    """Make a typer command of `work`, which takes one instance of each group, in order.

    A flag that the user left out is left to the group's own default; a group refuses what it cannot be.
    """

    def run(**given: Any) -> None:
        values = [{field.name: given[field.name] for field in fields(group)} for group in groups]
        made = [group(**_given(flags)) for group, flags in zip(groups, values, strict=True)]
        check_apart({name: given[name] for name in paths if given[name] is not None})
        work(*made)

    parameters = [parameter for group in groups for parameter in _parameters(group)]
    paths = [parameter.name for parameter in parameters if _names_a_path(parameter)]
    parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    signature: Any = inspect.Signature(parameters)
    setattr(run, "__signature__", signature)  # noqa: B010 - typer reads what inspect sees
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__, run.__name__ = work.__doc__, work.__name__
    return run


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value is not None}


def _parameters(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    title = (group.__doc__ or "").splitlines()[0].rstrip(".").split(";")[0]
    return [_parameter(field, hints[field.name], title) for field in fields(group)]


def _parameter(field: Field[Any], hint: Any, panel: str) -> inspect.Parameter:
    """One keyword of the command; None stands for "not given"."""
    kind, text, *metavar = get_args(hint)
    plain = [part for part in get_args(kind) if part is not type(None)] if _is_union(kind) else [kind]
    required = field.default is MISSING
    if not required and not isinstance(field.default, bool | None) and "by default" not in text:
        text = f"{text} [{field.default}]"  # typer itself would show the None that stands for "not given"
    names = [f"--{field.name.replace('_', '-')}"] if field.default is False else []  # no --no-... of an off
    shown: dict[str, Any] = {"help": text, "show_default": False, "rich_help_panel": panel}
    if metavar == [ARGUMENT]:
        flag = typer.Argument(**shown)
    else:
        flag = typer.Option(*names, metavar=metavar[0] if metavar else None, **shown)
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if required else None,
        annotation=Annotated[plain[0] if required else plain[0] | None, flag],
    )


def _names_a_path(parameter: inspect.Parameter) -> bool:
    return get_args(parameter.annotation)[1].metavar in ("FILE", "FOLDER")


def _is_union(kind: Any) -> bool:
    return isinstance(kind, UnionType) or type(None) in get_args(kind)

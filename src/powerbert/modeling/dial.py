"""A dial: several retention configurations by the name of their budget, all served by one set of weights.

powerbert.json holds it as a list of {"budget": "2x", "retention": {...}}. Its configurations are fractions, so that
every budget reads inputs of the same length, and one exported graph can take any of them as an input that runs as
many encoders: an encoder that is left out would still be read.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from powerbert.errors import ModelFolderError, PowerBertError, RetentionError
from powerbert.folders.manifest import MANIFEST, SAVE_AGAIN, Manifest
from powerbert.retention import SCALE, RetentionConfiguration

MAX_BUDGETS, MAX_NAME = 16, 32

Dial = Mapping[str, RetentionConfiguration]


def check_dial(dial: Dial, own: RetentionConfiguration | None) -> None:
    """Refuse a dial that breaks a rule, or whose configurations do not fit the model with this one of its own."""
    if not dial:
        return
    if own is None:
        what, remedy = "a dial turns elimination, and the model has none", "call powerbert.apply first"
        raise RetentionError(what, got=sorted(map(str, dial)), remedy=remedy)
    if len(dial) > MAX_BUDGETS:
        raise RetentionError("the dial has too many budgets", got=len(dial), rule=f"at most {MAX_BUDGETS}")
    for name in dial:
        if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name.strip()) <= len(name) <= MAX_NAME:
            rule = f"text of at most {MAX_NAME} characters, such as 2x"
            raise RetentionError("a budget has a wrong name", got=name, rule=rule)
    for retention in (own, *dial.values()):
        if not isinstance(retention, RetentionConfiguration) or not retention.is_relative:
            remedy = "use RetentionConfiguration.relative"
            raise RetentionError("the configurations of a dial are fractions", got=retention, remedy=remedy)
        retention.check_encoders(len(own))


def dial_to_json(dial: Dial) -> list[dict[str, Any]]:
    """What powerbert.json says of a dial; `dial_in` reads it."""
    return [{"budget": name, "retention": retention.to_json()} for name, retention in dial.items()]


def dial_in(folder: Path, manifest: Manifest, own: RetentionConfiguration | None) -> dict[str, RetentionConfiguration]:
    """The dial that a manifest describes, checked against the model's own configuration; empty if there is none."""
    path, entries = folder / MANIFEST, manifest.dial
    if not isinstance(entries, list) or len(entries) > MAX_BUDGETS:
        raise ModelFolderError(f"{path} has an unknown dial", got=entries, remedy=SAVE_AGAIN)
    dial: dict[str, RetentionConfiguration] = {}
    for entry in entries:
        match entry:
            case {"budget": str(name), "retention": retention, **others} if name not in dial and not others:
                dial[name] = RetentionConfiguration.from_json(retention)
            case _:
                rule = 'each is {"budget": "2x", "retention": {...}}, with a name of its own'
                raise ModelFolderError(f"{path} has an unknown budget", got=entry, rule=rule, remedy=SAVE_AGAIN)
    check_dial(dial, own)
    return dial


def at_budget(dial: Dial, budget: object) -> RetentionConfiguration:
    """The configuration of a budget: by its name, or for a number such as 2x the mildest that saves as much."""
    if not dial:
        what, remedy = "the model has no dial, so no budget can be chosen", "leave budget out"
        raise PowerBertError(what, got=budget, remedy=remedy)
    if isinstance(budget, str) and budget in dial:
        return dial[budget]
    if isinstance(budget, str) and re.fullmatch(r"[1-9][0-9]{0,2}(\.[0-9]{1,3})?x", budget):
        mildest_first = sorted(dial.values(), key=lambda each: -sum(each.fractions))
        for each in mildest_first:
            if sum(each.fractions) * float(budget[:-1]) <= len(each):
                return each
    rule = f"the model has {', '.join(dial)}, and serves any smaller number of times, such as 1.5x"
    raise PowerBertError("unknown budget", got=budget, rule=rule)


def covering(configurations: Sequence[RetentionConfiguration]) -> RetentionConfiguration:
    """A configuration of as many encoders that eliminates at every one at which one of these does.

    Its values mean nothing else: a graph that takes its configuration as an input is planned by them.
    """
    table = [(SCALE, *retention.running.values) for retention in configurations]
    falls = [any(after < before for before, after in pairs) for pairs in zip(*map(pairwise, table), strict=True)]
    values = [SCALE - sum(falls[: j + 1]) for j in range(len(falls))]
    return RetentionConfiguration((*values, *[0] * (len(configurations[0]) - len(values))))


def by_depth(own: RetentionConfiguration | None, dial: Dial) -> dict[int, list[RetentionConfiguration]]:
    """The configurations of a dial, and the model's own first, by the encoders that they run; none without a dial."""
    check_dial(dial, own)
    groups: dict[int, list[RetentionConfiguration]] = {}
    for retention in dict.fromkeys([own, *dial.values()]) if dial else ():
        assert retention is not None  # or the dial were refused
        groups.setdefault(retention.depth, []).append(retention)
    return groups

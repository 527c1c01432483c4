"""Does a longer re-training of the ladder keep more? Points lost and KL of every rung, for each cost.

    python benchmarks/ladder_cost.py --model ../shared/models/gte-small --data ../shared/data --task MRPC --rows 2500 \\
        --judged 1576 --costs 2,4 --output RUNS

The frame is that of `ways.py`, and so is the fine-tuned model in RUNS. Everything resumes: run the same command again.
"""

from __future__ import annotations

import json
from typing import Any

import numpy
from ways import arguments, prepared, shown

from powerbert.training import RetrainOptions, retrain
from powerbert.training.ladder import all_rungs
from powerbert.training.shapes import work


def main() -> None:
    """Re-train once for each cost, and judge every rung."""
    given = arguments(__doc__, (), {"--costs": {"default": "2,4", "help": "epochs of fine-tuning, with commas"}})
    study = prepared(given)
    study.start(given.model)
    results = given.output / "ladder_cost.json"
    done: dict[str, Any] = json.loads(results.read_text()) if results.is_file() else {}
    rungs = all_rungs(study.encoders)
    mean = float(numpy.mean([work(each.fractions) for each in rungs]))
    for cost in map(float, given.costs.split(",")):
        options = RetrainOptions(epochs=round(cost / mean, 2), **study.common)
        more: dict[str, Any] = {"retention": rungs[len(rungs) // 2], "ladder": rungs, "progress": True}
        folder = retrain(study.fine, study.data, study.root / f"ladder-{cost}", options, **more).folder
        for each in rungs:
            name = f"{cost} {work(each.fractions):.2f}"
            if name not in done:
                done[name] = study.figures(name, folder, each)
                results.write_text(json.dumps(done, indent=1) + "\n")
            print(shown(done[name]), flush=True)


if __name__ == "__main__":
    main()

"""Compare each budget of one folder's dial with a model that was re-trained for that budget alone, at the same cost.

    python benchmarks/dial.py --model ../shared/models/gte-small --data ../shared/data --task SST-2 --rows 6000 \\
        --judged 5000 --output RUNS

The frame is that of `ways.py`, and so is the fine-tuned model in RUNS. Everything resumes: run the same command again.
"""

from __future__ import annotations

import json

from ways import arguments, ladder, prepared, shown

from powerbert.machine.describe import machine
from powerbert.training.ladder import rung

BUDGETS = (0.7, 0.6, 0.52, 0.45, 0.39)


def main() -> None:
    """Judge both at each budget, and write what was found."""
    given = arguments(__doc__, ())
    study = prepared(given)
    study.start(given.model)
    results = given.output / "dial.json"
    done = json.loads(results.read_text()) if results.is_file() else {"machine": machine(), "budgets": {}}
    dial = ladder(study)
    for budget in BUDGETS:
        retention = rung(study.encoders, budget)
        if str(budget) not in done["budgets"]:
            alone = study.retrained(f"alone-{budget}", retention, study.cost)
            found = {"dial": study.figures("dial", dial, retention), "alone": study.figures("alone", alone)}
            done["budgets"][str(budget)] = found
            results.write_text(json.dumps(done, indent=1) + "\n")
        for row in done["budgets"][str(budget)].values():
            print(shown(row), flush=True)


if __name__ == "__main__":
    main()

"""Compare depths at one time of a single text: more encoders that read fewer words, or fewer that read more.

    python benchmarks/depth.py --model MODEL --data reviews.csv --rows 3000 --judged 5000 --output RUNS

What an encoder costs is measured in the fastest engine here, for one text of 128 word-vectors. For each stated speed
every depth gets the largest budget that is as fast, and is re-trained for it alone at one cost. The frame is that of
`ways.py`, and so is the fine-tuned model in RUNS. Everything resumes: run the same command again.
"""

from __future__ import annotations

import json
from functools import partial

from ways import Study, arguments, prepared, shown

from powerbert.acceleration.choose import budget_for
from powerbert.acceleration.cost import CostTable, measure_costs
from powerbert.machine.describe import machine
from powerbert.modeling.storage import load
from powerbert.retention import RetentionConfiguration
from powerbert.training.ladder import depth_of, least_budget, rung

LENGTH = 128  # word-vectors of the text that is timed
SCALED_BY = ["a text from which int8 takes its scales"] * 4  # speed does not depend on them


def shapes(study: Study, costs: CostTable, speed: float, most: int) -> dict[int, RetentionConfiguration]:
    """The mildest rung of each depth, up to `most`, that is so many times as fast as the full model by the table."""

    def seconds(depth: int, budget: float) -> float:
        return costs.seconds(rung(study.encoders, budget, depth), [LENGTH])

    limit, found = costs.seconds(RetentionConfiguration.full(study.encoders), [LENGTH]) / speed, {}
    for depth in range(most, study.encoders // 3 - 1, -1):
        budget = budget_for(partial(seconds, depth), limit, least_budget(study.encoders, depth))
        if budget is not None:
            found[depth] = rung(study.encoders, budget, depth)
            if budget == 1.0:  # all words: a shallower one would only be faster
                break
    return found


def main() -> None:
    """Judge every depth at each speed, and write what was found."""
    more = {"--speeds": {"default": "2,2.5,3"}, "--deepest": {"type": int, "help": "most encoders; three quarters"}}
    given = arguments(__doc__, (), more)
    study = prepared(given)
    study.start(given.model)
    results = given.output / "depth.json"
    done = json.loads(results.read_text()) if results.is_file() else {"machine": machine(), "speeds": {}}
    if "costs" not in done:
        tokenizer = load(given.model)[1]  # that of the fine-tuned model cuts at the N of the task
        done["costs"] = measure_costs(load(study.fine)[0], tokenizer, LENGTH, 1, SCALED_BY)
        results.write_text(json.dumps(done, indent=1) + "\n")
    costs = CostTable.from_json(done["costs"])
    most = given.deepest or depth_of(study.encoders)
    for speed in map(float, given.speeds.split(",")):
        rows = done["speeds"].setdefault(str(speed), {})
        for depth, retention in shapes(study, costs, speed, most).items():
            if str(depth) not in rows:
                folder = study.retrained(f"{speed}-{depth}", retention, study.cost)
                rows[str(depth)] = study.figures(f"{speed} times, {depth} encoders", folder)
                results.write_text(json.dumps(done, indent=1) + "\n")
            print(shown(rows[str(depth)]), flush=True)


if __name__ == "__main__":
    main()

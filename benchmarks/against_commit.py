"""Compare the speed of two trees of this project, such as a commit checked out elsewhere and this one.

    git worktree add ../before COMMIT
    python benchmarks/against_commit.py --old ../before/src --new src --threads 2 --json against.json

Two workers hold the same random weights, one per tree, and run the same batches in turn. A figure is the
median over the rounds of the time of the old tree by that of the new one within a round: above 1 the new
tree is faster. Wall and CPU time; `--graphs onnx,openvino` also exports and runs graphs in both.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = {"bert-base": {}, "gte-small": {"hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}}
PAPER = (80, 73, 70, 50, 50, 40, 33, 27, 20, 15, 13, 3)
"""The paper's retention configuration for N=128; here as fractions of each input's own length."""
SHAPES = {
    "1x16": [16],
    "1x128": [128],
    "8x128": [128] * 8,
    "16x128": [128] * 16,
    "8x512": [512] * 8,
    "mixed": [7, 9, 12, 12, 14, 17, 19, 21, 21, 24, 26, 29, 33, 38, 47, 63],
}
TRAINED = "16x128"


# ---- a worker: one tree ----------------------------------------------------------------------


class Bench:
    """The models of one size in one tree."""

    def __init__(self, size: str) -> None:
        import copy

        import torch
        from tokenizers import Tokenizer
        from tokenizers.models import WordLevel
        from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

        import powerbert

        torch.manual_seed(0)
        full = BertForSequenceClassification(BertConfig(**SIZES[size])).eval()
        shared = {id(each): each for each in full.parameters()}
        eliminated = copy.deepcopy(full, shared)
        fractions = [count / 128 for count in PAPER]
        powerbert.apply(eliminated, powerbert.RetentionConfiguration.relative(fractions))
        self.models = {"full": full, "eliminated": eliminated}
        words = Tokenizer(WordLevel({"[PAD]": 0, "[UNK]": 1, "word": 2}, unk_token="[UNK]"))
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=words, model_max_length=512, pad_token="[PAD]", unk_token="[UNK]"
        )
        self.engines: dict[tuple[str, str], Any] = {}

    def engine(self, name: str, model: str) -> Any:
        """An engine of the tree, opened once."""
        if (name, model) not in self.engines:
            if name == "torch":
                engine = _found("engines.torch_engine.TorchEngine")(self.models[model], self.tokenizer)
            else:
                folder = Path(tempfile.mkdtemp()) / name
                export = _found("export.write.export", "engines.export.export")
                export(self.models[model], self.tokenizer, folder, name, "fp32")
                engines = _found("engines.open.ENGINES", "engines.registry.ENGINES")
                engine = engines[name].load(folder, None, int(os.environ["OMP_NUM_THREADS"]))
            self.engines[name, model] = engine
        return self.engines[name, model]

    def work(self, engine: str, model: str, shape: str) -> Callable[[], Any]:
        """What is timed."""
        import numpy as np
        import torch

        lengths = SHAPES[shape]
        ids = np.random.default_rng(0).integers(1000, 30000, (len(lengths), max(lengths)))
        mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
        batch = {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": 0 * mask}
        if engine != "training step":
            opened = self.engine(engine, model)
            return lambda: opened.run(batch)
        learner = self.models[model].train()
        inputs = {name: torch.from_numpy(rows) for name, rows in batch.items()}
        labels = torch.zeros(len(lengths), dtype=torch.long)

        def step() -> None:
            learner.zero_grad()
            learner(**inputs, labels=labels).loss.backward()

        return step


def _found(*places: str) -> Any:
    """The first of these names that the tree has."""
    for place in places:
        module, name = f"powerbert.{place}".rsplit(".", 1)
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            continue
    raise SystemExit(f"the tree has none of {places}")


def work() -> None:
    """Answer the parent's questions, a line each, until it closes the pipe."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    answers, sys.stdout = sys.stdout, sys.stderr
    size, bench, ready = "", None, {}
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["size"] != size:
            bench, ready, size = Bench(asked["size"]), {}, asked["size"]
        case = asked["engine"], asked["model"], asked["shape"]
        if case not in ready:
            ready[case] = bench.work(*case)
            ready[case]()
        ready[case]()  # untimed: the first call after another arm pays for that arm's memory
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(asked["times"]):
            ready[case]()
        times = time.perf_counter() - wall, time.process_time() - cpu
        print(json.dumps([each / asked["times"] for each in times]), file=answers, flush=True)


# ---- the parent: both trees in turn ----------------------------------------------------------


class Tree:
    """A worker on one tree."""

    def __init__(self, source: str, threads: int) -> None:
        environment = os.environ | {"PYTHONPATH": str(Path(source).resolve()), "OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, __file__, "--worker"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, **case: Any) -> tuple[float, float]:
        """Wall and CPU seconds of one call."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("a worker died")
        wall, cpu = json.loads(answer)
        return wall, cpu


def compare(trees: dict[str, Tree], case: dict[str, Any], rounds: int, seconds: float) -> dict[str, Any]:
    """One line of the table."""
    once = max(tree.ask(**case, times=1)[0] for tree in trees.values())
    times = max(1, round(seconds / once))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in trees}
    for turn in range(rounds):
        for name in sorted(trees, reverse=bool(turn % 2)):
            found[name].append(trees[name].ask(**case, times=times))
    row: dict[str, Any] = dict(case)
    for i, kind in enumerate(("wall", "cpu")):
        ratios = [old[i] / new[i] for old, new in zip(found["old"], found["new"], strict=True)]
        low, middle, high = statistics.quantiles(ratios)
        row |= {kind: middle, f"{kind}_quartiles": [low, high]}
        row |= {f"{name}_{kind}_ms": 1e3 * statistics.median(t[i] for t in found[name]) for name in trees}
    return row


def cases(sizes: list[str], shapes: list[str], graphs: list[str]) -> list[dict[str, str]]:
    """What is compared, in order."""
    return [
        {"size": size, "engine": engine, "model": model, "shape": shape}
        for size in sizes
        for engine in ("torch", *graphs, "training step")
        for shape in (shapes if engine != "training step" else [TRAINED])
        for model in ("full", "eliminated")
    ]


def main() -> None:
    """Print the table; write the figures."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--old", help="folder `src` of the old tree")
    parser.add_argument("--new", default="src", help="folder `src` of the new tree")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--graphs", default="", help="onnx, openvino or both")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.2, help="about how long a turn takes")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", help="also write the figures to this file")
    given = parser.parse_args()
    if given.worker:
        return work()
    if given.old is None:
        parser.error("give --old")
    trees = {name: Tree(getattr(given, name), given.threads) for name in ("old", "new")}
    asked = [[each for each in part.split(",") if each] for part in (given.sizes, given.shapes, given.graphs)]
    rows = []
    print(f"{'':<46}{'old ms':>10}{'new ms':>10}{'wall':>8}{'CPU':>8}{'quartiles of CPU':>20}")
    for case in cases(*asked):
        row = compare(trees, case, given.rounds, given.seconds)
        low, high = row["cpu_quartiles"]
        print(
            f"{' '.join(case.values()):<46}{row['old_wall_ms']:>10.2f}{row['new_wall_ms']:>10.2f}"
            f"{row['wall']:>8.3f}{row['cpu']:>8.3f}{low:>12.3f}{high:>8.3f}",
            flush=True,
        )
        rows.append(row)
    if given.json:
        Path(given.json).write_text(json.dumps({"options": vars(given), "rows": rows}, indent=2) + "\n")
    return None


if __name__ == "__main__":
    main()

"""Train a CrossEncoder on real pairs, accelerate it without labels, and rank 32 long candidates with both.

    python benchmarks/reranker.py --model ../shared/models/gte-small --data ../shared/data --output RUNS

Pairs: of QNLI a question and a sentence, which answers it or not; of RACE a question with its right option and an
article: its own, one that shares many of its words, or any other. RACE's dev set judges: a question with its right
option ranks its own article among the 31 others that share most of its words, each of `--least` word pieces or more. No
article of it was trained on. The unpruned CrossEncoder runs in every backend of sentence-transformers, in the Python of
`--theirs`: a venv of its own with `sentence-transformers[onnx,openvino]` has optimum, and a transformers that it knows.
Beside it stands our own export in the same runtimes and precisions; all arms answer the same queries in turn.
MRR is that of the accelerated model, of the fastest arm of the full one, and of its fastest in fp32. A part is drawn
with the seed. Everything resumes: run the same command again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import os
import random
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import cycle
from math import fsum, log
from pathlib import Path
from typing import Any, NamedTuple

import torch

import powerbert
from powerbert.engines.open import open_engine
from powerbert.engines.reranker import Reranker
from powerbert.export.write import PRECISIONS, export
from powerbert.folders.atomic import write_file
from powerbert.machine.describe import machine
from powerbert.machine.measure import interleave, p95, ratio
from powerbert.modeling.storage import load
from powerbert.tasks.encoding import question_and_option
from powerbert.training.options import AccelerateOptions

Pair = tuple[str, str]
Ranks = Callable[[str, list[str]], list[int]]
"""(query, documents) -> the documents from the best on."""


class Question(NamedTuple):
    """A query, its candidates, and which of them is right."""

    query: str
    documents: list[str]
    right: int


def main() -> None:
    """Train, accelerate, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="pretrained encoder")
    parser.add_argument("--data", type=Path, required=True, help="folder with QNLI and RACE")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--qnli", type=int, default=4_000, help="pairs of QNLI to train on")
    parser.add_argument("--race", type=int, default=1_000, help="questions of RACE to train on, three pairs each")
    parser.add_argument("--max-length", type=int, default=512)
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--retraining-epochs", type=float, default=2.0)
    parser.add_argument("--max-disagreement", default="5%")
    parser.add_argument("--queries", type=int, default=300, help="that MRR is taken of")
    parser.add_argument("--timed", type=int, default=60, help="queries that every arm is timed with")
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--least", type=int, default=256, help="word pieces of a candidate")
    parser.add_argument("--budgets", default="", help="more arms: budgets of the accelerated folder's dial, 2x,2.5x")
    parser.add_argument("--theirs", default=sys.executable, help="a Python with sentence-transformers and optimum")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("powerbert").setLevel(logging.INFO)  # not the root: exporters tell every node
    asked.output.mkdir(parents=True, exist_ok=True)
    full, fast = asked.output / "full", asked.output / "fast"
    parts = training_pairs(asked)
    if not full.exists():
        train(asked, parts, full)
    pairs = [pair for part in parts.values() for pair in part]
    random.Random(asked.seed).shuffle(pairs)
    texts = asked.output / "pairs.jsonl"
    lines = (json.dumps({"query": query, "passage": passage}) for (query, passage), _ in pairs)
    write_file(texts, "\n".join(lines).encode())
    report = powerbert.accelerate(
        *(full, fast),
        texts=texts,
        text="query",
        text_pair="passage",
        max_disagreement=asked.max_disagreement,
        max_length=asked.max_length,
        options=AccelerateOptions(seed=asked.seed, retraining_epochs=asked.retraining_epochs),
        progress=True,
    )
    figures = compared(asked, full, fast, [pair for pair, _ in pairs[:256]])
    figures |= {"options": {name: str(value) for name, value in vars(asked).items()}, "machine": machine()}
    figures |= {"pairs": len(pairs), "verdict": report["verdict"]["text"], "threads": torch.get_num_threads()}
    write_file(asked.output / "reranker.json", json.dumps(figures, indent=1).encode())
    print(json.dumps(figures, indent=1))


def rows_of(path: Path) -> list[dict[str, Any]]:
    """All rows of a file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def training_pairs(asked: argparse.Namespace) -> dict[str, list[tuple[Pair, float]]]:
    """Pairs and whether the second text answers the first, by where they are from."""
    draw, found = random.Random(asked.seed), {"qnli": [], "race": []}
    qnli, race = (rows_of(asked.data / name / "train.jsonl.gz") for name in ("QNLI", "RACE"))
    for row in draw.sample(qnli, min(asked.qnli, len(qnli))):
        found["qnli"].append(((row["text_a"], row["text_b"]), float(row["label"] == 0)))
    some = draw.sample(race, min(asked.race, len(race)))
    shared = SharedWords(dict.fromkeys(row["article"] for row in some))
    for row in some:
        query, own = question_of(row), row["article"]
        near = draw.choice(shared.most(query, own, asked.candidates - 1))
        others = (own, 1.0), (near, 0.0), (draw.choice(race)["article"], 0.0)
        found["race"] += [((query, article), label) for article, label in others]
    return {name: pairs for name, pairs in found.items() if pairs}


def question_of(row: dict[str, Any]) -> str:
    """A question of RACE with its right option."""
    return question_and_option(row["question"], row["options"][row["answer"]])


class SharedWords:
    """Articles by the words that they share with a query, rare ones before common ones."""

    def __init__(self, articles: Iterable[str]) -> None:
        self.articles = list(articles)
        self.words = [{*article.lower().split()} for article in self.articles]
        self.known = Counter(word for own in self.words for word in own)

    def most(self, query: str, own: str, count: int) -> list[str]:
        """So many articles, but for its own, that share most with it."""
        asks, of = {*query.lower().split()}, len(self.articles)
        # fsum does not depend on the order of a set, which is another in every process.
        shared = [fsum(log(of / self.known[word]) for word in asks & each) for each in self.words]
        order = sorted(range(of), key=lambda i: -shared[i])
        return [self.articles[i] for i in order if self.articles[i] != own][:count]


def train(asked: argparse.Namespace, parts: dict[str, list[tuple[Pair, float]]], folder: Path) -> None:
    """Train with sentence-transformers, as its documentation does; a batch is of one source, so of like lengths."""
    from datasets import Dataset
    from sentence_transformers.cross_encoder import (
        CrossEncoder,
        CrossEncoderTrainer,
        CrossEncoderTrainingArguments,
        losses,
    )

    model = CrossEncoder(str(asked.model), num_labels=1, max_length=asked.max_length, device="cpu")
    arguments = CrossEncoderTrainingArguments(
        output_dir=str(asked.output / "training"),
        num_train_epochs=asked.epochs,
        per_device_train_batch_size=asked.batch_size,
        learning_rate=3e-5,
        warmup_steps=0.1,
        seed=asked.seed,
        save_strategy="no",
        report_to="none",
    )
    rows = {
        name: Dataset.from_list([{"query": one, "passage": two, "label": label} for (one, two), label in pairs])
        for name, pairs in parts.items()
    }
    CrossEncoderTrainer(
        model=model, args=arguments, train_dataset=rows, loss=losses.BinaryCrossEntropyLoss(model)
    ).train()
    model.save_pretrained(str(folder))


def questions(asked: argparse.Namespace, tokenizer: Any) -> list[Question]:
    """Questions of RACE's dev set with their own article among those that share most of their words."""
    rows = rows_of(asked.data / "RACE" / "dev.jsonl.gz")
    random.Random(asked.seed).shuffle(rows)
    articles = dict.fromkeys(row["article"] for row in rows)
    articles = {each: None for each in articles if len(tokenizer(each)["input_ids"]) >= asked.least}
    shared, found = SharedWords(articles), []
    for row in rows:
        if row["article"] in articles and len(found) < asked.queries:
            query, own = question_of(row), row["article"]
            chosen = [own, *shared.most(query, own, asked.candidates - 1)]
            random.Random(query).shuffle(chosen)
            found.append(Question(query, chosen, chosen.index(own)))
    return found


def compared(asked: argparse.Namespace, full: Path, fast: Path, scaling: list[Pair]) -> dict[str, Any]:
    """MRR of both models, and the time of one query in every arm, in turn in one run."""
    asks = questions(asked, load(full)[1])
    own = {"fast": opened(asked, fast)}
    own |= {f"fast at {budget}": opened(asked, fast, budget) for budget in asked.budgets.split(",") if budget}
    arms: dict[str, Ranks] = dict(own)
    left_out = {}
    for name, opening in backends(asked, full, scaling).items():
        try:
            arms[name] = opening()
        except Exception as error:  # whatever an optional backend raises is its figure
            left_out[name] = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    turns = {name: cycle(asks) for name in arms}
    timings = interleave({name: partial(one, arm, turns[name]) for name, arm in arms.items()}, asked.timed)
    rows = [
        {"arm": name, "p50_ms": 1e3 * statistics.median(each.wall), "p95_ms": 1e3 * p95(each.wall)}
        | {one: ratio(each, timings[one]) for one in own}  # times as fast as this arm
        for name, each in timings.items()
    ]
    rows.sort(key=lambda row: row["p50_ms"])
    full_arms = [row["arm"] for row in rows if row["arm"] not in own]
    judged = [*own, full_arms[0], next(name for name in full_arms if name.endswith("fp32"))]
    ranks = {name: reciprocal_ranks(arms[name], asks) for name in dict.fromkeys(judged)}
    lost = {
        one: {name: lost_points(found, ranks[one]) for name, found in ranks.items() if name not in own} for one in own
    }
    mrr = {name: statistics.mean(found) for name, found in ranks.items()}
    versions = next((arm.versions for arm in arms.values() if isinstance(arm, Theirs)), None)
    found = {"mrr": mrr, "points_lost_against": lost, "queries": len(asks), "arms": rows, "left_out": left_out}
    return found | {"theirs": versions}


def lost_points(full: list[float], fast: list[float], draws: int = 10_000) -> dict[str, float]:
    """Points of MRR that the accelerated model lacks, query by query, with an interval of 95 % over drawn queries."""
    apart = [100 * (one - other) for one, other in zip(full, fast, strict=True)]
    draw = random.Random(0)
    means = sorted(statistics.fmean(draw.choices(apart, k=len(apart))) for _ in range(draws))
    return {"mean": statistics.fmean(apart), "low": means[draws // 40], "high": means[-draws // 40]}


def backends(asked: argparse.Namespace, full: Path, scaling: list[Pair]) -> dict[str, Callable[[], Ranks]]:
    """How the unpruned model opens: as sentence-transformers runs it, and in the engines of this project."""
    theirs = [("torch", "fp32"), ("onnx", "fp32"), ("onnx", "int8"), ("openvino", "fp32"), ("openvino", "int8")]
    ours = [(engine, each) for engine in PRECISIONS for each in ("fp32", "int8") if find_spec("onnx")]
    return {
        f"sentence-transformers {engine} {each}": partial(Theirs, asked, full, engine, each, scaling)
        for engine, each in theirs
    } | {
        f"full in powerbert {engine} {each}": partial(ours_in, asked, full, engine, each, scaling)
        for engine, each in ours
    }


class Theirs:
    """A backend of sentence-transformers in a process of its own, which may be another Python."""

    def __init__(
        self, asked: argparse.Namespace, full: Path, backend: str, precision: str, scaling: list[Pair]
    ) -> None:
        home, texts = asked.output / f"sentence-transformers-{backend}-{precision}", asked.output / "calibration"
        texts.mkdir(exist_ok=True)
        lines = (json.dumps({"text": " ".join(pair)}) for pair in scaling)
        write_file(texts / "train.jsonl", "\n".join(lines).encode())
        given = [full, backend, precision, asked.max_length, home, texts]
        command = [asked.theirs, Path(__file__).with_name("reranker_theirs.py"), *given]
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.log = home.with_suffix(".log")
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.log.open("w")}
        self.child = subprocess.Popen([str(each) for each in command], text=True, env=own, **pipes)
        self.versions = self.heard()

    def __call__(self, query: str, documents: list[str]) -> list[int]:
        """The documents from the best on."""
        self.child.stdin.write(json.dumps([query, documents]) + "\n")
        self.child.stdin.flush()
        return self.heard()

    def heard(self) -> Any:
        """What the child says next; what it died of, if it is dead."""
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError(self.log.read_text().strip().rpartition("\n")[2])
        return json.loads(line)


def ours_in(asked: argparse.Namespace, full: Path, engine: str, precision: str, scaling: list[Pair]) -> Ranks:
    """An export of the full model."""
    folder, (model, tokenizer) = asked.output / f"full-{engine}-{precision}", load(full)
    tokenizer.model_max_length = asked.max_length  # sentence-transformers keeps it elsewhere
    if not folder.exists():
        export(model, tokenizer, folder, engine, precision, calibration=scaling)
    return opened(asked, folder)


def opened(asked: argparse.Namespace, folder: Path, budget: str | None = None) -> Ranks:
    """A folder of ours in its engine, on as many threads as torch has, cut where the others are."""
    engine = open_engine(folder, threads=torch.get_num_threads()).at(budget)
    assert engine.limits.longest == asked.max_length
    reranker = Reranker(engine)
    return lambda query, documents: [row["corpus_id"] for row in reranker.rank(query, documents)]


def one(arm: Ranks, turn: Iterator[Question]) -> None:
    """Rank the candidates of the next query."""
    ask = next(turn)
    arm(ask.query, ask.documents)


def reciprocal_ranks(arm: Ranks, asks: list[Question]) -> list[float]:
    """One over the rank of the right candidate, of each query."""
    order = (arm(ask.query, ask.documents) for ask in asks)
    return [1 / (1 + ranked.index(ask.right)) for ask, ranked in zip(asks, order, strict=True)]


if __name__ == "__main__":
    main()

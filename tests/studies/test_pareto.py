"""Metric against time: what is measured, how it is compared, and that it is not done twice."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace

import numpy
import pytest
from datasets import Dataset
from model_folders import refusal
from pareto_runs import PLAN, SHORT
from runs import small_data

import powerbert
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.studies import pareto as module
from powerbert.studies.contenders import IN_STUDENT, METHODS, OURS
from powerbert.studies.pareto import Opened, ParetoPlan, compared, pareto
from powerbert.tasks.readers import read_splits
from powerbert.tasks.registry import find_task
from powerbert.training import Data, Options, RetrainOptions

OPTIONS = {"fine_tuning": Options(**SHORT), "options": RetrainOptions(**SHORT)}


def test_every_point_has_its_metric_its_work_and_its_time(compared_tiny):
    root, figures, _ = compared_tiny
    points = figures["points"]
    assert [*dict.fromkeys(point["method"] for point in points)] == ["fine-tuned", *METHODS]
    assert json.loads((root / "out" / "pareto.json").read_text()) == json.loads(json.dumps(figures))
    for point in points:
        assert point["mean"] == statistics.mean(point["values"])
        assert point["ms"] > 0
        assert 0 < point["work"] <= 1
    works = {point["method"]: point["work"] for point in points}
    assert works["fine-tuned"] == works["Head-Prune"] == 1
    assert works["first encoders"] == works["DistilBERT"] == works["BERT-PKD skip"] == 0.5
    assert works[IN_STUDENT] < 0.5
    assert 0.5 < works["truncation"] < 0.8
    assert works[OURS] == works["Head-WS"] == works["Rand-WS"] == pytest.approx(0.7, abs=0.05)


def test_the_metric_is_what_the_folder_answers(compared_tiny):
    _, figures, trainings = compared_tiny
    dev = small_data(32).splits["dev"].dataset
    for method in (OURS, "Head-Prune", "truncation"):
        for one in trainings.of(method):
            said = powerbert.pipeline(one.folder)(dev["text"][:], **({"budget": one.budget} if one.budget else {}))
            right = [
                answer["label"] == ("no", "yes")[label] for answer, label in zip(said, dev["label"][:], strict=True)
            ]
            (point,) = [p for p in figures["points"] if (p["method"], p["point"]) == (method, one.point)]
            assert point["values"] == [pytest.approx(statistics.mean(right))]


def test_the_same_call_does_nothing_and_more_seeds_go_on(compared_tiny, monkeypatch):
    root, figures, _ = compared_tiny
    monkeypatch.setattr(module, "measured", None)  # nothing is measured again
    again = pareto(root / "encoder", small_data(32), root / "out", PLAN, **OPTIONS)
    assert again == json.loads(json.dumps(figures))
    monkeypatch.undo()
    trained = {path.name: path.stat().st_mtime_ns for path in (root / "out" / "seed-0").glob("*/model.safetensors")}
    plan = replace(PLAN, methods=(OURS,), seeds=(0, 1))
    both = pareto(root / "encoder", small_data(32), root / "out", plan, **OPTIONS)
    assert {len(point["values"]) for point in both["points"]} == {2}
    assert (root / "out" / "seed-1" / "attn-ws").is_dir()
    assert trained == {
        path.name: path.stat().st_mtime_ns for path in (root / "out" / "seed-0").glob("*/model.safetensors")
    }


def point(method, ms, mean, precision="fp32"):
    return {"method": method, "point": f"{ms}", "engine": "torch", "precision": precision, "ms": ms, "mean": mean}


def test_we_are_compared_at_equal_time_and_at_equal_metric():
    """Oracle: by hand."""
    points = [point("fine-tuned", 10, 0.9), point(OURS, 4, 0.8), point(OURS, 6, 0.85), point(IN_STUDENT, 2, 0.7)]
    points += [point("DistilBERT", 5, 0.75), point("DistilBERT", 3, 0.65), point("Head-Prune", 8, 0.88)]
    points += [point(OURS, 1, 0.99, "int8")]
    rows = {(len(row["ours"]), row["method"], row["point"]): (row["ahead"], row["faster"]) for row in compared(points)}
    assert rows == {
        (1, "DistilBERT", "5"): (pytest.approx(0.05), 5 / 4),
        (1, "DistilBERT", "3"): (None, 3 / 4),
        (1, "Head-Prune", "8"): (pytest.approx(-0.03), None),
        (2, "DistilBERT", "5"): (pytest.approx(0.05), 5 / 4),
        (2, "DistilBERT", "3"): (pytest.approx(0.05), 3 / 2),
        (2, "Head-Prune", "8"): (pytest.approx(-0.03), None),
    }


def test_a_graph_is_exported_once_and_answers_every_budget(compared_tiny, tmp_path):
    _, _, trainings = compared_tiny
    texts = small_data(32).splits["train"].dataset["text"][:8]
    ours = trainings.of(IN_STUDENT)
    opened = {name: Opened(tmp_path, name, "fp32", texts, 1) for name in ("torch", "onnx")}
    for one in ours:
        engines = {name: each.engine(one) for name, each in opened.items()}
        batch = {name: numpy.array([[2, 9, 8, 30, 31, 3], [2, 7, 9, 3, 0, 0]]) for name in ("input_ids",)}
        batch["attention_mask"] = (batch["input_ids"] > 0).astype(int)
        numpy.testing.assert_allclose(*(each.run(batch).logits for each in engines.values()), atol=1e-4)
    assert [path.name for path in tmp_path.iterdir()] == [f"{ours[0].folder.name}-onnx-fp32"]


def test_bad_input_is_one_line(tmp_path):
    assert "one of PoWER-BERT" in refusal(PowerBertError, lambda: ParetoPlan(methods=("magic",)))
    for wrong in ({"seeds": ()}, {"seeds": (1, 1)}, {"inputs": 0}, {"rounds": 0}):
        refusal(PowerBertError, lambda wrong=wrong: ParetoPlan(**wrong))
    row = {"article": "a film", "question": "is it good", "options": list("abcd"), "answer": "A"}
    rows = Dataset.from_list([row, row | {"answer": "B"}])
    data = Data.of(*read_splits({"train": rows, "dev": rows}, find_task("RACE")))
    assert "sequence classifiers" in refusal(UnsupportedModelError, lambda: pareto(tmp_path, data, tmp_path / "out"))

"""`accelerate` from end to end on a tiny model; oracles: what the folder answers, and the rows held back."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace

import numpy
import pytest
import torch
from datasets import Dataset
from models import tiny
from runs import BAD, FILLER, GOOD
from texts import tokenizer_for

import powerbert
from powerbert.acceleration import cost, engine, recipe
from powerbert.acceleration.engine import Fastest
from powerbert.acceleration.goal import Goal
from powerbert.acceleration.judge import compare, pronounce
from powerbert.acceleration.parts import divide, parts_of_texts
from powerbert.acceleration.recipe import REPORT, REPORT_PAGE, run_acceleration
from powerbert.engines.answers import answer
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.export.write import export
from powerbert.modeling.apply import retention_of
from powerbert.tasks.readers import read_splits
from powerbert.tasks.registry import own_task
from powerbert.training.options import AccelerateOptions
from powerbert.training.shapes import work

FAST = AccelerateOptions(epochs=2, retraining_epochs=1, batch_size=16, accumulation=1, learning_rate=3e-3)


def sentences(rows: int, seed: int) -> Dataset:
    """Sentences whose one telling word decides the label."""
    draw, made = random.Random(seed), []
    for i in range(rows):
        words = draw.choices(FILLER, k=draw.randint(2, 12))
        words.insert(draw.randrange(len(words)), draw.choice(GOOD if i % 2 else BAD))
        made.append({"text": " ".join(words), "label": "yes" if i % 2 else "no"})
    return Dataset.from_list(made)


def labelled(rows: int = 160):
    task, splits = read_splits({"train": sentences(rows, 0), "dev": sentences(120, 1)}, own_task("text"))
    return divide(task, splits, None)


@pytest.fixture(scope="module", autouse=True)
def _few_engines():
    """Torch and ONNX Runtime alone, and costs measured in torch: tracing and quantising take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "installed", lambda: ["torch", "onnx"])
        patch.setattr(cost, "fastest", lambda verdicts: None)
        yield


@pytest.fixture(scope="module")
def fast(tmp_path_factory, _few_engines):
    """An encoder without a head, made faster within a goal that any classifier keeps, where int8 is the fastest."""
    home, real = tmp_path_factory.mktemp("accelerated"), recipe.measure_costs
    powerbert.save(tiny("bert", "Model", num_hidden_layers=2), tokenizer_for(), home / "encoder")
    with pytest.MonkeyPatch.context() as patch:
        named = {"engine": "onnx", "precision": "int8"}
        patch.setattr(recipe, "measure_costs", lambda *given: real(*given)._replace(**named))
        figures = run_acceleration(home / "encoder", labelled(), Goal("max-loss", 99.0), home / "fast", FAST)
    return home, figures


def test_the_folder_answers_in_the_engine_it_was_made_for_and_holds_the_report(fast):
    home, figures = fast
    classifier = powerbert.pipeline(home / "fast")
    assert classifier.engine.name == figures["accelerated"]["engine"]
    assert classifier.engine.precision == figures["accelerated"]["precision"]
    assert classifier("good film")[0]["label"] in ("yes", "no")
    assert json.loads((home / "fast" / REPORT).read_text()) == json.loads(json.dumps(figures))
    assert "<html" in (home / "fast" / REPORT_PAGE).read_text()
    assert not (home / "fast.partial").exists()


def test_what_was_chosen_is_the_fastest_of_the_ladder_within_the_goal(fast):
    home, figures = fast
    model, _ = powerbert.load(home / "fast")
    assert str(retention_of(model)) == min(figures["tried"], key=lambda one: (one["ms"], one["work"]))["retention"]
    assert figures["accelerated"]["work"] < 0.6
    assert all(one["expected"] <= 99.0 for one in figures["tried"])


def test_the_rung_is_chosen_on_the_answers_of_the_engine_that_is_the_fastest(fast, tmp_path):
    home, figures = fast
    model, tokenizer = powerbert.load(home / "fast")
    dial = {str(number): each for number, each in enumerate(rungs_of(figures))}
    export(model, tokenizer, tmp_path / "graph", "onnx", "int8", dial=dial)
    choosing = labelled().data.splits["dev"].dataset
    for name, one in zip(dial, figures["tried"], strict=True):
        said = powerbert.pipeline(tmp_path / "graph", budget=name)(choosing["text"][:])
        right = [("no", "yes")[label] == each["label"] for label, each in zip(choosing["label"][:], said, strict=True)]
        assert one["value"] == pytest.approx(numpy.mean(right))


def rungs_of(figures):
    return [powerbert.RetentionConfiguration.parse(one["retention"]) for one in figures["tried"]]


def test_the_folder_serves_every_budget_of_the_ladder_in_its_engine_and_in_torch(fast):
    home, figures = fast
    texts = labelled().verdict.dataset["text"][:]
    for name_of_engine in (None, "torch"):
        found = powerbert.pipeline(home / "fast", name_of_engine)
        assert {str(each) for each in found.engine.dial.values()} == {one["retention"] for one in figures["tried"]}
        ladder, tokenizer = powerbert.load(home / "fast")
        for name, retention in found.engine.dial.items():
            expected = TorchEngine(powerbert.apply(ladder, retention), tokenizer)
            answers = [expected.labels[int(row.argmax())] for row in answer(expected, texts)]
            same = [one["label"] == label for one, label in zip(found(texts, budget=name), answers, strict=True)]
            assert sum(same) >= len(same) - 2 * (name_of_engine is None)  # int8 may turn an answer at the edge


def test_the_verdict_is_of_rows_that_neither_trained_nor_chose(fast):
    home, figures = fast
    held_back = labelled().verdict
    answers = powerbert.pipeline(home / "fast")(held_back.dataset["text"][:])
    truth = [("no", "yes")[label] for label in held_back.dataset["label"][:]]
    accuracy = sum(answer["label"] == label for answer, label in zip(answers, truth, strict=True)) / len(truth)
    assert figures["accelerated"]["value"] == pytest.approx(accuracy)
    assert figures["verdict"]["met"]
    assert figures["verdict"]["eliminated"]
    assert "nothing is eliminated" not in figures["verdict"]["text"]
    assert figures["verdict"]["rows"] == len(truth) == figures["parts"]["verdict"]


def test_the_same_call_again_finds_it_complete_and_another_goal_is_refused(fast):
    home, figures = fast
    again = run_acceleration(home / "encoder", labelled(), Goal("max-loss", 99.0), home / "fast", FAST)
    assert again == json.loads(json.dumps(figures))
    with pytest.raises(PowerBertError, match="another acceleration"):
        run_acceleration(home / "encoder", labelled(), Goal("max-loss", 1.0), home / "fast", FAST)
    assert not (home / "fast.partial").exists()


def test_a_run_that_was_stopped_goes_on_to_the_same_weights(fast, tmp_path, monkeypatch):
    home, _ = fast

    def dies(*given, **more):
        raise KeyboardInterrupt

    start = (home / "encoder", labelled(), Goal("max-loss", 99.0), tmp_path / "fast", FAST)
    with monkeypatch.context() as patch:
        patch.setattr(recipe, "cheapest", dies)  # after the training
        with pytest.raises(KeyboardInterrupt):
            run_acceleration(*start)
    assert not (tmp_path / "fast").exists()
    run_acceleration(*start)
    found, expected = (powerbert.load(folder)[0].state_dict() for folder in (tmp_path / "fast", home / "fast"))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_folder_of_something_else_is_not_written_over(fast, tmp_path):
    home, _ = fast
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(PowerBertError, match="not empty"):
        run_acceleration(home / "encoder", labelled(), Goal("max-loss", 99.0), tmp_path / "mine", FAST)
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"


def test_costs_are_counted_in_fine_tunings(fast):
    _, figures = fast
    costs = {row["stage"]: row["fine_tunings"] for row in figures["costs"]}
    assert costs["fine-tuned"] == 1.0
    assert 0 < costs["ladder-of-2"] < 0.5  # one epoch of two, on less than all of the work
    assert set(costs) == {"fine-tuned", "ladder-of-2"}


def test_where_nothing_keeps_the_goal_nothing_is_eliminated_and_it_says_so(tmp_path, caplog):
    model = tiny("bert", num_labels=2, num_hidden_layers=3)  # random answers: elimination changes many of them
    model.config.id2label = {0: "no", 1: "yes"}
    model.config.label2id = {"no": 0, "yes": 1}
    powerbert.save(model, tokenizer_for(), tmp_path / "mine")
    parts = parts_of_texts(tmp_path / "mine", sentences(400, 2).remove_columns("label"), "text", None, None)
    little = AccelerateOptions(retraining_epochs=0.1, batch_size=16, learning_rate=1e-9)
    told = caplog.at_level("INFO", "powerbert.training.steps")
    with caplog.at_level("WARNING", "powerbert.training"), told:
        figures = run_acceleration(tmp_path / "mine", parts, Goal("max-disagreement", 0.0), tmp_path / "fast", little)
    assert "nothing is eliminated" in caplog.text
    assert "brings the head of its task (answers of the original model): nothing to fine-tune" in caplog.text
    assert "for its answers to" not in caplog.text  # the texts bring them
    assert figures["accelerated"]["work"] == 1.0
    verdict = figures["verdict"]
    assert (verdict["met"], verdict["eliminated"]) == (True, False)
    assert "nothing is eliminated; give more rows" in verdict["text"]  # "Met" alone would read as a success
    assert "Goal met, nothing eliminated" in (tmp_path / "fast" / REPORT_PAGE).read_text()
    assert not figures["verdict"]["labelled"]
    assert retention_of(powerbert.load(tmp_path / "fast")[0]) is None


def test_a_second_ladder_is_trained_where_the_first_keeps_no_goal_and_its_rungs_are_on_the_dial(
    encoder, tmp_path, table, monkeypatch
):
    def of_the_second(tried, goal):
        return None if tried[0].retention.depth == 4 else tried[-1]

    monkeypatch.setattr(recipe, "cheapest", of_the_second)
    figures = run_acceleration(encoder, labelled(), Goal("max-loss", 99.0), tmp_path / "fast", FAST)
    assert [row["stage"] for row in figures["costs"]] == ["fine-tuned", "ladder-of-4", "ladder-of-5"]
    depths = [powerbert.RetentionConfiguration.parse(one["retention"]).depth for one in figures["tried"]]
    assert set(depths) == {4, 5}
    (chosen,) = (one for one in figures["tried"] if one["chosen"])
    assert str(retention_of(powerbert.load(tmp_path / "fast")[0])) == chosen["retention"]
    dial = powerbert.pipeline(tmp_path / "fast", "torch").engine.dial
    assert {each.depth for each in dial.values()} == {5}


def test_max_loss_without_labels_is_refused_before_any_work(tmp_path):
    powerbert.save(tiny("bert", num_labels=2), tokenizer_for(), tmp_path / "mine")
    parts = parts_of_texts(tmp_path / "mine", sentences(400, 2).remove_columns("label"), "text", None, None)
    with pytest.raises(PowerBertError, match="needs labels"):
        run_acceleration(tmp_path / "mine", parts, Goal("max-loss", 1.0), tmp_path / "fast")
    assert {path.name for path in tmp_path.iterdir()} == {"mine"}


def test_a_classifier_of_another_task_is_refused_in_one_line(tmp_path):
    powerbert.save(tiny("bert", num_labels=3), tokenizer_for(), tmp_path / "mine")
    with pytest.raises(UnsupportedModelError, match="does not answer"):
        run_acceleration(tmp_path / "mine", labelled(), Goal("max-loss", 1.0), tmp_path / "fast")


@pytest.mark.parametrize(
    ("goal", "ms", "met"),
    [
        (Goal("speedup", 2.0), 4.9, True),
        (Goal("speedup", 2.1), 4.9, False),
        (Goal("latency-ms", 5.0), 4.9, True),
        (Goal("latency-ms", 4.8), 4.9, False),
    ],
)
def test_a_stated_speed_is_judged_by_what_was_measured(goal, ms, met):
    answers = numpy.array([0, 1] * 20)
    found = pronounce(goal, compare("accuracy", answers, answers, answers), 10.0 / ms, ms)
    assert found["met"] is met
    assert found["text"].startswith("Met" if met else "Missed")


# ---- a stated speed ------------------------------------------------------------------------


def clock(retention):
    """Seconds of a model: a third of them whatever it retains, of which the table of costs knows nothing."""
    return (1.0 + 2.0 * work(retention.fractions)) / 3


@pytest.fixture
def table(monkeypatch):
    """Costs in proportion to the word-vectors."""
    lengths = (1, 16, 64)
    whole, alone = (tuple(share * length for length in lengths) for share in (1.0, 0.4))
    found = cost.CostTable(lengths, whole, alone, alone, 0.0, "torch", "fp32")
    monkeypatch.setattr(recipe, "measure_costs", lambda *given: found)


@pytest.fixture
def measured(monkeypatch, table):
    """The folders that were measured, by the clock above instead of the engines."""
    folders = []

    def over(folder, home, texts, longest, goal, costs):
        folders.append(folder.name)
        dial = TorchEngine.load(folder, None, None).dial
        return [goal.value * clock(each) for each in dial.values()]

    def fastest(folder, *given, **more):
        folders.append(folder.name)
        seconds = clock(retention_of(powerbert.load(folder)[0]))
        same = {"engine": "torch", "precision": "fp32"}
        arms = [{"arm": "full", "model": "full", "seconds": 1.0, **same}]
        arms += [{"arm": "own", "model": "eliminated", "seconds": seconds, **same}]
        figures = {"arms": arms, "texts": 1, "headline": []}
        return Fastest(SimpleNamespace(name="own", **same), None, None, figures, [])

    monkeypatch.setattr(recipe, "times_over", over)
    monkeypatch.setattr(recipe, "fastest_engine", fastest)
    return folders


@pytest.fixture
def encoder(tmp_path):
    powerbert.save(tiny("bert", "Model", num_hidden_layers=6), tokenizer_for(), tmp_path / "encoder")
    return tmp_path / "encoder"


def test_the_configuration_is_found_before_it_is_trained(encoder, tmp_path, measured):
    figures = run_acceleration(encoder, labelled(), Goal("speedup", 1.5), tmp_path / "fast", FAST)
    assert 1.5 <= figures["verdict"]["speedup"] <= 1.5 / 0.88  # as fast as stated, and not much faster
    assert "-at-" in measured[-1]  # the first rung that was measured was fast enough
    assert measured[:-1] == [f"timed-{i}" for i in range(1, len(measured))]


def test_a_stopped_run_goes_on_with_what_it_had_measured(encoder, tmp_path, measured, monkeypatch):
    start = (encoder, labelled(), Goal("speedup", 1.5), tmp_path / "fast", FAST)
    with monkeypatch.context() as patch:
        patch.setattr(recipe, "retrain", lambda *given, **more: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_acceleration(*start)
    before = list(measured)
    run_acceleration(*start)
    assert measured[:-1] == before
    assert "-at-" in measured[-1]


def test_a_speed_out_of_reach_gives_the_nearest_model_and_says_so(encoder, tmp_path, measured, caplog):
    with caplog.at_level("WARNING", "powerbert.training"):
        figures = run_acceleration(encoder, labelled(), Goal("speedup", 50.0), tmp_path / "fast", FAST)
    assert "cannot be reached" in caplog.text
    assert not figures["verdict"]["met"]
    assert figures["accelerated"]["work"] < 0.5


def test_a_rung_that_is_slower_than_before_its_training_gives_way_to_a_faster_one(
    encoder, tmp_path, measured, monkeypatch
):
    def wrongly(folder, *given):
        return [0.97 - 0.01 * i for i in range(len(TorchEngine.load(folder, None, None).dial))]

    monkeypatch.setattr(recipe, "times_over", wrongly)
    figures = run_acceleration(encoder, labelled(), Goal("speedup", 1.6), tmp_path / "fast", FAST)
    assert len(measured) > 1
    assert figures["verdict"]["speedup"] >= 1.6

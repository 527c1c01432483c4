"""Budgets of a dial in every engine: the words, labels and logits of torch with that configuration applied."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from exports import Exports, assert_parity
from models import batch_of, tiny

import powerbert
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import ModelFolderError, PowerBertError
from powerbert.modeling.apply import with_retention

BUDGETS = (None, "1x", "1.5x", "2x", "3x")
TEXTS = ["good film", "the plot was very very dull and bad", "it is great", "a"]


@pytest.fixture(scope="module")
def folder(dialled, tmp_path_factory):
    """A saved model with a dial and its graphs, made for ONNX Runtime."""
    folder = tmp_path_factory.mktemp("dial") / "model"
    graphs = {"onnx-fp32": dialled.made("onnx"), "openvino-fp32": dialled.made("openvino")}
    powerbert.save(dialled.model, dialled.tokenizer, folder, graphs=graphs, engine="onnx-fp32", dial=dialled.dial)
    return folder


def applied(exports, budget):
    """The model with the configuration of a budget applied as if it had no other."""
    model = copy.deepcopy(exports.model)
    return Exports(model if budget is None else with_retention(model, exports.dial[budget]), exports.folder)


def refusal(call, *args, kind=PowerBertError, **options):
    with pytest.raises(kind) as error:
        call(*args, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("engine", ["torch", "onnx", "openvino"])
def test_every_budget_has_the_words_and_logits_of_its_configuration(dialled, engine, budget):
    opened = dialled.torch if engine == "torch" else dialled.opened(engine)
    own = applied(dialled, budget)
    compared = 0
    for lengths in ([1], [2], [3], [7], [20], [39], [13, 30, 4]):
        batch = batch_of(lengths)
        at, expected = opened.at(budget), own.torch
        assert at.word_vectors(lengths) == expected.word_vectors(lengths)
        if engine == "torch":
            found, alone = at.run(batch, retained=True), expected.run(batch, retained=True)
            assert found.retained == alone.retained
            assert np.array_equal(found.logits, alone.logits)
        else:
            compared += assert_parity(at, own, batch)
    assert engine == "torch" or compared >= 7


@pytest.mark.parametrize("engine", ["onnx", "openvino"])
def test_int8_serves_every_budget_with_exact_counts(dialled, engine):
    opened = dialled.opened(engine, "int8")
    for budget in BUDGETS:
        batch = batch_of([20, 7])
        found, expected = (
            opened.at(budget).run(batch, retained=True),
            applied(dialled, budget).torch.run(batch, retained=True),
        )
        counts = [[[len(words) for words in row] for row in each.retained] for each in (found, expected)]
        assert counts[0] == counts[1]
        assert np.abs(found.logits - expected.logits).max() < 1.5


def test_budgets_share_all_weights_and_threads_do_not_disturb_each_other(dialled):
    engine = TorchEngine(copy.deepcopy(dialled.model), dialled.tokenizer, dial=dialled.dial)
    batch = batch_of([20, 7, 3])
    alone = {budget: engine.at(budget).run(batch).logits for budget in BUDGETS}
    own = {id(weight) for weight in engine.model.parameters()}
    for budget in BUDGETS[1:]:
        assert {id(weight) for weight in engine.at(budget).model.parameters()} == own
        assert engine.at(budget) is engine.at(budget)
    asked = [*BUDGETS] * 8
    with ThreadPoolExecutor(4) as threads:
        for budget, logits in zip(
            asked, threads.map(lambda each: engine.at(each).run(batch).logits, asked), strict=True
        ):
            assert np.array_equal(logits, alone[budget])


@pytest.mark.parametrize("engine", [None, "torch", "openvino"])
def test_the_pipeline_takes_a_budget_for_all_calls_or_for_one(folder, engine):
    classify = powerbert.pipeline(folder, engine)
    found = {}
    for budget in BUDGETS[1:]:
        found[budget] = classify(TEXTS, budget=budget, top_k=None)
        assert powerbert.pipeline(folder, engine, budget=budget)(TEXTS, top_k=None) == found[budget]
    turned = powerbert.pipeline(folder, engine, budget="3x")
    assert turned(TEXTS, budget="2x", top_k=None) == found["2x"]
    assert classify(TEXTS, top_k=None) not in found.values()


def test_an_unknown_budget_and_a_folder_without_a_dial_are_told_in_one_line(folder, dialled, tmp_path):
    for engine in (None, "torch"):
        assert "the model has 1x, 1.5x, 2x, 3x" in refusal(powerbert.pipeline, folder, engine, budget="9x")
        assert "the model has" in refusal(powerbert.pipeline(folder, engine), "good", budget=2)
    powerbert.save(dialled.model, dialled.tokenizer, tmp_path / "plain")
    assert "no dial" in refusal(powerbert.pipeline, tmp_path / "plain", budget="2x")


def test_a_graph_of_another_dial_does_not_belong_to_the_folder(dialled, tmp_path):
    graphs = {"onnx": dialled.made("onnx")}
    message = refusal(
        powerbert.save, dialled.model, dialled.tokenizer, tmp_path / "a", graphs=graphs, kind=ModelFolderError
    )
    assert "another dial" in message


@pytest.mark.slow
@pytest.mark.parametrize("family", ["modernbert", "deberta-v2", "albert"])
def test_other_families_turn_the_dial_too(dialled, tmp_path, family):
    model = powerbert.apply(tiny(family, num_hidden_layers=3), dialled.dial["1.5x"])
    exports = Exports(model, tmp_path, dialled.dial)
    for engine in ("onnx", "openvino"):
        for budget in BUDGETS:
            assert_parity(
                exports.opened(engine).at(budget),
                applied(exports, budget),
                batch_of([13, 30, 4], pad=model.config.pad_token_id or 0),
            )

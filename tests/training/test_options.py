"""Options: what is refused, and what the task fills in."""

from __future__ import annotations

from dataclasses import fields

import pytest

from powerbert.errors import PowerBertError
from powerbert.tasks.registry import find_task
from powerbert.training.options import RULES, AccelerateOptions, AnytimeOptions, Options, RetrainOptions, SearchOptions

KINDS = (Options, SearchOptions, RetrainOptions, AnytimeOptions, AccelerateOptions)
BAD = [
    *[("epochs", value) for value in (0, -1, float("nan"), float("inf"))],
    *[("learning_rate", value) for value in (0.0, -1e-5, float("nan"), float("inf"))],
    *[(name, value) for name in ("batch_size", "accumulation", "evaluations") for value in (0, -1, 2.5)],
    *[("warmup", value) for value in (-0.1, 1.0, float("nan"))],
    *[("weight_decay", value) for value in (-1, float("nan"), float("inf"))],
    *[("seed", value) for value in (-1, 2**32, 0.5)],
    ("precision", "fp16"),
    *[("regulariser", value) for value in (-0.1, float("nan"), float("inf"))],
    *[("retention_learning_rate", value) for value in (0.0, float("nan"))],
    ("bins", 0),
    ("threads", 0),
    ("lengths", "third"),
    ("optimiser", "sgd"),
    *[("distillation", value) for value in (-0.1, 1.1, float("nan"))],
    *[("temperature", value) for value in (0.0, float("inf"), float("nan"))],
    *[("hidden_weight", value) for value in (-1, float("nan"))],
    *[(name, value) for name in ("retraining_epochs",) for value in (0, -1, float("nan"))],
    *[("budget", value) for value in (0, 1, float("nan"))],
]


@pytest.mark.parametrize(("name", "value"), BAD, ids=[f"{name}={value}" for name, value in BAD])
def test_a_value_out_of_range_is_refused_in_one_line_that_names_the_flag(name, value):
    kind = next(kind for kind in KINDS if name in {field.name for field in fields(kind)})
    with pytest.raises(PowerBertError, match=f"--{name.replace('_', '-')} is out of range; got .*; .+"):
        kind(**{name: value})


def test_every_number_and_choice_has_a_rule_that_is_tried_above():
    free = {"relative", "gradient_checkpointing", "report_to"}  # switches, and a name that Trainer knows
    named = {field.name for kind in KINDS for field in fields(kind)} - free
    assert named == set(RULES) == {name for name, _ in BAD}


@pytest.mark.parametrize(
    ("given", "processes", "expected"),
    [
        ({}, 1, (16, 4)),
        ({"batch_size": 8}, 1, (8, 8)),
        ({"batch_size": 32}, 1, (32, 2)),
        ({"batch_size": 128}, 1, (128, 1)),
        ({"batch_size": 24}, 1, (24, 3)),
        ({"batch_size": 8, "accumulation": 1}, 1, (8, 1)),
        ({}, 2, (16, 2)),
    ],
)
def test_the_effective_batch_is_the_published_one_whatever_fits_at_once(given, processes, expected):
    options = Options(**given).for_task(find_task("SST-2"), processes)  # published: 64
    assert (options.batch_size, options.accumulation) == expected


@pytest.mark.parametrize(
    ("kind", "length", "expected"),
    [
        (Options, 2000, (1, 64)),
        (Options, 300, (4, 16)),
        (Options, 128, (16, 4)),
        (Options, 55, (16, 4)),
        (Options, 27, (32, 2)),
        (Options, 13, (64, 1)),
        (Options, 2, (64, 1)),
        (RetrainOptions, 300, (8, 8)),
        (RetrainOptions, 55, (32, 2)),
        (RetrainOptions, 27, (64, 1)),
    ],
)
def test_short_inputs_are_trained_on_many_at_once_long_ones_few_and_the_effective_batch_stays(kind, length, expected):
    options = kind().for_task(find_task("SST-2"), 1, length)
    assert (options.batch_size, options.accumulation) == expected


def test_what_the_user_gave_stays_and_the_task_decides_the_rest():
    mrpc = find_task("MRPC")
    assert Options().for_task(mrpc).learning_rate == mrpc.hyper_parameters.lr
    assert Options(learning_rate=1e-4).for_task(mrpc, width=384).learning_rate == 1e-4
    own = SearchOptions(bins=7).for_task(mrpc)
    assert (own.regulariser, own.retention_learning_rate, own.bins) == (0.03, None, 7)
    assert SearchOptions(regulariser=0.0).for_task(mrpc).regulariser == 0.0  # given, not left open
    release = SearchOptions(optimiser="release").for_task(mrpc)
    assert (release.regulariser, release.retention_learning_rate) == (3e-3, 3e-3)
    assert own.for_task(find_task("SST-2")) == own  # resolved once and for all


@pytest.mark.parametrize(
    ("task", "width", "raised"),
    [("MRPC", 384, 2), ("CoLA", 192, 2), ("SST-2", 192, 4), ("RTE", 384, 1), ("RACE", 384, 1), ("RTE", 1024, 0.75)],
)
def test_a_narrower_model_learns_faster_unless_its_steps_have_few_inputs(task, width, raised):
    task = find_task(task)
    assert Options().for_task(task, width=width).learning_rate == pytest.approx(raised * task.hyper_parameters.lr)


def test_a_budget_is_refused_where_lambda_does_not_act():
    with pytest.raises(PowerBertError, match="--budget needs --optimiser decoupled; got 'release'"):
        SearchOptions(budget=0.5, optimiser="release")


def test_r_travels_as_far_in_few_steps_as_in_many():
    options = SearchOptions()
    assert options.retention_rate(100) == pytest.approx(10 * options.retention_rate(1000))
    assert SearchOptions(retention_learning_rate=0.5).retention_rate(100) == 0.5


@pytest.mark.parametrize(
    ("given", "rows", "expected"), [({}, 67_000, 3), ({}, 4_000, 4), ({}, 500, 6), ({"epochs": 2.0}, 500, 2)]
)
def test_few_rows_are_passed_more_often_when_a_model_without_a_head_is_fine_tuned(given, rows, expected):
    options = AccelerateOptions(retraining_epochs=5, **given)
    assert options.fine_tuning(rows).epochs == expected
    assert options.retraining(labelled=True).epochs == 5

"""The progress bar: time left, current mass, newest metric; and where a resumed run begins."""

from __future__ import annotations

from types import SimpleNamespace

from runs import pretrained, small_data

from powerbert.training import Options, SearchOptions, finetune, search
from powerbert.training.callbacks import Bar


def state(step: int, main: bool = True) -> SimpleNamespace:
    return SimpleNamespace(max_steps=10, global_step=step, is_world_process_zero=main)


def test_the_bar_starts_where_a_resumed_run_goes_on_and_shows_the_newest_figures(capsys):
    bar = Bar()
    bar.on_train_begin(None, state(4), None)
    assert (bar.bar.n, bar.bar.total) == (4, 10)
    bar.on_step_end(None, state(5), None)
    bar.on_log(None, state(5), None, {"loss": 0.51234, "mass": 3.25, "grad_norm": 1.0})
    bar.on_log(None, state(6), None, {"eval_metric": 0.75})
    assert bar.bar.n == 5
    assert bar.shown == {"loss": "0.5123", "mass": "3.25", "metric": "0.75"}
    bar.on_train_end(None, state(6), None)
    assert "mass=3.25" in capsys.readouterr().err


def test_only_the_first_process_draws(capsys):
    bar = Bar()
    bar.on_train_begin(None, state(0, main=False), None)
    bar.on_step_end(None, state(1, main=False), None)
    bar.on_log(None, state(1, main=False), None, {"loss": 1.0})
    bar.on_train_end(None, state(1, main=False), None)
    assert capsys.readouterr().err == ""


def test_a_search_shows_its_mass_and_the_time_left(tmp_path, capsys):
    data, common = small_data(), {"epochs": 1, "batch_size": 8, "accumulation": 1}
    finetune(pretrained(tmp_path / "encoder"), data, tmp_path / "one", Options(**common))
    assert "step/s" not in capsys.readouterr().err  # no bar unless it is asked for
    search(tmp_path / "one", data, tmp_path / "two", SearchOptions(bins=4, **common), progress=True)
    shown = capsys.readouterr().err
    assert "6/6 [" in shown
    assert "mass=" in shown
    assert "tokens/s=" in shown

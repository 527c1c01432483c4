"""Every baseline resumes. Oracle: the weights of a run that was never stopped, bit for bit."""

from __future__ import annotations

import pytest
import torch

import powerbert
from powerbert.baselines import StudentOptions, bert_pkd, distilbert, head_prune, truncate
from powerbert.baselines.taught import taught
from powerbert.tasks.encoding import encode_split
from powerbert.training import RetrainOptions
from powerbert.training.runner import begin
from powerbert.training.trainer import InterruptedRun, Stopper

BASELINES = {
    distilbert: (StudentOptions, {"encoders": 2}),
    bert_pkd: (StudentOptions, {"encoders": 3}),
    head_prune: (RetrainOptions, {"heads": 7}),
    truncate: (RetrainOptions, {"share": 0.6}),
}


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda step: step.__name__)
def test_a_stopped_run_goes_on_to_the_same_weights(tuned, tmp_path, monkeypatch, baseline):
    """The runner's own tests kill it; here it is asked to stop after three of six steps."""
    options, asked = BASELINES[baseline]

    def run(name):
        return baseline(tuned.folder, tuned.data, tmp_path / name, options(**tuned.short), **asked).folder

    signals = iter([False, False, True, True])
    monkeypatch.setattr(Stopper, "is_asked", lambda self: next(signals))
    with pytest.raises(InterruptedRun):
        run("stopped")
    monkeypatch.undo()
    assert (tmp_path / "stopped.partial" / "checkpoint-3").is_dir()
    stopped, whole = (powerbert.load(run(name))[0].state_dict() for name in ("stopped", "whole"))
    assert stopped.keys() == whole.keys()
    assert all(torch.equal(stopped[name], weight) for name, weight in whole.items())


def test_answers_are_asked_for_where_options_want_them(tuned, tmp_path):
    teacher, tokenizer = powerbert.load(tuned.folder)
    rows = encode_split(tuned.data.splits["train"], tuned.data.task, tokenizer, 16)
    for weight, wanted in ((0.0, False), (0.5, True)):
        options = RetrainOptions(**tuned.short, distillation=weight)
        with begin("a step", tuned.folder, tuned.data, tmp_path / str(weight), options, 32, progress=False) as run:
            found = taught(run, teacher, tokenizer, rows)
        assert ("teacher" in found.column_names) == wanted
        assert found["input_ids"][:] == rows["input_ids"][:]

"""Killed at random moments, a run of `score` ends with the same bytes. Oracle: the run that nobody killed."""

from __future__ import annotations

import random
import time

import pytest
from scored import classifier, kill_a_worker, kill_all, many_rows, process

from powerbert.scoring.staging import begun


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("kills")
    classifier(home / "model")
    return home


def killed_and_done(arguments, target, kills, pause) -> list[int]:
    """Kill a run so often, at random moments after it went on, then let it end; the windows done at each kill."""
    rng, done = random.Random(0), [0]
    while len(done) <= kills:
        run = process(*arguments)
        while run.is_alive() and begun(target).get("windows", 0) <= done[-1]:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, pause))
        run.kill()
        run.join()
        if run.exitcode == 0:  # it was faster
            return done
        done.append(begun(target)["windows"])
        assert not target.exists() or begun(target)["finished"]
    run = process(*arguments)
    run.join()
    assert run.exitcode == 0
    return done


def test_a_run_that_was_killed_ends_with_the_same_bytes(home):
    source = many_rows(home / "few.jsonl", 600)
    common = ["--model", home / "model", "--window", "32", "--on-error", "record", "--threads", "1"]
    whole = process("score", source, home / "whole.csv.gz", *common)
    whole.join()
    assert whole.exitcode == 0
    killed_and_done(["score", source, home / "killed.csv.gz", *common], home / "killed.csv.gz", 2, 0.2)
    assert (home / "killed.csv.gz").read_bytes() == (home / "whole.csv.gz").read_bytes()
    assert not (home / "killed.csv.gz.partial").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.jsonl", "out.csv.zst", "out.parquet"])
def test_twenty_kills_on_twenty_thousand_rows(home, name):
    source = many_rows(home / "many.jsonl", 20_000)
    common = ["--model", home / "model", "--window", "256", "--on-error", "skip", "--threads", "1"]
    whole = process("score", source, home / f"whole-{name}", *common)
    whole.join()
    done = killed_and_done(["score", source, home / name, *common], home / name, 20, 0.3)
    assert len(done) > 10
    assert (home / name).read_bytes() == (home / f"whole-{name}").read_bytes()


@pytest.mark.slow
def test_workers_and_the_command_itself_are_killed_on_ray(home):
    """Twenty workers over three runs, of which the first two are killed with all that they started."""
    source = many_rows(home / "ray.jsonl", 20_000)
    common = ["--model", home / "model", "--window", "256", "--on-error", "skip", "--threads", "1"]
    whole = process("score", source, home / "whole-ray.jsonl", *common)
    whole.join()
    target, killed, rng = home / "ray-out.jsonl", [], random.Random(0)
    for most in (6, 12, 20):
        run = process("score", source, target, *common, "--ray", "--ray-workers", "2")
        while run.is_alive() and len(killed) < most:
            time.sleep(rng.uniform(0.2, 1.0))
            killed += kill_a_worker(run.pid, rng)
        if most < 20:
            kill_all(run.pid)
        run.join()
    assert run.exitcode == 0
    assert len(killed) > 5
    assert target.read_bytes() == (home / "whole-ray.jsonl").read_bytes()

"""Scoring on a local Ray cluster of several processes. Oracle: the bytes that this process writes without it."""

from __future__ import annotations

import os
import random
import socket
import threading

import pytest
from scored import classifier, kill_a_worker, many_rows, run

from powerbert import errors
from powerbert.errors import MissingExtraError, PowerBertError
from powerbert.scoring.on_ray import check_reachable, cluster, workers_with_room


def test_the_same_bytes_from_two_workers_of_which_one_is_killed(tmp_path, capsys):
    """The command was stopped before, at a bad row: Ray goes on where this process was."""
    classifier(tmp_path / "model")
    source = many_rows(tmp_path / "in.jsonl", 400)
    common = ["--model", tmp_path / "model", "--window", "32", "--threads", "1"]
    assert run("score", source, tmp_path / "here.csv", *common, "--on-error", "skip") == 0
    assert run("score", source, tmp_path / "ray.csv", *common) == 2  # line 8 is bad, and in the third window
    assert (tmp_path / "ray.csv.partial").is_dir()
    killed, over = [], threading.Event()

    def kill_one() -> None:
        while not killed and not over.wait(0.2):
            killed.extend(kill_a_worker(os.getpid(), random.Random(0)))

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        asked = ["--on-error", "skip", "--ray", "--ray-workers", "2"]
        assert run("score", source, tmp_path / "ray.csv", *common, *asked) == 0
    finally:
        over.set()
        killer.join()
    assert "goes on after" in capsys.readouterr().err
    assert killed
    assert (tmp_path / "ray.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


def test_nobody_answers_at_an_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for each in (address, f"ray://{address}"):
        with pytest.raises(PowerBertError, match="no Ray cluster answers"):
            check_reachable(each)
    check_reachable("auto")


def test_workers_fit_on_machines_and_one_that_fits_on_none_is_refused():
    nodes = [
        {"Alive": alive, "Resources": {"CPU": cores}} for alive, cores in ((True, 4.0), (True, 3.0), (False, 64.0))
    ]
    assert [workers_with_room(nodes, cpus) for cpus in (1, 2, 4)] == [7, 3, 1]
    with pytest.raises(PowerBertError, match="--ray-cpus 5'; the largest machine of the cluster has 4"):
        workers_with_room(nodes, 5)


def test_ray_is_an_extra(monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"powerbert\[ray\]"), cluster("local"):
        pass

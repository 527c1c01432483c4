"""Staging. Oracle: what lies in the folder after each step, as a kill there would leave it."""

from __future__ import annotations

import os

import pytest

from powerbert.errors import DataError, PowerBertError, ReadingError, RowError
from powerbert.scoring import staging as module
from powerbert.scoring.staging import Counts, begun, check_target, staged
from powerbert.scoring.write import FORMS

FORM = FORMS["jsonl"]({})
SETTINGS = {"model": "a", "input": [["x", 1]]}


class Killed(BaseException):
    """In the place of a kill: nothing that tidies up catches it but `finally`."""


def stopped(target, parts, *, settings=SETTINGS, error=Killed, **more):
    def go():
        with staged(target, settings, **more) as place:
            for part in parts:
                place.add(part, Counts(place.counts.read + 1, place.counts.answered + 1))
            raise error("stop")

    with pytest.raises(error):
        go()


def test_a_run_goes_on_where_it_was_stopped_and_ends_whole(tmp_path):
    target = tmp_path / "out.jsonl"
    stopped(target, [b"1\n", b"2\n"])
    assert not target.exists()
    stopped(target, [b"", b"4\n"])
    with staged(target, SETTINGS) as place:
        assert (place.windows, place.counts) == (4, Counts(4, 4))
        place.finish(FORM)
    assert target.read_bytes() == b"1\n2\n4\n"
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_a_part_that_was_not_counted_is_written_again(tmp_path):
    target = tmp_path / "out.jsonl"
    stopped(target, [b"1\n"])
    (tmp_path / "out.jsonl.partial" / "00000001.part").write_bytes(b"torn")
    with staged(target, SETTINGS) as place:
        place.add(b"2\n", Counts(2, 2))
        place.finish(FORM)
    assert target.read_bytes() == b"1\n2\n"


def test_a_kill_between_the_last_rename_and_tidying_up(tmp_path, monkeypatch):
    target = tmp_path / "out.jsonl"
    monkeypatch.setattr(module.shutil, "rmtree", lambda *given, **more: None)
    with staged(target, SETTINGS) as place:
        place.add(b"1\n", Counts(1, 1))
        place.finish(FORM)
    assert begun(target)["finished"]
    monkeypatch.undo()
    check_target(target)
    with staged(target, SETTINGS) as place:
        place.finish(FORM)
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_another_input_or_model_is_refused_by_name(tmp_path):
    target = tmp_path / "out.jsonl"
    stopped(target, [b"1\n"])
    other = SETTINGS | {"input": [["x", 2]], "--window": 5}
    with pytest.raises(PowerBertError, match="of another run; got 'another --window, input'"), staged(target, other):
        pass
    with staged(target, SETTINGS) as place:
        assert place.windows == 1
    stopped(target, [], settings=other, resumable=False)  # such as standard input: it begins anew
    assert os.listdir(tmp_path) == []


def test_a_run_that_came_to_nothing_leaves_nothing(tmp_path):
    for parts in ([], [b""]):
        stopped(tmp_path / "out.jsonl", parts)
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("error", [DataError, RowError, Killed])
def test_what_is_answered_stays_whatever_ended_the_run(tmp_path, error):
    stopped(tmp_path / "out.jsonl", [b"1\n"], error=error)
    assert (tmp_path / "out.jsonl.partial" / "00000000.part").read_bytes() == b"1\n"


def test_what_the_system_could_not_read_just_now_loses_no_window(tmp_path):
    target = tmp_path / "out.jsonl"
    stopped(target, [b"1\n"], error=ReadingError)  # such as a network's folder that was away for a moment
    with staged(target, SETTINGS) as place:
        assert place.windows == 1


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path):
    target, folder = tmp_path / "out.jsonl", tmp_path / "out.jsonl.partial"
    folder.mkdir()
    (folder / "mine.txt").write_text("x")
    with pytest.raises(PowerBertError, match=r"holds something else; got 'mine\.txt'"), staged(target, SETTINGS):
        pass
    assert os.listdir(folder) == ["mine.txt"]


@pytest.mark.parametrize("left", [None, b"2"])
def test_a_window_that_was_lost_or_cut_is_noticed(tmp_path, left):
    target = tmp_path / "out.jsonl"
    stopped(target, [b"1\n", b"2\n"])
    part = tmp_path / "out.jsonl.partial" / "00000001.part"
    part.unlink() if left is None else part.write_bytes(left)
    with pytest.raises(PowerBertError, match="has lost what was done"), staged(target, SETTINGS):
        pass
    assert (tmp_path / "out.jsonl.partial" / "00000000.part").exists()


def test_no_row_is_no_result(tmp_path):
    def go():
        with staged(tmp_path / "out.jsonl", SETTINGS) as place:
            place.add(b"", Counts(3, 0, 3))
            place.finish(FORM)

    with pytest.raises(DataError, match="no row could be answered"):
        go()
    assert os.listdir(tmp_path) == []


def test_one_run_at_a_time(tmp_path):
    target = tmp_path / "out.jsonl"
    with staged(target, SETTINGS), pytest.raises(PowerBertError, match="another run"), staged(target, SETTINGS):
        pass


def test_a_file_is_never_written_over(tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_bytes(b"earlier")
    with pytest.raises(PowerBertError, match="never written over"), staged(target, SETTINGS):
        pass
    assert os.listdir(tmp_path) == ["out.jsonl"]

"""One run holds a folder."""

from __future__ import annotations

import subprocess
import sys

import pytest

from powerbert.errors import PowerBertError
from powerbert.folders.lock import only_run


def test_two_runs_cannot_share_a_folder_and_a_dead_run_lets_go(tmp_path):
    code = (
        "import sys, pathlib, os; from powerbert.folders.lock import only_run\n"
        "with only_run(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"held\n"
    with pytest.raises(PowerBertError, match="another run"), only_run(tmp_path):
        pass
    other.kill()
    other.wait()
    with only_run(tmp_path):
        pass

"""`powerbert serve` as a process: refusals, readiness, and a stop that loses nothing."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest
from models import tiny
from servers import some_texts, started
from texts import tokenizer_for

import powerbert
from powerbert.cli import commands
from powerbert.cli.main import main

KEY = "sesame-open-wide"


def refusal(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(["serve", *arguments])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("POWERBERT_API_KEY", raising=False)


def test_mistakes_are_one_line_before_the_model_is_loaded(capsys, tmp_path):
    assert "needs an API key" in refusal(capsys, "missing", "--host", "0.0.0.0")
    assert "does not fit into the queue" in refusal(capsys, "missing", "--queue", "5")
    assert "too small" in refusal(capsys, "missing", "--port", "-1")
    for name in (str(tmp_path / "missing"), "", "x" * 5000):
        assert "is not a folder" in refusal(capsys, name, "--port", "0")
    for deadline in ("0", "nan", "inf"):
        assert "--deadline is too" in refusal(capsys, "missing", "--deadline", deadline)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot be served" in refusal(capsys, "missing", "--port", str(taken.getsockname()[1]))


def test_a_folder_that_cannot_be_served_is_one_line(capsys, tmp_path):
    powerbert.save(tiny("bert"), tokenizer_for(), tmp_path / "plain")
    assert "no smaller budget to spend" in refusal(capsys, str(tmp_path / "plain"), "--port", "0", "--adaptive")
    powerbert.save(tiny("bert", "ForMultipleChoice"), tokenizer_for(), tmp_path / "choice")
    assert "reads several inputs at once" in refusal(capsys, str(tmp_path / "choice"), "--port", "0")


def test_the_extra_serve_is_enough_to_serve():
    """Oracle: all that the command imports, in a Python that has nothing of the other extras."""
    others = ("accelerate", "datasets", "matplotlib", "pyarrow", "scipy", "onnx", "onnxruntime", "openvino")
    script = f"import sys; sys.modules.update(dict.fromkeys({others})); import powerbert.cli.serve"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_missing_extra_names_the_pip_command(capsys, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'fastapi'", name="fastapi")

    monkeypatch.setattr(commands, "import_module", missing)
    assert 'this command needs fastapi; pip install "powerbert[serve]"' in refusal(capsys, "missing")


def test_a_server_with_a_key_stops_with_all_answers_given(reranker_folder):
    """SIGTERM while requests are under way: each gets its answer or finds nobody there, and the exit code is 0."""
    texts = some_texts(20)
    alone = powerbert.pipeline(reranker_folder, "torch")
    known = {text: alone({"text": "good", "text_pair": text})["score"] for text in texts}
    answers, refused = [], []
    with started(reranker_folder, POWERBERT_API_KEY=KEY) as (address, process):
        assert httpx.post(f"{address}/rerank", json={"query": "a", "texts": ["b"]}).status_code == 401

        def ask(number):
            with httpx.Client(base_url=address, headers={"authorization": f"Bearer {KEY}"}, timeout=60) as client:
                for turn in range(200):
                    own = [texts[(number + turn + i) % len(texts)] for i in range(5)]
                    try:
                        answer = client.post("/rerank", json={"query": "good", "texts": own})
                    except httpx.ConnectError:
                        return
                    except httpx.TransportError as error:
                        refused.append(error)
                        return
                    assert answer.status_code == 200
                    answers.append([(own[each["index"]], each["score"]) for each in answer.json()])

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        while len(answers) < 16:
            threads[0].join(0.01)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        assert process.wait(60) == 0
    assert all(score == pytest.approx(known[text], abs=1e-4) for found in answers for text, score in found)
    assert len(answers) < 8 * 200
    assert refused == []

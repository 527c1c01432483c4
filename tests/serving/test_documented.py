"""What docs/serve.md and docs/rerank.md show of clients, run against real servers. Oracles: CrossEncoder, pipeline."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from models import tiny
from rerankers import cross_encoder, oracle
from servers import started
from texts import tokenizer_for

import powerbert

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "http://127.0.0.1:8080"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.S | re.M)


def example(page: str, of: str) -> str:
    """The one Python block of a page that imports this."""
    (code,) = [block for block in blocks(page, "python") if f"from {of} import" in block]
    return code


def shell_commands(page: str) -> list[str]:
    """Every curl of the page, with its continuation lines."""
    lines = "\n".join(blocks(page, "console")).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ curl")]


@pytest.fixture(scope="module")
def ranker(tmp_path_factory):
    """The folder of a CrossEncoder, and the address of a real server of it."""
    folder = cross_encoder(tmp_path_factory.mktemp("documented"), "sigmoid")
    with started(folder) as (address, _):
        yield folder, address


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("command", shell_commands("serve.md") + shell_commands("rerank.md"))
def test_the_curl_commands_of_the_pages_work(served, ranker, command):
    address = ranker[1] if "/rerank" in command else served
    command = command.replace(ADDRESS, address).replace("curl ", "curl -sS --fail-with-body ", 1)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_of_inference_client_answers_as_the_pipeline(served, classifier_folder, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # it would not even ask this machine
    *lines, asking = example("serve.md", "huggingface_hub").replace(ADDRESS, served).strip().splitlines()
    namespace: dict = {}
    exec("\n".join([*lines, f"found = {asking}"]), namespace)
    (best,) = powerbert.pipeline(classifier_folder)("a gripping, beautifully acted film")
    ((label, score),) = [(each.label, each.score) for each in namespace["found"]]
    assert (label, score) == (best["label"], pytest.approx(best["score"], abs=1e-4))


def test_the_example_with_sentence_transformers_ranks_as_the_cross_encoder(ranker, tmp_path, monkeypatch):
    folder, address = ranker
    tiny("bert", "Model").save_pretrained(tmp_path / "encoder")
    tokenizer_for().save_pretrained(tmp_path / "encoder")
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    exec(example("rerank.md", "sentence_transformers").replace(ADDRESS, address), namespace)
    known = oracle(folder).rank(namespace["query"], namespace["found"])
    assert [each["index"] for each in namespace["ranked"]] == [each["corpus_id"] for each in known]
    assert [each["score"] for each in namespace["ranked"]] == pytest.approx([each["score"] for each in known], abs=1e-5)
    assert namespace["best"] == namespace["found"][known[0]["corpus_id"]]


@pytest.mark.slow  # Ray starts some ten processes
def test_the_example_of_ray_serve_answers_as_the_pipeline(classifier_folder, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    serve = pytest.importorskip("ray.serve", reason="ray[serve] is not installed")
    (tmp_path / "fast").symlink_to(classifier_folder)
    monkeypatch.chdir(tmp_path)  # before Ray starts: its processes begin where it was started
    patience = ("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S")
    for name in patience:  # a busy machine takes its time to import
        monkeypatch.setenv(name, "300")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    paths = os.pathsep.join([str(Path(powerbert.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", paths)
    ray.init("local", num_cpus=5, include_dashboard=False, log_to_driver=False)
    try:
        exec(example("serve.md", "ray"), {})
        text = "a gripping, beautifully acted film"
        (best,) = powerbert.pipeline(classifier_folder)(text)
        for _ in range(6):  # both replicas
            answer = httpx.post("http://127.0.0.1:8000/predict", json={"inputs": text}, timeout=120)
            assert answer.json()[0] == {"label": best["label"], "score": pytest.approx(best["score"], abs=1e-4)}
        assert httpx.post("http://127.0.0.1:8000/predict", content=b"no JSON", timeout=120).status_code == 400
        assert httpx.get("http://127.0.0.1:8000/info", timeout=120).json()["model_id"] == "fast"
    finally:
        serve.shutdown()
        ray.shutdown()

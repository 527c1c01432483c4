"""`powerbert score`, also called `predict`. Oracle: `powerbert.pipeline`, text by text; the formats' own readers.

How rows are read, written and resumed is tested in `tests/scoring`; here it is the command.
"""

from __future__ import annotations

import gzip
import json
import os

import pandas
import pyarrow
import pytest
import torch
from models import tiny
from pyarrow import parquet
from scored import RELATIVE, classifier, json_lines, run, sentences
from texts import tokenizer_for

import powerbert
from powerbert.cli import score as command
from powerbert.scoring import answering as room


@pytest.fixture
def home(answering):
    return answering


@pytest.fixture
def scored(home, tmp_path):
    """Score a file and read back the JSON lines."""

    def call(*more, model="saved", data=None):
        target = tmp_path / "answers.jsonl"
        target.unlink(missing_ok=True)
        model = home / model if isinstance(model, str) else model
        assert run("score", data or home / "texts.csv", target, "--model", model, *more) == 0
        return [json.loads(line) for line in target.read_text().splitlines()]

    return call


# ---- answers -----------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "engine"), [("saved", "torch"), ("graph", "openvino")])
@pytest.mark.parametrize("window", [4096, 7])
def test_every_row_is_answered_as_the_pipeline_answers_it_alone(home, scored, model, engine, window):
    found = scored("--text", "review", "--engine", engine, "--window", window, model=model)
    classify = powerbert.pipeline(home / model, engine)
    for i, (answer, text) in enumerate(zip(found, sentences(40), strict=True)):
        (alone,) = classify(text)
        assert list(answer) == ["id", "review", "stars", "label", "score"]
        assert (answer["id"], answer["review"], answer["stars"]) == (str(i), text, f"LABEL_{i % 3}")
        assert answer["label"] == alone["label"]
        assert answer["score"] == pytest.approx(alone["score"], abs=2e-4)


def test_all_scores_as_the_pipeline_gives_them(home, scored):
    found = scored("--text", "review", "--all")
    classify = powerbert.pipeline(home / "saved")
    for answer, text in zip(found, sentences(40), strict=True):
        every = {one["label"]: one["score"] for one in classify(text, top_k=None)}
        assert {name: answer[f"score_{name}"] for name in every} == pytest.approx(every, abs=2e-4)
        assert answer["score"] == max(answer[f"score_{name}"] for name in every)


def test_the_answer_to_a_text_depends_on_no_other_row(scored, tmp_path):
    """N was once chosen by the lengths of the rows beside it."""
    model = powerbert.apply(tiny("bert", max_position_embeddings=300), RELATIVE)
    powerbert.save(model, tokenizer_for(300), tmp_path / "model")
    long = "good film " * 100
    (tmp_path / "alone.txt").write_text(long + "\n")
    (tmp_path / "among.txt").write_text(long + "\n" + "bad\n" * 150)
    alone, among = (scored(model=tmp_path / "model", data=tmp_path / name) for name in ("alone.txt", "among.txt"))
    (expected,) = powerbert.pipeline(tmp_path / "model")(long)
    assert alone[0] == among[0]
    assert alone[0]["score"] == pytest.approx(expected["score"], abs=1e-4)


def test_a_trained_folder_is_asked_at_its_own_n_unless_another_is_given(home, scored, tmp_path):
    model, tokenizer = powerbert.load(home / "saved")
    record = json.dumps({"result": {"max_length": 16}}).encode()
    powerbert.save(model, tokenizer, tmp_path / "model", extra={"run.json": record})
    (tmp_path / "long.txt").write_text("good film " * 12 + "bad " * 10 + "\n")
    (short,) = scored(model=tmp_path / "model", data=tmp_path / "long.txt")
    (whole,) = scored("--max-length", "40", model=tmp_path / "model", data=tmp_path / "long.txt")
    text = (tmp_path / "long.txt").read_text()
    assert short["score"] == pytest.approx(powerbert.pipeline(tmp_path / "model")(text)[0]["score"], abs=1e-4)
    assert whole["score"] == pytest.approx(powerbert.pipeline(home / "saved")(text)[0]["score"], abs=1e-4)
    assert short["score"] != whole["score"]


def test_a_multi_label_model_is_answered_as_its_pipeline_answers(scored, tmp_path):
    classifier(tmp_path / "model", problem_type="multi_label_classification")
    (tmp_path / "a.txt").write_text("good film\n")
    (answer,) = scored(model=tmp_path / "model", data=tmp_path / "a.txt")
    (expected,) = powerbert.pipeline(tmp_path / "model")("good film")
    assert (answer["label"], answer["score"]) == (expected["label"], round(expected["score"], 4))


def test_a_model_of_one_number_gives_values(scored, tmp_path):
    model = tiny("bert")
    model.config.problem_type, model.config.num_labels = "regression", 1
    model.classifier = torch.nn.Linear(model.config.hidden_size, 1)
    powerbert.save(model, tokenizer_for(), tmp_path / "model")
    (tmp_path / "a.txt").write_text("good film\tbad film\n")
    (answer,) = scored("--all", model=tmp_path / "model", data=tmp_path / "a.txt")
    expected = powerbert.pipeline(tmp_path / "model")({"text": "good film", "text_pair": "bad film"})
    value = pytest.approx(expected["score"], rel=1e-5)  # six digits: the sigmoids of a reranker crowd near 1
    assert answer == {"text": "good film", "text_pair": "bad film", "value": value}


def test_a_budget_answers_with_its_configuration(home, scored):
    found = scored("--text", "review", "--budget", "3x", model="dial")
    expected = powerbert.pipeline(home / "dial", budget="3x")(sentences(40))
    assert [row["label"] for row in found] == [row["label"] for row in expected]


def test_a_part_of_the_rows_comes_with_their_lines(home, scored):
    found = scored("--text", "review", "--rows", "5")
    assert [row["text"] for row in found] == [sentences(40)[row["row"] - 2] for row in found]
    assert len(found) == 5


# ---- in and out --------------------------------------------------------------------------


def test_predict_is_the_same_command_with_flags(home, scored, tmp_path):
    expected = scored("--text", "review")
    asked = ["predict", "--model", home / "saved", "--data", home / "texts.csv", "--text", "review"]
    assert run(*asked, "--output", tmp_path / "same.jsonl") == 0
    assert [json.loads(line) for line in (tmp_path / "same.jsonl").read_text().splitlines()] == expected


def test_every_format_out_has_the_same_rows(home, scored, tmp_path):
    expected = scored("--text", "review")
    asked = ["score", home / "texts.csv", "--model", home / "saved", "--text", "review", "--window", "16"]
    names = ("a.jsonl.gz", "a.jsonl.zst", "a.csv", "a.csv.gz", "a.csv.zst", "a.tsv", "a.parquet")
    readers = {
        "jsonl": lambda path: pandas.read_json(path, lines=True, dtype=False, precise_float=True),
        "parquet": pandas.read_parquet,
    }
    readers |= {"csv": pandas.read_csv, "tsv": lambda path: pandas.read_csv(path, sep="\t")}
    for name in names:
        assert run(asked[0], asked[1], tmp_path / name, *asked[2:]) == 0
        read = readers[name.split(".")[1]](tmp_path / name)
        assert read.to_dict("records") == pandas.DataFrame(expected).astype(read.dtypes).to_dict("records"), name
    assert run(asked[0], asked[1], tmp_path / "a.gz", *asked[2:], "--format", "csv") == 0
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == (tmp_path / "a.csv").read_bytes()


def test_parquet_keeps_its_types(home, tmp_path):
    """Oracle: the columns of the input, which come back equal."""
    table = pyarrow.table(
        {
            "text": pyarrow.array(["good", "bad film", "dull"], pyarrow.large_string()),
            "when": pyarrow.array([1, None, 3], pyarrow.timestamp("ns", "UTC")),
            "small": pyarrow.array([1, 2, None], pyarrow.int8()),
            "nested": [[{"a": 1.5}], None, []],
            "bytes": [b"\xff", b"", None],
            "kind": pyarrow.array(["x", "y", "x"]).dictionary_encode(),
        }
    )
    parquet.write_table(table, tmp_path / "in.parquet")
    assert run("score", tmp_path / "in.parquet", tmp_path / "out.parquet", "--model", home / "saved") == 0
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.select(table.column_names).equals(table)
    assert found.column_names[-2:] == ["label", "score"]


def test_a_pattern_gives_its_files_by_name_as_one(home, scored, tmp_path):
    for name, texts in (("b", ["bad", "dull"]), ("a", ["good"]), ("c", ["great", "very good"])):
        json_lines(tmp_path / f"{name}.jsonl", ({"text": text} for text in texts))
    found = scored(data=str(tmp_path / "[abc].jsonl"))
    assert [row["text"] for row in found] == ["good", "bad", "dull", "great", "very good"]


def piped(content: bytes, *arguments) -> int:
    """The exit code of a command with this on its standard input."""
    (out, into), before = os.pipe(), os.dup(0)
    try:
        os.dup2(out, 0)
        os.write(into, content)
        os.close(into)
        return run(*arguments)
    finally:
        os.dup2(before, 0)
        os.close(out)
        os.close(before)


def test_standard_input_to_standard_output(home, capfdbinary):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in sentences(5)).encode()
    assert piped(lines, "score", "-", "-", "--model", home / "saved") == 0
    expected = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [row["text"] for row in expected] == sentences(5)
    assert piped(gzip.compress(lines), "score", "-", "-", "--model", home / "saved", "--format", "tsv") == 0
    header, *rows = capfdbinary.readouterr().out.decode().splitlines()
    assert header == "text\tlabel\tscore"
    assert [row.split("\t") for row in rows] == [[row["text"], row["label"], str(row["score"])] for row in expected]


def test_rows_are_read_window_by_window(scored, monkeypatch):
    """A file larger than memory: no more than the window that is answered and the next one are held."""
    read, most = [0, 0], [0]
    checked, rows = command.sound_windows, room.answer_rows

    def counted(*given):
        for window in checked(*given):
            read[0] += len(window)
            yield window

    def answered(engine, inputs, **options):
        found = rows(engine, inputs, **options)
        read[1] += len(inputs)
        most[0] = max(most[0], read[0] - read[1])
        return found

    monkeypatch.setattr(command, "sound_windows", counted)
    monkeypatch.setattr(room, "answer_rows", answered)
    assert len(scored("--text", "review", "--window", "8")) == 40
    assert most[0] <= 2 * 8


# ---- bad rows ----------------------------------------------------------------------------

BAD_ROWS = ['{"text": "good"}', '{"text": 7}', '{"text": "bad", "x": NaN}', "{", '{"x": 1}', '{"text": "dull"}']


@pytest.mark.parametrize("window", [4096, 1, 3])
def test_what_is_read_is_answered_skipped_and_recorded(home, tmp_path, capsys, window):
    (tmp_path / "in.jsonl").write_bytes("\n".join(BAD_ROWS).encode() + b'\n{"text": "\xff"}\n')
    asked = ["score", tmp_path / "in.jsonl", "--model", home / "saved", "--window", window, "--json", "-"]
    for how, skipped, recorded in (("skip", 5, 0), ("record", 0, 5)):
        target = tmp_path / f"{how}.jsonl"
        assert run(*asked[:2], target, *asked[2:], "--on-error", how) == 0
        figures = json.loads(capsys.readouterr().out)
        counts = [figures[name] for name in ("read", "answered", "skipped", "recorded")]
        assert counts == [7, 2, skipped, recorded]
        rows = [json.loads(line) for line in target.read_text().splitlines()]
        assert [row["text"] for row in rows if row["label"]] == ["good", "dull"]
        assert len(rows) == 2 + recorded
    errors = [row["error"] for row in rows]
    assert errors[0] is errors[5] is None
    for error, expected in zip(
        errors[1:5] + errors[6:], ("not text", "NaN", "broken", "missing", "UTF-8"), strict=True
    ):
        assert expected in error
    assert run(*asked[:2], tmp_path / "fail.jsonl", *asked[2:]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert "line 2" in line
    assert "--on-error" in line


def test_a_bad_row_leaves_nothing_behind(home, tmp_path, capsys):
    json_lines(tmp_path / "bad.jsonl", [*({"text": "good"} for _ in range(20)), {"text": ""}])
    assert run("score", tmp_path / "bad.jsonl", tmp_path / "out.jsonl", "--model", home / "saved") == 2
    assert "line 21" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["bad.jsonl"]


def test_a_run_that_failed_at_a_row_goes_on_when_bad_rows_may_be_skipped(home, tmp_path, capsys):
    json_lines(tmp_path / "in.jsonl", [*({"text": "good"} for _ in range(20)), {"text": ""}, {"text": "bad"}])
    asked = ["score", tmp_path / "in.jsonl", tmp_path / "out.jsonl", "--model", home / "saved", "--window", "4"]
    assert run(*asked) == 2
    capsys.readouterr()
    assert run(*asked, "--on-error", "skip") == 0
    assert "goes on after 19 rows" in capsys.readouterr().err
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 21
    assert sorted(os.listdir(tmp_path)) == ["in.jsonl", "out.jsonl"]


def test_what_is_answered_is_kept_when_the_input_turns_out_to_be_bad(home, tmp_path, capsys):
    json_lines(tmp_path / "in.jsonl", [*({"text": "good"} for _ in range(20)), {"text": "bad", "new": 1}])
    asked = ["score", tmp_path / "in.jsonl", tmp_path / "out.csv", "--model", home / "saved", "--window", "4"]
    assert run(*asked) == 2
    said = capsys.readouterr().err
    assert "line 21: there is a new column 'new'" in said
    assert f"the answers to the first 19 rows are in {tmp_path / 'out.csv.partial'}" in said
    parts = sorted((tmp_path / "out.csv.partial").glob("*.part"))
    assert sum(part.read_bytes().count(b"\n") for part in parts) == 1 + 19


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_bad_rows_at_the_start_do_not_settle_the_columns(home, tmp_path, form):
    bad = b"{broken\n" * 10 + b'{"id": 1}\n'  # more than the first window has, and one without a text
    (tmp_path / "in.jsonl").write_bytes(bad + b'{"id": 2, "text": "good"}\n' * 5)
    out = tmp_path / f"out.{form}"
    assert (
        run("score", tmp_path / "in.jsonl", out, "--model", home / "saved", "--window", 64, "--on-error", "record") == 0
    )
    assert (
        run("score", out, tmp_path / "again.jsonl", "--model", home / "saved", "--on-error", "skip", "--prefix", "x")
        == 0
    )
    rows = [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()]
    assert [(int(row["id"]), row["text"], row["error"] or None) for row in rows] == [(2, "good", None)] * 5

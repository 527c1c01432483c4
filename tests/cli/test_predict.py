"""`powerbert predict` and `evaluate` in every engine. Oracle: `powerbert.pipeline`, text by text."""

from __future__ import annotations

import csv
import json
import random

import pytest
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.cli import predict as command
from powerbert.cli.main import main
from powerbert.export.write import export

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2))
WORDS = ["the", "film", "plot", "it", "is", "this", "that", "and", "but", "a", "good", "bad", "dull", "great", "very"]


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def texts(count):
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 60))) for _ in range(count)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A saved model, the same as a graph, and a file of texts, some of them longer than it reads."""
    home = tmp_path_factory.mktemp("predict")
    model = powerbert.apply(tiny("bert"), RELATIVE)
    powerbert.save(model, tokenizer_for(), home / "saved")
    powerbert.save(
        model, tokenizer_for(), home / "dial", dial={"3x": RetentionConfiguration.relative((0.5, 0.2, 0, 0))}
    )
    export(*powerbert.load(home / "saved"), home / "graph", "openvino")
    graphs = {"openvino-fp32": home / "graph"}
    powerbert.save(model, tokenizer_for(), home / "both", graphs=graphs, engine="openvino-fp32")
    with (home / "texts.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "review", "stars"])
        writer.writerows([i, text, f"LABEL_{i % 3}"] for i, text in enumerate(texts(40)))
    return home


def predicted(home, *more, model="saved", data="texts.csv"):
    target = home / "answers.jsonl"
    data = home / data
    assert run("predict", "--model", home / model, "--data", data, "--output", target, *more) == 0
    return [json.loads(line) for line in target.read_text().splitlines()]


@pytest.mark.parametrize(("model", "engine"), [("saved", "torch"), ("graph", "openvino")])
@pytest.mark.parametrize("window", [4096, 7])
def test_every_row_is_answered_as_the_pipeline_answers_it_alone(home, monkeypatch, model, engine, window):
    monkeypatch.setattr(command, "HELD", window)
    found = predicted(home, "--text", "review", "--engine", engine, model=model)
    classify = powerbert.pipeline(home / model, engine)
    for i, (answer, text) in enumerate(zip(found, texts(40), strict=True)):
        (alone,) = classify(text)
        assert answer["row"] == i + 2  # the line, after the header
        assert answer["label"] == alone["label"]
        assert answer["score"] == pytest.approx(alone["score"], abs=2e-4)


def test_the_answer_to_a_text_depends_on_no_other_row(tmp_path):
    """N was once chosen by the lengths of the rows beside it."""
    powerbert.save(powerbert.apply(tiny("bert", max_position_embeddings=300), RELATIVE), tokenizer_for(300),
                   tmp_path / "model")  # fmt: skip
    long = "good film " * 100
    (tmp_path / "alone.txt").write_text(long + "\n")
    (tmp_path / "among.txt").write_text(long + "\n" + "bad\n" * 150)
    alone, among = (predicted(tmp_path, model="model", data=name) for name in ("alone.txt", "among.txt"))
    (expected,) = powerbert.pipeline(tmp_path / "model")(long)
    assert alone[0] == among[0]
    assert alone[0]["score"] == pytest.approx(expected["score"], abs=1e-4)


def test_a_trained_folder_is_asked_at_its_own_n_unless_another_is_given(home, tmp_path):
    model, tokenizer = powerbert.load(home / "saved")
    record = json.dumps({"result": {"max_length": 16}}).encode()
    powerbert.save(model, tokenizer, tmp_path / "model", extra={"run.json": record})
    (tmp_path / "long.txt").write_text("good film " * 12 + "bad " * 10 + "\n")
    (short,) = predicted(tmp_path, model="model", data="long.txt")
    (whole,) = predicted(tmp_path, "--max-length", "40", model="model", data="long.txt")
    text = (tmp_path / "long.txt").read_text()
    assert short["score"] == pytest.approx(powerbert.pipeline(tmp_path / "model")(text)[0]["score"], abs=1e-4)
    assert whole["score"] == pytest.approx(powerbert.pipeline(home / "saved")(text)[0]["score"], abs=1e-4)
    assert short["score"] != whole["score"]


def test_a_multi_label_model_is_answered_as_its_pipeline_answers(tmp_path):
    model = tiny("bert", problem_type="multi_label_classification")
    powerbert.save(model, tokenizer_for(), tmp_path / "model")
    (tmp_path / "a.txt").write_text("good film\n")
    (answer,) = predicted(tmp_path, model="model", data="a.txt")
    (expected,) = powerbert.pipeline(tmp_path / "model")("good film")
    assert (answer["label"], answer["score"]) == (expected["label"], round(expected["score"], 4))


def test_a_model_of_one_number_gives_values(tmp_path):
    model = _one_number()
    powerbert.save(model, tokenizer_for(), tmp_path / "model")
    (tmp_path / "a.txt").write_text("good film\tbad film\n")
    (answer,) = predicted(tmp_path, model="model", data="a.txt")
    expected = powerbert.pipeline(tmp_path / "model")({"text": "good film", "text_pair": "bad film"})
    assert answer == {"row": 1, "value": round(expected["score"], 4)}


def _one_number():
    import torch

    model = tiny("bert")
    model.config.problem_type, model.config.num_labels = "regression", 1
    model.classifier = torch.nn.Linear(model.config.hidden_size, 1)
    return model


def test_csv_by_the_name_or_the_flag_with_the_texts_if_asked_for(home, tmp_path, capsys):
    asked = ["predict", "--model", home / "saved", "--data", home / "texts.csv", "--text", "review"]
    assert run(*asked, "--output", tmp_path / "a.csv", "--with-texts") == 0
    with (tmp_path / "a.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["review"] for row in found] == texts(40)
    assert set(found[0]) == {"row", "label", "score", "review"}
    assert run(*asked, "--output", "-", "--format", "csv") == 0
    assert capsys.readouterr().out.splitlines()[0] == "row,label,score"
    assert run(*asked, "--output", tmp_path / "b.csv", "--format", "jsonl") == 0
    assert json.loads((tmp_path / "b.csv").read_text().splitlines()[0])["row"] == 2


def test_a_bad_row_leaves_the_output_as_it_was(home, tmp_path, capsys):
    (tmp_path / "bad.jsonl").write_text('{"text": "good"}\n' * 20 + '{"text": ""}\n')
    (tmp_path / "out.jsonl").write_text("earlier\n")
    asked = ["--data", tmp_path / "bad.jsonl", "--text", "text", "--output", tmp_path / "out.jsonl"]
    assert run("predict", "--model", home / "saved", *asked) == 2
    assert "line 21" in capsys.readouterr().err
    assert (tmp_path / "out.jsonl").read_text() == "earlier\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "out.jsonl"]


def test_rows_are_read_window_by_window(home, monkeypatch):
    """A file larger than memory: no more than the window that is answered and the next one are held."""
    monkeypatch.setattr(command, "HELD", 8)
    read, most = [0, 0], [0]
    stream, rows = command.stream_rows, command.answer_rows

    def counted(*given):
        for row in stream(*given):
            read[0] += 1
            yield row

    def answering(engine, inputs, **options):
        found = rows(engine, inputs, **options)
        read[1] += len(inputs)
        most[0] = max(most[0], read[0] - read[1])
        return found

    monkeypatch.setattr(command, "stream_rows", counted)
    monkeypatch.setattr(command, "answer_rows", answering)
    assert len(predicted(home, "--text", "review")) == 40
    assert most[0] <= 2 * 8


@pytest.mark.parametrize("size", ["0", "-1"])
@pytest.mark.parametrize("flag", ["--batch-size", "--max-length"])
@pytest.mark.parametrize("name", ["predict", "evaluate"])
def test_a_batch_or_an_n_of_nothing_is_refused_in_one_line(home, tmp_path, capsys, name, flag, size):
    more = ["--output", tmp_path / "out"] if name == "predict" else []
    asked = ["--model", home / "saved", "--data", home / "texts.csv", "--text", "review"]
    assert run(name, *asked, flag, size, *more) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert flag in line


def test_a_graph_is_evaluated_as_the_model_it_was_made_of(home, capsys):
    figures = []
    for model, more in (("saved", []), ("graph", ["--precision", "fp32", "--threads", "1"])):
        asked = ["--model", home / model, "--data", home / "texts.csv", "--text", "review", "--label", "stars"]
        assert run("evaluate", *asked, *more, "--json", "-") == 0
        figures.append(json.loads(capsys.readouterr().out))
    saved, graph = figures
    assert (saved.pop("engine"), graph.pop("engine")) == ("torch", "openvino")
    assert saved == graph
    assert graph["word_vectors"] < graph["word_vectors_full"]
    assert graph["retention"] == str(RELATIVE)


def test_what_a_graph_cannot_do_is_refused_in_one_line(home, capsys):
    asked = ["--model", home / "graph", "--data", home / "texts.csv", "--text", "review", "--label", "stars"]
    for more, expected in (
        (["--retention", "1.0,1.0,1.0,1.0"], "--retention"),
        (["--engine", "onnx"], "onnx"),
        (["--precision", "int8"], "int8"),
        (["--threads", "0"], "--threads"),
    ):
        assert run("evaluate", *asked, *more) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert expected in line


def test_a_folder_with_a_graph_answers_in_it_unless_another_retention_is_asked_for(home):
    """The graph carries its own retention; the torch model beside it takes any."""
    target = home / "figures.json"
    asked = ("--model", home / "both", "--data", home / "texts.csv", "--text", "review", "--label", "stars")
    for more, engine in (
        ((), "openvino"),
        (("--retention", "0.9,0.5,0.4,0.1"), "torch"),
        (("--engine", "torch"), "torch"),
    ):
        assert run("evaluate", *asked, *more, "--json", target) == 0
        assert json.loads(target.read_text())["engine"] == engine


def test_a_budget_answers_with_its_configuration(home, capsys):
    target = home / "figures.json"
    asked = ("--model", home / "dial", "--data", home / "texts.csv", "--text", "review", "--label", "stars")
    assert run("evaluate", *asked, "--budget", "3x", "--json", target) == 0
    assert json.loads(target.read_text())["retention"] == "0.5,0.2,0.0,0.0"
    found = predicted(home, "--text", "review", "--budget", "3x", model="dial")
    expected = powerbert.pipeline(home / "dial", budget="3x")(texts(40))
    assert [row["label"] for row in found] == [row["label"] for row in expected]
    capsys.readouterr()
    assert run("evaluate", *asked, "--budget", "9x") == 2
    assert "unknown budget; got '9x'; one of 3x" in capsys.readouterr().err
    assert run("evaluate", *asked, "--budget", "3x", "--retention", "0.5,0.2,0.1,0.1") == 2
    assert "one of --budget and --retention" in capsys.readouterr().err

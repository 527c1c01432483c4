import io
import json
import sys

import pytest
import torch
import transformers
from typer.testing import CliRunner

import powerbert
from powerbert import RetentionConfiguration
from powerbert.cli.main import main, make_app

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, "a", "gorgeous", ",", "witty", "seduct", "##ive", "movie", "<", ">", "script", "/", "plot"]
TEXT = "a gorgeous, witty, seductive movie"
RETENTION = "0.8,0.6,0.3"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A folder with a tiny random BERT of three encoders that carries no retention."""
    folder = tmp_path_factory.mktemp("models") / "plain"
    powerbert.save(tiny_bert(), tiny_tokenizer(folder.parent), folder)
    return folder


@pytest.fixture(scope="module")
def carrying(plain):
    """The same model with a retention and a strategy of its own."""
    folder = plain.parent / "carrying"
    model, tokenizer = powerbert.load(plain)
    retention = RetentionConfiguration.absolute((8, 4, 2), max_length=16)
    powerbert.save(powerbert.apply(model, retention, "head-ws"), tokenizer, folder)
    return folder


def tiny_bert():
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        id2label={0: "negative", 1: "positive"},
        label2id={"negative": 0, "positive": 1},
    )
    return transformers.BertForSequenceClassification(config).eval()


def tiny_tokenizer(folder):
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    vocabulary = {word: index for index, word in enumerate(VOCABULARY)}
    return transformers.BertTokenizerFast(vocab=vocabulary, model_max_length=64)


def explain(*arguments, **options):
    return CliRunner().invoke(
        make_app(), ["explain", *map(str, arguments)], env={"COLUMNS": "100"}, catch_exceptions=False, **options
    )


def mistake(capsys, *arguments):
    """Run `powerbert explain` as a user does; it must fail with one line and exit code 2."""
    with pytest.raises(SystemExit) as end:
        main(["explain", *map(str, arguments)])
    output = capsys.readouterr()
    assert end.value.code == 2
    assert output.out == ""
    assert output.err.startswith("powerbert: error: ")
    assert output.err.count("\n") == 1
    return output.err


# ---- what it shows -----------------------------------------------------------------------


def test_it_prints_a_row_per_encoder_and_a_summary(plain):
    result = explain("--model", plain, "--retention", RETENTION, TEXT)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[3].split()[:2] == ["input", "10/10"]
    assert [line.split()[:2] for line in lines[4:7]] == [["1", "8/10"], ["2", "6/10"], ["3", "3/10"]]
    assert "17 of 30 word-vectors, 1.8x fewer" in result.stdout
    assert "predicted  " in lines[-1]


def test_a_folder_s_own_retention_and_strategy_are_the_default(carrying):
    result = explain("--model", carrying, TEXT, "--json", "-")
    data = json.loads(result.stdout)
    assert data["strategy"] == "head-ws"
    assert data["retained"] == [[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3], [0, 1]]


def test_flags_override_what_the_folder_carries(carrying):
    result = explain("--model", carrying, TEXT, "--retention", "9,9,1", "--max-length", 12, "--json", "-")
    data = json.loads(result.stdout)
    assert data["retention"] == {"kind": "absolute", "max_length": 12, "counts": [9, 9, 1]}
    assert data["strategy"] == "head-ws"
    changed = explain("--model", carrying, TEXT, "--strategy", "attn-ws", "--json", "-")
    assert json.loads(changed.stdout)["strategy"] == "attn-ws"
    assert json.loads(changed.stdout)["counts"] == [8, 4, 2]


def test_json_on_standard_output_is_json_alone(carrying):
    data = json.loads(explain("--model", carrying, TEXT, "--json", "-").stdout)
    assert data["text"] == TEXT
    assert data["tokens"][5:8] == [",", "seduct", "##ive"]
    assert data["label"] in ("negative", "positive")
    assert data["word_vectors"]["without_elimination"] == 30


def test_the_page_is_written_beside_the_rows_and_escapes_the_text(carrying, tmp_path):
    page = tmp_path / "fade.html"
    result = explain("--model", carrying, "<script> movie </script>", "--html", page)
    html = page.read_text(encoding="utf-8")
    assert "predicted" in result.stdout
    assert f"wrote {page}" in result.stderr.replace("\n", "")
    assert '<h1 dir="auto">Words retained in “&lt;script&gt; movie &lt;/script&gt;”</h1>' in html
    assert html.count("<script") == 2


def test_text_is_read_from_standard_input(carrying):
    data = json.loads(explain("--model", carrying, "-", "--json", "-", input=TEXT + "\n").stdout)
    assert data["tokens"][1:3] == ["a", "gorgeous"]


def test_a_pair_of_texts_is_traced_together(carrying):
    data = json.loads(explain("--model", carrying, "a movie", "--text-pair", "a plot", "--json", "-").stdout)
    assert data["tokens"] == ["[CLS]", "a", "movie", "[SEP]", "a", "plot", "[SEP]"]
    assert data["text_pair"] == "a plot"


def test_a_text_longer_than_the_model_reads_is_cut(carrying):
    data = json.loads(explain("--model", carrying, "movie " * 500, "--json", "-").stdout)
    assert len(data["tokens"]) == 16


def test_help_has_an_example():
    assert 'powerbert explain --model FOLDER "' in explain("--help").stdout


# ---- mistakes ----------------------------------------------------------------------------


def test_a_folder_without_retention_and_none_given_names_the_remedy(plain, capsys):
    error = mistake(capsys, "--model", plain, TEXT)
    assert "carries no retention configuration" in error
    assert "--retention" in error


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_text_is_refused(text, plain, capsys):
    assert "the text is empty" in mistake(capsys, "--model", plain, text)


def test_a_text_that_is_not_utf_8_is_refused(plain, capsys):
    assert "not UTF-8" in mistake(capsys, "--model", plain, "bad \udcff")


def test_a_second_text_that_is_not_utf_8_is_refused(plain, tmp_path, capsys):
    error = mistake(capsys, "--model", plain, TEXT, "--text-pair", "bad \udcff", "--json", tmp_path / "a.json")
    assert "--text-pair is not UTF-8" in error


def test_standard_input_that_is_not_utf_8_is_refused(plain, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"bad \xff")))
    assert "the text is not UTF-8" in mistake(capsys, "--model", plain, "-")


def test_a_missing_model_folder_is_refused(tmp_path, capsys):
    assert "is not a folder" in mistake(capsys, "--model", tmp_path / "nope", TEXT)


def test_a_retention_for_another_number_of_encoders_is_refused(plain, capsys):
    assert "the model has 3" in mistake(capsys, "--model", plain, TEXT, "--retention", "0.5,0.4")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--retention", "8,4,2"], "add --max-length N"),
        (["--max-length", "8"], "--max-length belongs to counts"),
        (["--retention", "0.9,0.5,0.1", "--max-length", "8"], "--max-length belongs to counts"),
        (["--retention", "0.1,0.9"], "rises"),
        (["--retention", "much"], "cannot be read"),
        (["--html", "."], "--html is not a file"),
        (["--json", "nope/a.json"], "the folder of --json does not exist"),
        (["--html", "-", "--json", "-"], "both ask for standard output"),
    ],
)
def test_a_mistake_in_the_flags_is_told_before_the_model_is_loaded(flags, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("powerbert.cli.commands.import_module", lambda name: pytest.fail("it was loaded"))
    assert message in mistake(capsys, "--model", tmp_path, TEXT, *flags)


def test_an_unknown_strategy_exits_with_2(plain, capsys):
    assert "rand-ws" in mistake(capsys, "--model", plain, TEXT, "--strategy", "best-ws")

"""The layouts that GLUE, aclImdb and RACE are published in, in miniature; the hub."""

from __future__ import annotations

import json

import datasets
import pytest

from powerbert.errors import DataError
from powerbert.tasks import sources
from powerbert.tasks.readers import read_split, task_data
from powerbert.tasks.registry import find_task, own_task

MNLI_HEAD = "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse "
MNLI_HEAD = (MNLI_HEAD + "sentence2_parse sentence1 sentence2 label1").split()
MNLI_ROW = ["0", "1", "1n", "fiction", "(", ")", "(", ")"]
MSR_HEAD = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
STS_HEAD = ["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score"]
STS_ROW = ["0", "main-captions", "MSRvid", "2012test", "0001", "none", "none"]
GLUE = {  # task: (files of the official download, rows expected per split)
    "CoLA": (
        {
            "train.tsv": [["gj04", "1", "", 'Bill "sang".'], ["gj04", "0", "*", "Bill sang Jo."]],
            "dev.tsv": [["gj04", "1", "", "The sailors rode."]],
        },
        {"train": [('Bill "sang".', 1), ("Bill sang Jo.", 0)], "dev": [("The sailors rode.", 1)]},
    ),
    "SST-2": (
        {
            "train.tsv": [["sentence", "label"], ["no wit ", "0"]],
            "dev.tsv": [["sentence", "label"], ['"charming', "1"]],
        },
        {"train": [("no wit ", 0)], "dev": [('"charming', 1)]},
    ),
    "MRPC": (
        {
            "train.tsv": [MSR_HEAD, ["1", "7", "8", 'He said " a " .', "He said a ."]],
            "dev.tsv": [MSR_HEAD, ["0", "9", "10", "PG & E", "Up 63 cents"]],
            "msr_paraphrase_train.txt": [MSR_HEAD, ["0", "1", "2", "not", "this"]],
        },
        {"train": [('He said " a " .', "He said a .", 1)], "dev": [("PG & E", "Up 63 cents", 0)]},
    ),
    "QQP": (
        {
            "train.tsv": [
                ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
                ["1", "2", "3", "Why?", "How?", "0"],
                ["4", "5", "6", "cut in two"],
                ["7", "8", "9", "", "What?", "1"],
                ["7", "8", "9", "So?", "So?", "1"],
            ],
            "dev.tsv": [
                ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
                ["1", "2", "3", "A?", "B?", "1"],
            ],
        },
        {"train": [("Why?", "How?", 0), ("So?", "So?", 1)], "dev": [("A?", "B?", 1)]},
    ),
    "MNLI-m": (
        {
            "train.tsv": [[*MNLI_HEAD, "gold_label"], [*MNLI_ROW, "a", "b", "neutral", "neutral"]],
            "dev_matched.tsv": [[*MNLI_HEAD, "gold_label"], [*MNLI_ROW, "c", "d", "neutral", "contradiction"]],
            "dev_mismatched.tsv": [[*MNLI_HEAD, "gold_label"], [*MNLI_ROW, "e", "f", "neutral", "entailment"]],
        },
        {"train": [("a", "b", 1)], "dev": [("c", "d", 2)]},
    ),
    "QNLI": (
        {
            name: [["index", "question", "sentence", "label"], ["0", "Who?", "She.", label]]
            for name, label in {"train.tsv": "not_entailment", "dev.tsv": "entailment"}.items()
        },
        {"train": [("Who?", "She.", 1)], "dev": [("Who?", "She.", 0)]},
    ),
    "RTE": (
        {
            name: [["index", "sentence1", "sentence2", "label"], ["0", "No weapons.", "Weapons.", label]]
            for name, label in {"train.tsv": "not_entailment", "dev.tsv": "entailment"}.items()
        },
        {"train": [("No weapons.", "Weapons.", 1)], "dev": [("No weapons.", "Weapons.", 0)]},
    ),
    "STS-B": (
        {name: [STS_HEAD, [*STS_ROW, "A plane.", "A jet.", "3.800"]] for name in ("train.tsv", "dev.tsv")},
        {"train": [("A plane.", "A jet.", 3.8)], "dev": [("A plane.", "A jet.", 3.8)]},
    ),
}
GLUE["MNLI-mm"] = (GLUE["MNLI-m"][0], {"train": [("a", "b", 1)], "dev": [("e", "f", 0)]})


def write(folder, files, end="\n", start=""):
    folder.mkdir(parents=True)
    for name, rows in files.items():
        text = start + "".join("\t".join(row) + end for row in rows)
        (folder / name).write_bytes(text.encode())


def rows(split):
    names = [name for name in split.dataset.column_names if name != "row"]
    return list(zip(*(split.dataset[name] for name in names), strict=True))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("name", GLUE)
def test_glues_own_folders(name, end, start, tmp_path):
    files, expected = GLUE[name]
    task = find_task(name)
    home = tmp_path / task.folders[0]
    write(home, files, end, start)
    for folder in (tmp_path, home):  # of all tasks, of this one
        assert {split: rows(data) for split, data in task_data(folder, task).items()} == expected


def test_the_rows_that_quora_left_incomplete_are_skipped_and_told(tmp_path):
    write(tmp_path / "QQP", GLUE["QQP"][0])
    train = task_data(tmp_path, find_task("qqp"), ["train"])["train"]
    assert train.dataset["row"] == [2, 5]
    assert train.skipped == 2
    assert train.notes == (
        "1 rows with missing fields skipped, the first at line 3",
        "1 rows without a text skipped, the first at line 4",
    )


def test_glues_test_files_have_no_labels_and_cola_has_a_header_there(tmp_path):
    write(tmp_path / "CoLA", {"test.tsv": [["index", "sentence"], ["0", "Bill whistled."]]})
    write(tmp_path / "MNLI", {"test_mismatched.tsv": [MNLI_HEAD[:-1], [*MNLI_ROW, "a", "b"]]})
    assert rows(task_data(tmp_path, find_task("cola"), ["test"], labelled=False)["test"]) == [("Bill whistled.",)]
    assert rows(task_data(tmp_path, find_task("mnli-mm"), ["test"], labelled=False)["test"]) == [("a", "b")]
    with pytest.raises(DataError, match="no column 'label'; the columns are 'index', 'sentence'"):
        task_data(tmp_path, find_task("cola"), ["test"])


def test_mrpc_before_glues_script_ran(tmp_path):
    pairs = [["1", "1", "2", "a", "b"], ["0", "3", "4", "c", "d"], ["1", "5", "6", "e", "f"]]
    write(
        tmp_path / "MRPC",
        {
            "msr_paraphrase_train.txt": [MSR_HEAD, *pairs],
            "msr_paraphrase_test.txt": [MSR_HEAD, ["0", "7", "8", "g", "h"]],
        },
        start="\ufeff",
    )
    task = find_task("mrpc")
    data = task_data(tmp_path, task)
    assert rows(data["train"]) == [("a", "b", 1), ("c", "d", 0), ("e", "f", 1)]
    assert rows(data["dev"]) == [("g", "h", 0)]
    assert rows(read_split(tmp_path / "MRPC" / "msr_paraphrase_test.txt", task)) == [("g", "h", 0)]
    (tmp_path / "MRPC" / "dev_ids.tsv").write_text("3\t4\n")
    data = task_data(tmp_path, task)
    assert rows(data["train"]) == [("a", "b", 1), ("e", "f", 1)]
    assert rows(data["dev"]) == [("c", "d", 0)]
    assert data["train"].dataset["row"] == [2, 4]
    assert rows(task_data(tmp_path, task, ["test"])["test"]) == [("g", "h", 0)]


def test_the_aclimdb_folder(tmp_path):
    home = tmp_path / "aclImdb"
    for split, label, name, text in [
        ("train", "pos", "2_9.txt", "fine<br />film\x85"),
        ("train", "pos", "10_7.txt", "good"),
        ("train", "neg", "0_1.txt", "dire"),
        ("test", "pos", "0_10.txt", "great"),
        ("test", "neg", "0_2.txt", "poor"),
    ]:
        (home / split / label).mkdir(parents=True, exist_ok=True)
        (home / split / label / name).write_text(text, encoding="utf-8")
    task = find_task("imdb")
    for folder in (tmp_path, home):
        data = task_data(folder, task)
        assert rows(data["train"]) == [("dire", 0), ("fine<br />film\x85", 1), ("good", 1)]
        assert rows(data["dev"]) == [("poor", 0), ("great", 1)]
    (home / "train" / "pos" / "3_8.txt").write_text(" \n")
    with pytest.raises(DataError, match=r"train/pos/3_8\.txt: column 'text' is empty"):
        read_split(home / "train", task)
    with pytest.raises(DataError, match="is a folder; a split of IMDB is one file"):
        read_split(home, task)


def page(article: str, *answers: str) -> str:
    questions = [f"Is it {i} _ ?" for i in range(len(answers))]
    options = [["a", "b", "c", "d"]] * len(answers)
    return json.dumps(dict(article=article, questions=questions, options=options, answers=answers, id="x"))


def test_the_race_folder(tmp_path):
    for split in ("train", "dev"):
        for level, name, content in [
            ("high", "high10.txt", page("third", "A")),
            ("high", "high9.txt", page("second", "D")),
            ("middle", "middle1.txt", page("first", "B", "C")),
        ]:
            (tmp_path / "RACE" / split / level).mkdir(parents=True, exist_ok=True)
            (tmp_path / "RACE" / split / level / name).write_text(content)
    task = find_task("race")
    dev = task_data(tmp_path, task)["dev"].dataset
    assert dev["article"] == ["first", "first", "second", "third"]
    assert dev["label"] == [1, 2, 3, 0]
    assert dev["question"][1] == "Is it 1 _ ?"
    assert dev["options"][0] == ["a", "b", "c", "d"]
    assert len(read_split(tmp_path / "RACE" / "dev" / "high", task)) == 2

    bad = tmp_path / "RACE" / "dev" / "high" / "high9.txt"
    for content, message in {
        page("second", "E"): r"high9\.txt, question 1: the label is unknown; got 'E'",
        page(" ", "A"): r"high9\.txt, question 1: column 'article' is empty",
        page("x", "A").replace('"d"]', '"d", "e"]'): r"question 1: column 'options' is not a list of 4 options",
        page("x", "A").replace('"d"]', '""]'): "an option in column 'options' is empty",
        page("x", "A").replace('["A"]', "[]"): r"high9\.txt: not a RACE article",
        page("x", "A").replace('["A"]', '"A"'): "not a RACE article",
        "[]": "not a RACE article",
        "{": "not a RACE article",
    }.items():
        bad.write_text(content)
        with pytest.raises(DataError, match=message) as error:
            task_data(tmp_path, task, ["dev"])
        assert "\n" not in str(error.value)


def test_a_folder_without_the_task_or_with_two_files_for_a_split(tmp_path):
    task = find_task("rte")
    with pytest.raises(DataError, match=r"has no train data of RTE; files are train with \.jsonl"):
        task_data(tmp_path, task)
    (tmp_path / "train.tsv").write_text("x")
    (tmp_path / "train.jsonl").write_text("x")
    with pytest.raises(DataError, match=r"two files for train; got 'train\.jsonl, train\.tsv'"):
        task_data(tmp_path, task)
    with pytest.raises(DataError, match="is not a folder"):
        task_data(tmp_path / "none", task)
    with pytest.raises(DataError, match="unknown split"):
        task_data(tmp_path, task, ["devel"])


def test_a_dataset_dict_is_taken_by_the_hubs_split_names():
    data = datasets.Dataset.from_dict({"premise": ["a"], "hypothesis": ["b"], "label": [2]})
    splits = datasets.DatasetDict({"train": data, "validation_matched": data, "validation_mismatched": data})
    assert rows(task_data(splits, find_task("mnli-m"))["dev"]) == [("a", "b", 2)]
    with pytest.raises(DataError, match="there is no split 'dev'"):
        task_data(datasets.DatasetDict({"train": data}), find_task("mnli-m"))


def test_local_files_leave_no_cache_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    write(tmp_path / "RTE", GLUE["RTE"][0])
    for split in task_data(tmp_path, find_task("rte")).values():
        assert split.dataset.cache_files == []
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("data", [datasets.DatasetDict(), 3, None, ["a"]])
def test_another_object_is_refused(data):
    with pytest.raises(DataError, match=r"a split is a path or a datasets\.Dataset"):
        read_split(data, find_task("sst-2"))


def test_a_hub_name_is_loaded_with_configuration_and_split(monkeypatch):
    asked = []

    def load_dataset(name, configuration, split):
        asked.append((name, configuration, split))
        return datasets.Dataset.from_dict({"sentence": ["a", "b"], "label": [0, 1]})

    monkeypatch.setattr(sources, "load_dataset", load_dataset)
    split = read_split("hub:nyu-mll/glue:sst2@validation", find_task("sst-2"))
    assert split.source == "hub:nyu-mll/glue:sst2@validation"
    task_data("hub", find_task("sst-2"))
    read_split("hub:me/mine", own_task("sentence"))
    assert asked == [
        ("nyu-mll/glue", "sst2", "validation"),
        ("nyu-mll/glue", "sst2", "train"),
        ("nyu-mll/glue", "sst2", "validation"),
        ("me/mine", None, "train"),
    ]


def test_offline_a_hub_name_gives_one_clear_line(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    with pytest.raises(DataError) as error:
        read_split("hub:stanfordnlp/imdb", find_task("imdb"))
    assert "hub:stanfordnlp/imdb cannot be loaded from the Hugging Face hub" in str(error.value)
    assert "HF_HUB_OFFLINE is set; unset it or give local files" in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="not a dataset of the hub"):
        read_split("hub:../imdb", find_task("imdb"))

"""Several labels: lists and separators, metrics by hand, learning with every kind of classifier, and refusals."""

import json
from pathlib import Path

import pytest
import torch

from regard import load
from regard.data.generated.sentences import CLAUSES
from regard.data.records import Records
from regard.errors import InputError
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.tasks.class_prediction import label_metrics
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.multi_label import LabelOutputs, LabelSetTables, MultiLabelRun, Topics

WORDS = ["one", "two", "three", "four", "five"]
MODELS = {
    "flat": "{name: flat-attention, embedding: 16, width: 16, attention: 16}",
    "han": "{name: han, embedding: 16, width: 16, attention: 16}",
    "rocktaschel": "{name: rocktaschel, embedding: 16, width: 16}",
}
QUICK = ["training.steps=150", "training.batch_tokens=400", "training.learning_rate=5e-3", "training.warmup=10"]
QUICK += ["training.validate_every=0", "training.threads=1", "training.precision=fp32", "tokenizer.size=90"]


def examples(seed: int, count: int) -> list[tuple[str, str, list[str]]]:
    """Two texts, and the number words in them but not the other words."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        chosen = [word for word in WORDS if torch.rand((), generator=generator) < 0.4]
        cut = len(chosen) // 2
        found.append((" ".join(["here", *chosen[:cut]]), " ".join(["there", *chosen[cut:]]), chosen))
    return found


def trained(folder: Path, name: str, *settings: str) -> Path:
    for part, seed, count in (("train", 1, 400), ("test", 2, 60)):
        rows = [json.dumps({"text": a, "second": b, "label": labels}) for a, b, labels in examples(seed, count)]
        if name != "rocktaschel":
            rows = [json.dumps({"text": f"{a} {b}", "label": labels}) for a, b, labels in examples(seed, count)]
        (folder / f"{part}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    data = [f"data.{part}={folder / f'{part}.jsonl'}" for part in ("train", "test")]
    pair = ["data.second=second"] if name == "rocktaschel" else []
    read = run_file.read(path_of("multi-label"), [*data, *pair, *QUICK, f"model={MODELS[name]}", *settings])
    launch.train(read, folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("labels"), "flat")


def figures(run: Path) -> dict[str, float]:
    return json.loads((run / "result.json").read_text())


def test_metrics_by_hand():
    predicted = torch.tensor([[1, 1, 0], [0, 1, 0], [0, 0, 0]]).bool()
    expected = torch.tensor([[1, 0, 0], [0, 1, 0], [1, 0, 0]]).bool()
    found = label_metrics(predicted, expected)  # 2 right of 3 predicted and 3 expected
    assert found["micro-f1"] == pytest.approx(100 * 4 / 6)
    assert found["macro-f1"] == pytest.approx(100 * (2 / 3 + 2 / 3) / 2)  # no text has the third label
    assert found["exact-match"] == pytest.approx(100 / 3)
    nothing = label_metrics(torch.zeros(2, 3).bool(), torch.zeros(2, 3).bool())
    assert nothing == {"micro-f1": 0.0, "macro-f1": 0.0, "exact-match": 100.0}


def test_the_loss_is_that_of_each_label():
    outputs = LabelOutputs(("a", "b"), 0.5)
    targets = torch.tensor(outputs.targets([Labelled(("x",), ("b",), "q"), Labelled(("y",), (), "q")]))
    assert targets.tolist() == [[0, 1], [0, 0]]
    logits = torch.tensor([[0.3, -1.0], [2.0, 0.0]], dtype=torch.float64)
    expected = -(logits * (2 * targets - 1)).sigmoid().log().sum()
    torch.testing.assert_close(outputs.loss(logits, targets.double(), 0.0), expected)


def test_the_threshold_is_the_least_probability():
    logits = torch.tensor([[0.0, 1.0, -1.0]])
    assert LabelOutputs(("a", "b", "c"), 0.5).predictions(logits)[0].labels == ("b", "a")
    found = LabelOutputs(("a", "b", "c"), 0.9).predictions(logits)[0]
    assert (found.labels, found.text, found.lines()) == ((), "(none)", ["(none)"])


def test_labels_of_json_lists_and_of_separators(tmp_path: Path):
    rows = [{"text": "x", "label": ["b", "a", "a"]}, {"text": "y", "label": []}, {"text": "z", "label": "a|b"}]
    rows += [{"text": "v", "label": [7, 2.5]}, {"text": "w", "label": None}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = LabelSetTables().read(str(tmp_path / "a.jsonl"))
    assert [each.label for each in found] == [("a", "b"), (), ("a", "b"), ("2.5", "7"), ()]
    assert [each.label for each in LabelSetTables().read(Records("more", rows))] == [each.label for each in found]
    (tmp_path / "a.csv").write_text('text,label\nx,"b, a"\ny,\nz,a\n', encoding="utf-8")
    found = LabelSetTables(separator=",").read(str(tmp_path / "a.csv"))
    assert [each.label for each in found] == [("a", "b"), (), ("a",)]
    (tmp_path / "a.tsv").write_text("x\ta|b\ny\t\n", encoding="utf-8")
    found = LabelSetTables(text=1, label=2).read(str(tmp_path / "a.tsv"))
    assert [each.label for each in found] == [("a", "b"), ()]
    (tmp_path / "b.tsv").write_text("text\tlabel\n\ta\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"b\.tsv:2: column 'text' is empty"):
        LabelSetTables().read(str(tmp_path / "b.tsv"))


def test_a_column_for_each_label(tmp_path: Path):
    (tmp_path / "a.csv").write_text("id,comment,rude,threat\n1,x,1,0\n2,y,0,0\n3,z,1,1\n", encoding="utf-8")
    tables = LabelSetTables(text="comment", label=("rude", "threat"))
    assert [each.label for each in tables.read(str(tmp_path / "a.csv"))] == [("rude",), (), ("rude", "threat")]
    rows = Records("more", [{"comment": "x", "rude": True, "threat": 0}])
    assert [each.label for each in tables.with_columns("comment,threat,rude").read(rows)] == [("rude",)]
    with pytest.raises(InputError, match=r"the columns of labels have 2, 0; expected 0 or 1 in each"):
        tables.read(Records("bad", [{"comment": "x", "rude": 2, "threat": 0}]))
    assert LabelledTables().read(Records("one", [{"text": "x", "label": True}]))[0].label == "true"
    (warning,) = LabelOutputs(("0", "1"), 0.5).describe([])["warnings"]
    assert "if each label has a column of its own, name them with --set 'data.label=[A, B]'" in warning


def test_labels_with_another_separator_get_a_warning():
    some = [Labelled(("x",), ("a;b",), "q"), Labelled(("y",), ("a",), "q")]
    (warning,) = LabelOutputs(("a", "a;b"), 0.5).describe(some)["warnings"]
    assert warning == "the label 'a;b' may be several labels; set data.separator if ';' stands between"


def test_it_learns(run: Path):
    found = figures(run)
    assert (found["test/micro-f1"] > 95, found["test/macro-f1"] > 95, found["test/exact-match"] > 85) == (True,) * 3
    some = load(run, "cpu", task=MultiLabelRun).predict(["here one there three four", "here there"])
    assert [set(each.labels) for each in some] == [{"one", "three", "four"}, set()]
    assert all(list(each.probabilities.values()) == sorted(each.probabilities.values(), reverse=True) for each in some)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("han", 90), ("rocktaschel", 95)])
def test_other_classifiers_learn_too(name: str, least: float, tmp_path: Path):
    assert figures(trained(tmp_path, name, "training.steps=250"))["test/micro-f1"] > least


def test_a_gradient_explains_the_most_likely_label(run: Path):
    found = load(run, "cpu", task=MultiLabelRun).attribute("here two there", kinds=["gradient"])
    assert found.weights.labels[int(found.weights.weights.argmax())] == "two"
    assert found.prediction.to_json()["labels"] == ["two"]


def test_what_does_not_fit(tmp_path: Path):
    with pytest.raises(InputError, match="threshold: got 1, expected a number"):
        run_file.read(path_of("multi-label"), ["data.train=a.tsv", "threshold=1"])
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "x\t\n" * 30, encoding="utf-8")
    none = run_file.read(path_of("multi-label"), [f"data.train={tmp_path / 'a.tsv'}", *QUICK])
    with pytest.raises(InputError, match="no text has a label"):
        launch.train(none, tmp_path / "run")


def test_generated_messages_have_a_clause_for_each_topic():
    assert isinstance(run_file.read(path_of("topics"), ["data.train=a.tsv"]).data, LabelSetTables)
    train, valid, test = Topics(train=200, valid=20, test=30).load().by_name.values()
    assert (len(train), len(valid), len(test)) == (200, 20, 30)
    assert len({each.texts for each in (*train, *valid, *test)}) == 250
    assert {topic for each in train for topic in each.label} == set(CLAUSES)
    assert {len(each.label) for each in train} == {0, 1, 2, 3}
    assert all("{" not in each.texts[0] and len(each.texts[0].split(" , ")) > len(each.label) for each in train)

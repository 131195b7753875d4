"""Classification: it learns, starts from a run that fills in blanks, and refuses what does not fit."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from regard import load
from regard.data.splits import Splits
from regard.errors import InputError
from regard.maps import TextWeights
from regard.models.rocktaschel import Rocktaschel, RocktaschelConfig
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.tasks.base import ReadingObjective
from regard.tasks.class_prediction import (
    compute_class_metrics,
    compute_class_weights,
    count_labels,
    describe_constant_accuracy,
)
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.classification.inputs import Classification, collate_marked, truncate_texts
from regard.tasks.classification.run import ClassificationRun, ClassOutputs
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import END, PAD, START
from regard.training.settings import Training

MODEL = "{name: bert, layers: 2, width: 48, heads: 4, hidden: 96, context: 16, dropout: 0.0}"
COMMON = ["training.batch_tokens=512", "training.threads=1", "training.precision=fp32"]
QUICK = [
    "training.steps=400",
    "training.learning_rate=2e-3",
    "training.warmup=15",
    "training.validate_every=0",
    *COMMON,
]
NUMBERS = ["one", "two", "three", "four", "five"]


def pairs(seed: int, count: int) -> list[tuple[str, str, str]]:
    """Whether the second of two texts has the word of the first."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        word, other, third = (NUMBERS[int(each)] for each in torch.randperm(5, generator=generator)[:3])
        same = bool(torch.rand((), generator=generator) < 0.5)
        found.append((f"{word} here", f"{third} {word if same else other}", "same" if same else "other"))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    for name, seed, count in (("train", 1, 600), ("test", 2, 100)):
        rows = ["a\tb\tclass", *("\t".join(each) for each in pairs(seed, count))]
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    launch.train(config(folder, "tokenizer.size=90", f"model={MODEL}"), folder / "run")
    return folder


def config(folder: Path, *settings: str) -> run_file.RunConfig:
    data = [f"data.train={folder / 'train.tsv'}", f"data.test={folder / 'test.tsv'}"]
    columns = ["data.text=a", "data.second=b", "data.label=class"]
    return run_file.read(path_of("classify"), [*data, *columns, *QUICK, *settings])


def test_it_learns(folder: Path):
    result = json.loads((folder / "run" / "result.json").read_text())
    assert min(result["test/accuracy"], result["test/macro-f1"]) > 90


def test_the_class_of_pairs(folder: Path):
    run = load(folder / "run", "cpu", task=ClassificationRun)
    found = run.predict([("one here", "two one"), ("one here", "two three")])
    assert [each.label for each in found] == ["same", "other"]
    assert all(each.probability == max(each.probabilities.values()) for each in found)
    assert all(sum(each.probabilities.values()) == pytest.approx(1) for each in found)
    with pytest.raises(InputError, match="text 2: is one text; the model classifies two"):
        run.predict([("one", "two"), "one"])


def test_one_class_is_none(folder: Path, tmp_path: Path):
    (tmp_path / "train.tsv").write_text("a\tb\tclass\n" + "x\ty\tsame\n" * 20)
    with pytest.raises(InputError, match="every label is 'same'; expected two classes or more"):
        launch.train(config(folder, f"data.train={tmp_path / 'train.tsv'}"), tmp_path / "run")


def test_a_test_set_that_the_model_cannot_be_measured_on(folder: Path, tmp_path: Path):
    (tmp_path / "test.tsv").write_text("a\tb\tclass\none\ttwo\tsame\none\ttwo\tnew\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"test\.tsv:3: label 'new' is none of the training set's: other, same"):
        launch.train(
            config(folder, "tokenizer.size=90", f"model={MODEL}", f"data.test={tmp_path}/test.tsv"), tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


def test_it_starts_from_a_run_that_fills_in_blanks(folder: Path, tmp_path: Path):
    (tmp_path / "text.txt").write_text("\n\n".join("\n".join(NUMBERS) for _ in range(20)), encoding="utf-8")
    settings = [f"data.train={tmp_path / 'text.txt'}", "tokenizer.size=90", f"model={MODEL}", "training.steps=2"]
    launch.train(run_file.read(path_of("bert"), [*settings, "training.warmup=0", *COMMON]), tmp_path / "bert")
    own = ["tokenizer=null", "model=null", f"training.start={tmp_path / 'bert'}"]
    launch.train(config(folder, *own, "training.steps=1", "training.warmup=0", "training.learning_rate=1e-9"),
                 tmp_path / "run")  # fmt: skip
    before, after = (RunDirectory.open(tmp_path / name).load_tensors(WEIGHTS) for name in ("bert", "run"))
    kept = [name for name in after if name.startswith(("encoder.", "pooler."))]
    assert len(kept) > 10
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in kept)
    assert after["output.weight"].shape == (2, 48)
    assert load(tmp_path / "run", "cpu").tokenizer.digest == load(tmp_path / "bert", "cpu").tokenizer.digest


def test_nothing_to_start_from(folder: Path):
    with pytest.raises(InputError, match="tokenizer and model are not both described; do, or name a run"):
        config(folder, "model=null")


def test_a_batch_has_marks_segments_and_classes():
    batch = collate_marked([(([7, 8], [9]), 1), (([7], [8]), 0)])
    tokens, lengths, segments = (value.tolist() for value in batch.inputs)
    assert tokens == [[START, 7, 8, END, 9, END], [START, 7, END, 8, END, PAD]]
    assert segments == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0]]
    assert (lengths, batch.targets.tolist(), batch.size) == ([6, 5], [1, 0], 11)


@pytest.mark.parametrize(
    ("lengths", "most", "left"),
    [((3, 2), 5, (3, 2)), ((9, 2), 5, (3, 2)), ((9, 8), 5, (3, 2)), ((2, 9), 5, (2, 3)), ((9,), 4, (4,))],
)
def test_the_longest_text_is_cut_first(lengths: tuple[int, ...], most: int, left: tuple[int, ...]):
    found = truncate_texts([list(range(length)) for length in lengths], most)
    assert sorted(map(len, found)) == sorted(left)
    assert all(each == list(range(len(each))) for each in found)


def test_metrics_by_hand():
    told = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])
    found = compute_class_metrics(told, [0, 1, 1, 0])
    assert found["accuracy"] == pytest.approx(75)
    assert found["macro-f1"] == pytest.approx(100 * (4 / 5 + 2 / 3) / 2)


def test_loss_is_the_cross_entropy_of_the_logits():
    torch.manual_seed(1)
    sizes = RocktaschelConfig(embedding=5, width=3)
    model = Rocktaschel(11, 3, sizes).double().eval()
    examples = [Labelled(("a b", "a"), "b", "x:1"), Labelled(("b", "a"), "c", "x:2")]
    tokenizer = Tokenizer.train(TokenizerSettings("word", 9), ["a b"])
    chosen = Classification(
        data=LabelledTables(second="b"), model=sizes, tokenizer=tokenizer.settings, training=Training(batch_tokens=5)
    )
    run = ClassificationRun(chosen, model, tokenizer, ClassOutputs(("a", "b", "c")))
    task = ReadingObjective(run, Splits(examples, examples), run.encode_all(examples))
    batch = task.batch(0, [0, 1])
    wanted = -model(*batch.inputs).log_softmax(-1)[torch.arange(2), batch.targets].sum()
    torch.testing.assert_close(task.loss(model, batch, 1).total, wanted)


def test_a_measurement_with_other_columns(regard, folder: Path, tmp_path: Path):
    good = (folder / "test.tsv").read_text(encoding="utf-8")
    expected = json.loads(regard("evaluate", str(folder / "run"), "--own-data", "--json")[1])
    other = tmp_path / "other.csv"
    other.write_text("n;one;two;same\n" + "".join(f"0;{row}\n" for row in good.replace("\t", ";").splitlines()[1:]))
    code, _, errors = regard("evaluate", str(folder / "run"), str(other))
    assert (code, f"{other}:1: no column 'a' and 'b' and 'class'" in errors) == (2, True)
    code, output, errors = regard("evaluate", str(folder / "run"), str(other), "--json", "--columns", "one,two,same")
    assert json.loads(output) == expected


def test_what_a_pair_of_texts_reads_of_itself(folder: Path):
    run = load(folder / "run", "cpu", task=ClassificationRun)
    reading, (found,) = run.attribute(("one here", "two one")), run.predict([("one here", "two one")])
    assert reading.prediction.text == found.label
    assert isinstance(reading.weights, TextWeights)
    assert (reading.weights.labels, reading.weights.texts) == (("one", "here", "two", "one"), (0, 0, 1, 1))
    assert reading.weights.weights.sum() == pytest.approx(1, abs=1e-5)
    (lookups,) = reading.lookups
    assert lookups.target == ("<s>", "one", "here", "</s>", "two", "one", "</s>")
    assert lookups.first == "rollout"
    assert lookups.alternatives[lookups.first].source == reading.weights.labels


EXAMPLES = [Labelled(("x",), label, f"t:{number}") for number, label in enumerate("aaaaabbbca", 1)]


def test_balanced_weights_give_every_class_the_same_sum():
    weights = compute_class_weights("balanced", "abc", count_labels(EXAMPLES))
    assert [weight * count for weight, count in zip(weights, (6, 3, 1), strict=True)] == pytest.approx([10 / 3] * 3)
    assert compute_class_weights(None, "abc", count_labels(EXAMPLES)) == ()


def test_the_loss_of_an_example_is_multiplied_by_the_weight_of_its_class():
    torch.manual_seed(1)
    logits, targets = torch.randn(5, 3), torch.tensor([0, 2, 1, 2, 2])
    plain = functional.cross_entropy(logits, targets, reduction="none")
    weighted = ClassOutputs(("a", "b", "c"), (1.0, 2.0, 7.0)).loss(logits, targets, 0.0)
    torch.testing.assert_close(weighted, (plain * torch.tensor([1.0, 7.0, 2.0, 7.0, 7.0])).sum())
    torch.testing.assert_close(ClassOutputs(("a", "b", "c")).loss(logits, targets, 0.0), plain.sum())


def test_the_accuracy_of_a_constant_prediction():
    assert describe_constant_accuracy(count_labels(EXAMPLES)) == "always 'a' has an accuracy of 60"


def test_training_pairs_with_hypernyms(tmp_path: Path):
    """A right hypernym is entailed and a wrong one is not; negated texts and other labels have none."""
    rows = [
        ("a dog runs", "a cat sleeps", "NEUTRAL"),
        ("An oboe is here", "x", "ENTAILMENT"),
        ("no dog runs", "x", "NEUTRAL"),
        ("the dog runs", "x", "-"),
        ("nothing", "x", "NEUTRAL"),
    ]
    file = tmp_path / "pairs.tsv"
    file.write_text("text\tsecond\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    hypernyms = {"animal": ("dog", "cat"), "thing to play": ("oboe",)}
    data = LabelledTables(train=str(file), valid=str(file), second="second", hypernyms=hypernyms)
    splits = data.load()
    assert [(*example.texts, example.label) for example in splits.valid] == rows
    assert [(*example.texts, example.label) for example in splits.train[:6]] == [
        rows[0],
        ("a dog runs", "an animal runs", "ENTAILMENT"),
        ("a dog runs", "a thing to play runs", "NEUTRAL"),
        rows[1],
        ("An oboe is here", "a thing to play is here", "ENTAILMENT"),
        ("An oboe is here", "an animal is here", "NEUTRAL"),
    ]
    assert len(splits.train) == 9
    held_out = replace(data, valid=None, held_out=0.5).load()
    assert {(*example.texts, example.label) for example in held_out.valid} <= set(rows)

"""Documents and pairs: models that attend learn their classes in seconds, and what they look at is drawn."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import load
from regard.errors import InputError
from regard.maps import Alignment, DocumentWeights
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.classification.run import ClassificationRun

QUICK = ["training.warmup=10", "training.validate_every=0", "training.threads=1", "training.precision=fp32"]
FILLERS = ["the film was long .", "we saw it there .", "he plays a man .", "it rains in it ."]
MOODS = {"good": "it is so good .", "bad": "it is so bad ."}
THINGS = ["dog", "cat", "boy", "girl", "man"]


def documents(seed: int, count: int) -> list[dict[str, Any]]:
    """One sentence of a few says which class it is."""
    generator = torch.Generator().manual_seed(seed)

    def draw(most: int) -> int:
        return int(torch.randint(most, (), generator=generator))

    found = []
    for number in range(count):
        label = ["good", "bad"][draw(2)]
        sentences = [FILLERS[draw(4)] for _ in range(1 + draw(4))]
        sentences.insert(draw(len(sentences) + 1), MOODS[label])
        found.append({"review": sentences, "mood": label, "fold": number % 5})
    return found


def pairs(seed: int, count: int) -> list[tuple[str, str, str]]:
    """Whether the second text's thing is the first's."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        one, other = (THINGS[int(each)] for each in torch.randperm(5, generator=generator)[:2])
        same = bool(torch.rand((), generator=generator) < 0.5)
        found.append((f"a {one} runs", f"there is a {one if same else other}", "yes" if same else "no"))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    lines = [json.dumps(each) for each in documents(1, 300)]
    (folder / "reviews.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = ["a\tb\tlabel", *("\t".join(each) for each in pairs(1, 400))]
    (folder / "pairs.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def of_documents(folder: Path, *settings: str) -> run_file.RunConfig:
    data = [f"data.train={folder / 'reviews.jsonl'}", "data.text=review", "data.label=mood", "data.fold=fold"]
    data += ["data.valid_folds=[3]", "data.test_folds=[4]", "training.batch_tokens=512", "training.steps=60"]
    return run_file.read(path_of("reviews"), [*data, *QUICK, "training.learning_rate=1e-2", *settings])


def of_pairs(folder: Path, *settings: str) -> run_file.RunConfig:
    data = [f"data.train={folder / 'pairs.tsv'}", "data.text=a", "data.second=b", "data.label=label"]
    small = ["model.embedding=16", "model.width=24", "model.dropout=0.0", "training.batch_tokens=256"]
    more = ["training.steps=250", "training.learning_rate=1e-2"]
    return run_file.read(path_of("entailment"), [*data, *QUICK, *small, *more, *settings])


HAN = "{name: han, embedding: 12, width: 8, attention: 9, longest_sentence: 7}"
FLAT = "{name: flat-attention, embedding: 12, width: 8, attention: 9}"


@pytest.fixture(scope="module")
def reviews(folder: Path) -> Path:
    result = launch.train(of_documents(folder, f"model={HAN}"), folder / "han")
    assert result["test/accuracy"] == 100
    return folder / "han"


@pytest.fixture(scope="module")
def entailment(folder: Path) -> Path:
    result = launch.train(of_pairs(folder), folder / "pairs")
    assert result["valid/accuracy"] > 90
    return folder / "pairs"


def opened(folder: Path) -> ClassificationRun:
    return load(folder, "cpu", task=ClassificationRun)


def test_it_looks_at_the_sentence_and_the_word_that_say_the_class(reviews: Path):
    looked = opened(reviews).attribute("He plays a man. The film was long. It is so bad. We saw it there.")
    assert looked.prediction.text == "bad"
    assert isinstance(looked.weights, DocumentWeights)
    assert looked.weights.weights.argmax() == 2
    assert looked.weights.weights.sum() == pytest.approx(1)
    assert looked.weights.sentences[2] == ("It", "is", "so", "bad.")
    assert looked.weights.words[2].argmax() >= 2
    assert all(each.sum() == pytest.approx(1) for each in looked.weights.words)


def test_documents_of_sentences_are_what_their_text_is(reviews: Path):
    run = opened(reviews)
    text, sentences = "it is so good . the film was long .", ["it is so good .", "the film was long ."]
    (one,), (other,) = run.predict([text]), run.predict([sentences])
    assert one == other
    given = documents(7, 20)
    examples = [Labelled((" ".join(each["review"]),), each["mood"], "x", tuple(each["review"])) for each in given]
    assert run.evaluate(examples)["accuracy"] == 100


def test_row_25_documents_of_nothing_of_one_word_and_of_very_many_sentences(reviews: Path):
    run = opened(reviews)
    long = ["it is so bad ."] + ["the film was long ."] * 9_999
    found = run.predict(["", "good", long, "word " * 1000])
    assert [len(each.probabilities) for each in found] == [2] * 4
    together = run.predict(["", "good"])
    assert [each.probability for each in together] == pytest.approx([each.probability for each in found[:2]])
    looked = run.attribute("")
    assert isinstance(looked.weights, DocumentWeights)
    assert looked.weights.sentences == ()
    cut = run.attribute("one two three four five six seven eight nine").weights
    assert isinstance(cut, DocumentWeights)
    assert len(cut.sentences) > 1  # of more than 7 tokens


def test_show_draws_a_document(regard, reviews: Path, tmp_path: Path):
    text = "The film was long. It is so good."
    code, output, _ = regard("show", str(reviews), text, "--out", str(tmp_path / "a.html"))
    assert (code, output.split("\t")[0]) == (0, "good")
    assert '"sentences":[' in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert regard("show", str(reviews), text, "--out", str(tmp_path / "a.png"))[0] == 0
    code, output, _ = regard("predict", str(reviews), text, "--json")
    assert (code, json.loads(output)["label"]) == (0, "good")


@pytest.mark.parametrize(
    "model", [FLAT, HAN.replace("}", ", words: average}"), HAN.replace("}", ", sentences: maximum}")]
)
def test_what_it_is_compared_with(folder: Path, model: str, tmp_path: Path):
    result = launch.train(of_documents(folder, f"model={model}", "training.steps=80"), tmp_path / "run")
    assert result["test/accuracy"] > 90
    run = opened(tmp_path / "run")
    if "maximum" in model:
        with pytest.raises(InputError, match="this run's model has no weights; it has gradient"):
            run.attribute("It is so bad.")
        return
    weights = run.attribute("The film was long. It is so bad.").weights
    assert isinstance(weights, DocumentWeights)
    assert weights.weights.sum() == pytest.approx(1)
    if "average" in model:
        np.testing.assert_allclose(weights.words[0], [0.2, 0.2, 0.2, 0.4])  # `long.` is two tokens
    else:
        assert weights.weights.argmax() == 1


def test_it_tells_and_shows_what_each_word_reads(entailment: Path):
    run = opened(entailment)
    found = run.predict([("a dog runs", "there is a dog"), ("a dog runs", "there is a cat")])
    assert [each.label for each in found] == ["yes", "no"]
    looked = run.attribute(("a dog runs", "there is a dog"))
    assert isinstance(looked.weights, Alignment)
    assert (looked.weights.source, looked.weights.target) == (("a", "dog", "runs"), ("there", "is", "a", "dog"))
    np.testing.assert_allclose(looked.weights.weights.sum(1), 1, atol=1e-6)


@pytest.mark.parametrize(("reading", "rows"), [("none", 0), ("last", 1)])
def test_other_readings(folder: Path, reading: str, rows: int, tmp_path: Path):
    launch.train(of_pairs(folder, f"model.reading={reading}", "training.steps=10"), tmp_path / "run")
    run = opened(tmp_path / "run")
    if not rows:
        with pytest.raises(InputError, match="this run's model has no weights; it has gradient"):
            run.attribute(("a dog", "a cat"))
        return
    weights = run.attribute(("a dog", "a cat runs")).weights
    assert isinstance(weights, Alignment)
    assert (weights.source, weights.target) == (("a", "dog"), ("the class",))
    assert weights.weights.sum() == pytest.approx(1)
    assert run.attribute(("a dog", "")).weights.weights.shape == (1, 2)


def test_pairs_of_nothing(entailment: Path):
    run = opened(entailment)
    found = run.predict([("", ""), ("a dog", ""), ("", "a dog")])
    assert all(sum(each.probabilities.values()) == pytest.approx(1) for each in found)
    assert [run.attribute(pair).weights.weights.shape for pair in (("", "a dog"), ("a dog", ""))] == [(2, 0), (0, 2)]


def test_folds(folder: Path):
    data = of_documents(folder).data
    assert isinstance(data, LabelledTables)
    splits = data.load()
    assert [len(some) for some in (splits.train, splits.valid, splits.test)] == [180, 60, 60]
    assert splits.test[0].sentences == tuple(documents(1, 5)[4]["review"])
    assert splits.test[0].texts == (" ".join(splits.test[0].sentences),)
    assert splits.test[0].place.endswith("reviews.jsonl:5")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["data.test_folds=[9]"], r"reviews.jsonl: no row has 9 for 'fold'; there are 0, 1, 2, 3, 4"),
        (["data.test_folds=[0, 1, 2, 4]"], "no row is left to train on; give fewer folds"),
        (["data.test_folds=[3]"], "fold needs valid_folds or test_folds, different ones"),
        (["data.fold=null"], "fold needs valid_folds or test_folds"),
        (["data.valid=a.jsonl"], "for sets without a file"),
        (["data.fold=part"], r"reviews.jsonl:1: no column 'part'"),
        (["data.second=comment"], "the model han reads one text; remove data.second"),
        (["training.batch_tokens=16"], r"reviews.jsonl:\d+: \d+ tokens, more than training.batch_tokens, 16; raise it"),
    ],
)
def test_what_does_not_fit(folder: Path, settings: list[str], said: str, tmp_path: Path):
    with pytest.raises(InputError, match=said):
        launch.train(of_documents(folder, f"model={HAN}", *settings), tmp_path / "run")


def test_row_25_a_document_longer_than_a_batch_is_named_by_its_line(folder: Path, tmp_path: Path):
    rows = [{"text": each["review"], "label": each["mood"]} for each in documents(1, 30)]
    rows[10]["text"] = ["it is so bad ."] * 10_000  # behind the tenth, which is held out
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    data = f"data={{kind: labelled, train: {path}}}"
    with pytest.raises(InputError, match=r"long\.jsonl:11: 50000 tokens, more than training\.batch_tokens, 512; raise"):
        launch.train(of_documents(folder, f"model={HAN}", data), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_row_14_sentences_of_the_wrong_kind(folder: Path, tmp_path: Path):
    path = tmp_path / "a.jsonl"
    for value, said in (
        ("[]", "is an empty list, expected at least one text"),
        ('["b", 3]', "is int, expected text"),
        ('[" "]', "is empty"),
    ):
        path.write_text(f'{{"label": 1, "text": {value}}}\n', encoding="utf-8")
        with pytest.raises(InputError, match=rf"a.jsonl:1: character 14: column 'text' {said}"):
            LabelledTables(train=str(path)).load()

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    lines = [json.dumps(each) for each in documents(1, 300)]
    (folder / "reviews.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def of_documents(folder: Path, *settings: str) -> run_file.RunConfig:
    data = [f"data.train={folder / 'reviews.jsonl'}", "data.text=review", "data.label=mood", "data.fold=fold"]
    data += ["data.valid_folds=[3]", "data.test_folds=[4]", "training.batch_tokens=512", "training.steps=60"]
    return run_file.read(path_of("reviews"), [*data, *QUICK, "training.learning_rate=1e-2", *settings])


HAN = "{name: han, embedding: 12, width: 8, attention: 9, longest_sentence: 7, word_dropout: 0.1}"
FLAT = "{name: flat-attention, embedding: 12, width: 8, attention: 9}"


@pytest.fixture(scope="module")
def reviews(folder: Path) -> Path:
    result = launch.train(of_documents(folder, f"model={HAN}"), folder / "han")
    assert result["test/accuracy"] == 100
    return folder / "han"


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


def test_documents_of_nothing_of_one_word_and_of_very_many_sentences(reviews: Path):
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


@pytest.mark.parametrize(("reading", "rows"), [("none", 0), ("last", 1)])
def test_readings_of_pairs(reading: str, rows: int, tmp_path: Path):
    pairs = ["a dog runs\tthere is a dog\tyes", "a dog runs\tthere is a cat\tno"] * 20
    (tmp_path / "pairs.tsv").write_text("\n".join(["a\tb\tlabel", *pairs]), encoding="utf-8")
    data = [f"data.train={tmp_path / 'pairs.tsv'}", "data.text=a", "data.second=b", "data.label=label"]
    small = [f"model.reading={reading}", "model.score=additive", "model.compare=false"]
    small += ["model.width=24", "training.steps=10", "training.batch_tokens=256"]
    launch.train(run_file.read(path_of("entailment"), [*data, *QUICK, *small]), tmp_path / "run")
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
        (["data.test_folds=[3]"], "fold needs valid_folds or test_folds, different ones"),
        (["data.valid=a.jsonl"], "for sets without a file"),
        (["data.second=comment"], "the model han reads one text; remove data.second"),
    ],
)
def test_what_does_not_fit(folder: Path, settings: list[str], said: str, tmp_path: Path):
    with pytest.raises(InputError, match=said):
        launch.train(of_documents(folder, f"model={HAN}", *settings), tmp_path / "run")


def test_a_document_longer_than_a_batch_is_named_by_its_line(folder: Path, tmp_path: Path):
    rows = [{"text": each["review"], "label": each["mood"]} for each in documents(1, 30)]
    rows[10]["text"] = ["it is so bad ."] * 10_000  # behind the tenth, which is held out
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    data = f"data={{kind: labelled, train: {path}}}"
    with pytest.raises(InputError, match=r"long\.jsonl:11: 50000 tokens, more than training\.batch_tokens, 512; raise"):
        launch.train(of_documents(folder, f"model={HAN}", data), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_sentences_of_the_wrong_kind(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    for value, said in (("[]", "is an empty list, expected at least one text"), ('["b", 3]', "is int, expected text")):
        path.write_text(f'{{"label": 1, "text": {value}}}\n', encoding="utf-8")
        with pytest.raises(InputError, match=rf"a.jsonl:1: character 14: column 'text' {said}"):
            LabelledTables(train=str(path)).load()

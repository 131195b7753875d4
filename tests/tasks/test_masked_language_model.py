"""The task of filling in blanks: it learns, its runs do what they say, and what they refuse."""

import json
from pathlib import Path

import pytest
import torch

from regard import load
from regard.errors import InputError
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun

SENTENCES = ["one two three four five six", "seven eight nine ten eleven twelve"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows two sentences, each by its own documents."""
    folder = tmp_path_factory.mktemp("bert")
    (folder / "text.txt").write_text(
        "\n\n".join("\n".join([SENTENCES[n % 2]] * 4) for n in range(60)), encoding="utf-8"
    )
    settings = [
        f"data.train={folder / 'text.txt'}",
        "tokenizer.size=90",
        "model={name: bert, layers: 2, width: 32, heads: 2, hidden: 64, context: 16, dropout: 0.0}",
        "training.steps=300",
        "training.batch_tokens=512",
        "training.learning_rate=3e-3",
        "training.warmup=30",
        "training.threads=1",
        "training.precision=fp32",
    ]
    launch.train(run_file.read(path_of("bert"), settings), folder / "run")
    return folder


def opened(folder: Path) -> MaskedLanguageModelRun:
    return load(folder / "run", "cpu", task=MaskedLanguageModelRun)


def test_it_learns_words_and_which_text_follows(folder: Path):
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["valid/masked-accuracy"] > 90
    assert result["valid/next-sentence"] > 60  # of two kinds of documents, every other wrong pair is of one kind
    assert opened(folder).evaluate([tuple(SENTENCES[:1] * 4), tuple(SENTENCES[1:] * 4)])["masked-accuracy"] > 90


def test_blanks_are_filled(folder: Path):
    [[ways]] = opened(folder).fill(["one two [MASK] four five six"], best=2)
    assert (ways[0].token, ways[0].text) == ("three", "one two three four five six")
    assert ways[0].probability > 0.5 > ways[1].probability


def test_vectors_tell_texts_apart(folder: Path):
    one, other, again = opened(folder).embed(["one two three", "seven eight nine", "one two three"])
    assert torch.equal(one, again)
    assert torch.cosine_similarity(one, other, dim=0) < 0.9
    assert opened(folder).embed([]).shape == (0, 32)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("one two", r"has no blank; write \[MASK\] where one is"),
        ("one " * 15 + "[MASK]", "has 16 tokens and two special tokens"),
    ],
)
def test_texts_that_cannot_be_filled(text: str, message: str, folder: Path):
    with pytest.raises(InputError, match=message):
        opened(folder).fill([text])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("tokenizer.kind=bpe", "whose vocabulary has no mask token"),
        ("model.predictions=false", "fills no blanks and cannot be trained"),
        ("training.batch_tokens=9", "less than one text of model.context"),
        ("model.pooler=false", "set pooler, or next_sentence to false"),
    ],
)
def test_settings_that_do_not_fit(setting: str, message: str, folder: Path, tmp_path: Path):
    settings = [f"data.train={folder / 'text.txt'}", "tokenizer.size=300", "training.steps=1", setting]
    settings.append("training.warmup=0")
    with pytest.raises(InputError, match=message):
        launch.train(run_file.read(path_of("bert"), settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()

"""Bidirectional language modelling: it learns, its runs predict and embed, and it refuses what does not fit."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import load
from regard.errors import InputError
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.tasks.bidirectional_language_model import ElmoRun

SENTENCES = ["the bank lends me money .", "a river has a muddy bank ."]
MODEL = "name: elmo, characters: 12, character_width: 5, filters: [[2, 13], [3, 17]], projection: 23, cell: 31"


def settings(folder: Path, softmax: str = "{kind: full}", **more: Any) -> list[str]:
    (folder / "text.txt").write_text("\n".join(SENTENCES * 20) + "\n", encoding="utf-8")
    given = {
        "data.train": folder / "text.txt",
        "model": f"{{{MODEL}, dropout: 0.0, softmax: {softmax}}}",
        "window": 5,
        "training.steps": 200,
        "training.batch_tokens": 128,
        "training.learning_rate": 1e-2,
        "training.warmup": 5,
        "training.threads": 1,
        "training.precision": "fp32",
    }
    return [f"{key}={value}" for key, value in (given | more).items()]


@pytest.fixture(scope="module", params=["{kind: full}", "{kind: sampled, samples: 11}"], ids=["full", "sampled"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows two sentences."""
    folder = tmp_path_factory.mktemp("elmo")
    launch.train(run_file.read(path_of("elmo"), settings(folder, request.param)), folder / "run")
    return folder


def opened(folder: Path) -> ElmoRun:
    return load(folder / "run", "cpu", task=ElmoRun)


@pytest.mark.slow
def test_it_learns_in_both_directions(folder: Path):
    """Given the sentence all is certain but its first word, and in parts of five the first word of each; of 2 x 7 words
    told backwards as few."""
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["valid/forward-perplexity"] < 2
    assert result["valid/backward-perplexity"] < 2
    mean = (result["valid/forward-perplexity"] * result["valid/backward-perplexity"]) ** 0.5
    assert result["valid/perplexity"] == pytest.approx(mean)
    found = opened(folder).evaluate(SENTENCES * 2)
    assert found["perplexity"] == pytest.approx(result["valid/perplexity"], rel=0.05)
    assert opened(folder).evaluate(["money me lends bank the ."])["perplexity"] > 4 * found["perplexity"]


def test_a_word_has_another_vector_in_another_sentence(folder: Path):
    run = opened(folder)
    first, second, again, empty = run.embed_words([*SENTENCES, SENTENCES[0], ""])
    assert first.words == ["the", "bank", "lends", "me", "money", "."]
    assert empty.states.shape == (3, 0, 46)
    assert torch.equal(first.states, again.states)
    banks = [each.states[:, list(each.words).index("bank")] for each in (first, second)]
    assert torch.equal(banks[0][0], banks[1][0])  # the characters know nothing of the sentence
    assert torch.cosine_similarity(*(bank[2] for bank in banks), dim=0) < 0.9
    alone = run.embed_words(SENTENCES[1:])[0]
    torch.testing.assert_close(alone.states, second.states, rtol=1e-5, atol=1e-5)


def test_vectors_of_texts(folder: Path):
    run = opened(folder)
    vectors = run.embed([SENTENCES[0], ""])
    [words] = run.embed_words(SENTENCES[:1])
    torch.testing.assert_close(vectors[0], words.states.mean((0, 1)))
    torch.testing.assert_close(vectors[0], words.vectors().mean(0))
    assert not vectors[1].any()
    assert run.embed([]).shape == (0, 46)


def test_the_command(folder: Path, regard):
    code, output, _ = regard("embed", str(folder / "run"), "the bank", "--words")
    told = json.loads(output)
    assert (code, [each["word"] for each in told["words"]]) == (0, ["the", "bank"])
    code, output, _ = regard("embed", str(folder / "run"), "the bank")
    vectors = torch.tensor([each["vector"] for each in told["words"]])
    assert code == 0
    torch.testing.assert_close(torch.tensor(json.loads(output)["vector"]), vectors.mean(0))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"tokenizer.kind": "bpe"}, "tokenizer.kind is bpe; ELMo reads words"),
        ({"model.predictions": "false"}, "predicts no words and cannot be trained"),
        ({"training.batch_tokens": 5}, "too few for a window of 5 words and a mark"),
        ({"training.label_smoothing": 0.1, "model.softmax.kind": "sampled"}, "label_smoothing needs a full softmax"),
        ({"model.characters": 3, "model.filters": "[[2, 3], [4, 5]]"}, "a filter reads 4 characters at once"),
    ],
)
def test_settings_that_do_not_fit(setting: dict[str, Any], message: str, tmp_path: Path):
    with pytest.raises(InputError, match=message):
        launch.train(run_file.read(path_of("elmo"), settings(tmp_path, **setting)), tmp_path / "run")
    assert not (tmp_path / "run").exists()

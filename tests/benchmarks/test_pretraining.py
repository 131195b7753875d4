"""Baselines of a fine-tuned model: untrained weights, and one token for all blanks."""

from pathlib import Path

import pytest
import torch

from benchmarks.pretraining import most_frequent, untrained
from regard.models.bert import Bert
from regard.runs import run_file
from regard.runs.load import load
from regard.runs.recipes import path_of
from regard.tasks.masked_language_model.config import MaskedLanguageModelling
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
from regard.text import Tokenizer


@pytest.fixture
def run(tmp_path: Path) -> MaskedLanguageModelRun:
    for name, text in (("train", "a a a b"), ("test", "b a b b")):
        (tmp_path / f"{name}.txt").write_text(f"{text}\n{text}\n\n{text}\n{text}\n", encoding="utf-8")
    files = [f"data.{name}={tmp_path / name}.txt" for name in ("train", "test")]
    sizes = ["model.layers=1", "model.width=6", "model.heads=3", "model.hidden=5", "model.context=11"]
    config = run_file.read(path_of("bert"), [*files, *sizes, f"data.valid={tmp_path / 'test.txt'}"])
    assert isinstance(config, MaskedLanguageModelling)
    tokenizer = Tokenizer.train(config.tokenizer, ["a a a b"])
    return MaskedLanguageModelRun(config, Bert(tokenizer.size, config.model), tokenizer)


def test_the_share_of_the_most_frequent_token(run: MaskedLanguageModelRun):
    assert most_frequent(run) == pytest.approx(25)


def test_an_untrained_run_differs_in_its_weights_alone(run: MaskedLanguageModelRun, tmp_path: Path):
    one, other, same = (untrained(tmp_path / f"{name}", run, seed) for name, seed in (("a", 1), ("b", 2), ("c", 1)))
    assert untrained(one, run, 1) == one
    found = [load(each, "cpu", task=MaskedLanguageModelRun) for each in (one, other, same)]
    assert {each.tokenizer.digest for each in found} == {run.tokenizer.digest}
    assert all(each.config.model == run.config.model for each in found)
    weights = [each.model.encoder.embedding.table.weight for each in found]
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])

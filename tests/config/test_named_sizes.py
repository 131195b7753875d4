"""Sizes that are called by a name in run files."""

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import InputError
from regard.models.bert import Bert
from regard.models.gpt2 import GPT2, GPT2Config
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.training.devices import count_parameters


def given(recipe: str, *overrides: str) -> Any:
    """The model of a recipe that is changed by options."""
    return run_file.read(path_of(recipe), [f"data.train={recipe}", *overrides]).model


@pytest.mark.parametrize(("size", "millions"), [("124M", 124), ("355M", 355), ("774M", 774), ("1558M", 1558)])
def test_gpt2_has_the_released_sizes(size: str, millions: int):
    config = given("language-gpt2", f"model.size={size}", "model.softmax={kind: full}")
    with torch.device("meta"):
        assert round(count_parameters(GPT2(50_257, config)) / 1e6) == millions
    assert config == GPT2Config(**GPT2Config.named_sizes[size], dropout=0.2)  # which the recipe says


@pytest.mark.parametrize(("size", "millions"), [("base", 110.1), ("large", 336.2)])
def test_bert_has_the_released_sizes(size: str, millions: float):
    config = given("bert", f"model.size={size}")
    with torch.device("meta"):
        assert round(count_parameters(Bert(30_522, config)) / 1e6, 1) == millions


def test_what_stands_beside_a_size_outweighs_it(tmp_path: Path):
    path = tmp_path / "run.yaml"
    path.write_text(
        "task: language-model\ndata: {kind: text}\ntokenizer: {kind: character}\n"
        "model:\n  name: gpt2\n  layers: 2\n  size: 355M\n  dropout: 0.3\n"
    )
    sizes = GPT2Config.named_sizes
    released: dict[str, Any] = {**sizes["355M"], "layers": 2}
    larger: dict[str, Any] = {**sizes["774M"], "heads": 8}
    assert run_file.read(path).model == GPT2Config(**released, dropout=0.3)
    changed = run_file.read(path, ["model.heads=8", "model.size=774M"]).model
    assert changed == GPT2Config(**larger, dropout=0.3)
    with pytest.raises(InputError, match=r"--set model\.size: got 124, .*124M"):
        run_file.read(path, ["model.size=124"])
    path.write_text(path.read_text().replace("355M", "base"))
    with pytest.raises(InputError, match=r"run\.yaml:7: model\.size: got 'base', .*124M"):
        run_file.read(path)

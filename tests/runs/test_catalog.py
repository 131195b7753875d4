"""The tables of names: each leads to a class that goes by that name, and all tables and types have the same ones."""

import re
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, Literal, get_args, get_type_hints

import pytest
import torch
from torch import Tensor

from regard.attention.align import Align
from regard.attention.memory import Memory
from regard.attention.positions import RelativePositions
from regard.attention.scores import Score
from regard.config.loader import Registry
from regard.errors import InputError
from regard.models import catalog
from regard.models.attention import ALIGNS, POSITIONS, RELATIVE_POSITIONS, SCORES
from regard.models.luong import Luong, LuongConfig
from regard.models.sizes import EncoderDecoderDefaults
from regard.nn.layers import NoPositions, Positions
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.tasks.catalog import TASKS
from regard.tasks.run import Run, Task
from regard.testing import check_decoder

TRANSFORMER = "{name: transformer, layers: 1, width: 6, hidden: 5, heads: 2, shared: false, score: laplace2}"
MODELS = (catalog.MODELS, catalog.CAPTIONERS, catalog.LANGUAGE_MODELS, catalog.CLASSIFIERS)


@pytest.mark.parametrize("name", TASKS.locations)
def test_tasks(name: str):
    task = TASKS[name]
    assert isinstance(task, Task)
    assert get_args(get_type_hints(task.config)["task"]) == (name,)
    assert Run in task.run.__mro__
    assert get_type_hints(task.run.open)["config"] in (task.config, Any)
    assert get_type_hints(task.setup)["config"] is task.config
    assert re.split("[.:]", TASKS.locations[name])[0].replace("_", "-") == name


@pytest.mark.parametrize("models", MODELS, ids=lambda models: models.group)
def test_models(models: Registry):
    for name in models:
        config = models[name].config_class
        assert get_args(get_type_hints(config)["name"]) == (name,)
        assert get_type_hints(models[name].__init__)["config"] is config


@pytest.mark.parametrize("registry", [SCORES, ALIGNS, POSITIONS], ids=lambda registry: registry.group)
def test_parts_of_models(registry: Registry):
    for name in registry:
        part = registry[name](6, 5)
        assert isinstance(part, (Score, Align, Positions))
        if registry is POSITIONS and name in RELATIVE_POSITIONS:
            assert isinstance(part, NoPositions)  # nothing is added to states
            assert isinstance(RELATIVE_POSITIONS[name](5, 6), RelativePositions)


def test_an_unknown_name():
    with pytest.raises(KeyError, match="transfomer"):
        catalog.MODELS["transfomer"]
    assert "transfomer" not in catalog.MODELS


class Laplace(Score):
    """Minus the distance by coordinates."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return -(query[..., :, None, :] - key[..., None, :, :]).abs().sum(-1)


def laplace(width: int, longest: int) -> Score:
    return Laplace()


@dataclass(frozen=True)
class MineConfig(EncoderDecoderDefaults):
    name: Literal["mine"] = "mine"
    width: int = 6


class Mine(Luong):
    config_class = MineConfig  # pyright: ignore[reportAssignmentType]

    def __init__(self, source_vocabulary: int, target_vocabulary: int, config: MineConfig):
        super().__init__(source_vocabulary, target_vocabulary, LuongConfig(embedding=5, width=config.width, layers=1))


def add(monkeypatch: pytest.MonkeyPatch, registry: Registry, name: str, part: str) -> None:
    """As an installed package would."""
    point = EntryPoint(name, f"{__name__}:{part}", registry.group)
    monkeypatch.setitem(vars(registry), "plugins", {name: point})


@pytest.mark.parametrize("model", ["{name: luong, width: 6, score: laplace2}", TRANSFORMER])
def test_a_score_of_another_package_by_its_name(monkeypatch: pytest.MonkeyPatch, model: str):
    with pytest.raises(InputError, match=r"model\.score: got 'laplace2', expected dot, general, .*cosine.*distance"):
        run_file.read(path_of("dates"), [f"model={model}"])
    add(monkeypatch, SCORES, "laplace2", "laplace")
    config = run_file.read(path_of("dates"), [f"model={model}"]).model
    found = catalog.MODELS.build(config, 11, 13).decoder
    assert any(isinstance(each, Laplace) for each in found.modules())
    memory = Memory.of(torch.randn(3, 5, 6), torch.tensor([5, 1, 3]), torch.randn(3, 6))
    check_decoder(found.eval(), memory)


def test_a_model_of_another_package_by_its_name(monkeypatch: pytest.MonkeyPatch):
    add(monkeypatch, catalog.MODELS, "mine", "Mine")
    config = run_file.read(path_of("dates"), ["model={name: mine, width: 4}"]).model
    assert config == MineConfig(width=4)
    assert isinstance(catalog.MODELS.build(config, 11, 13), Mine)

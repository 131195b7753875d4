"""The tables of names: each leads to a class that goes by that name, and all tables and types have the same ones."""

import ast
from importlib import import_module
from typing import Any, get_args, get_type_hints

import pytest

from regard.config.registry import Registry
from regard.models import catalog
from regard.tasks.catalog import TASKS
from regard.tasks.run import Run as Before
from regard.tasks.task import LazyTask
from regard.tasks.verbs import Run
from tests.code.tree import modules

MODELS = {
    "ModelConfig": (catalog.MODELS, catalog.MODEL_CONFIGS),
    "CaptionerConfig": (catalog.CAPTIONERS, catalog.CAPTIONER_CONFIGS),
    "LanguageModelConfig": (catalog.LANGUAGE_MODELS, catalog.LANGUAGE_MODEL_CONFIGS),
    "ClassifierConfig": (catalog.CLASSIFIERS, catalog.CLASSIFIER_CONFIGS),
}


def union(module: str, name: str) -> set[str]:
    """The classes that a type checker is told that a name stands for."""
    given = [
        node.value
        for node in ast.walk(modules()[module].tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name and isinstance(node.value, ast.BinOp)
    ]
    assert len(given) == 1
    return set(ast.unparse(given[0]).split(" | "))


def classes(names: Registry) -> set[str]:
    return {home.split(":")[1] for home in names.places.values()}


def part(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(f"{TASKS[name].package}.{module}"), attribute)


@pytest.mark.parametrize("name", TASKS)
def test_tasks(name: str):
    task = TASKS[name]
    assert isinstance(task, LazyTask)
    assert get_args(get_type_hints(task.config)["task"]) == (name,)
    run: Any = part(name, task.run_place)
    setup = part(name, task.setup_place)
    assert {Before, Run} & {*run.__mro__}
    assert get_type_hints(run.open)["config"] is task.config
    assert get_type_hints(setup)["config"] is task.config
    assert task.package.removeprefix("regard.tasks.").replace("_", "-") == name


@pytest.mark.parametrize("kind", MODELS)
def test_models(kind: str):
    models, configs = MODELS[kind]
    assert [*models] == [*configs]
    assert union("regard.models.catalog", kind) == classes(configs)
    for name in models:
        assert get_args(get_type_hints(configs[name])["name"]) == (name,)
        assert get_type_hints(models[name].__init__)["config"] is configs[name]


def test_an_unknown_name():
    with pytest.raises(KeyError, match="transfomer"):
        catalog.MODELS["transfomer"]
    assert len(catalog.MODELS) == 6

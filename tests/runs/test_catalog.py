"""The tables of names: each leads to a class that goes by that name, and all tables and types have the same ones."""

import ast
from typing import get_args, get_type_hints

import pytest

from regard.config.registry import Named
from regard.models import catalog
from regard.runs import load as runs
from regard.tasks.catalog import RUN_FILES, RUNS
from regard.tasks.run import Run
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


def classes(names: Named) -> set[str]:
    return {home.split(":")[1] for home in names.homes.values()}


@pytest.mark.parametrize("task", RUN_FILES)
def test_tasks(task: str):
    assert get_args(get_type_hints(RUN_FILES[task])["task"]) == (task,)
    assert issubclass(RUNS[task], Run)
    assert get_type_hints(RUNS[task].open)["config"] is RUN_FILES[task]


def test_every_table_has_every_task():
    assert [*RUN_FILES] == [*RUNS]
    assert {*RUNS} == {*runs.WHAT}
    assert union("regard.runs.run_file", "RunFile") == classes(RUN_FILES)


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

"""The schema of run files: it finds the same mistakes as the dataclasses, and writes every key with its meaning."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from regard.cli.main import main
from regard.config.yaml_text import plain
from regard.errors import InputError
from regard.runs import keys, run_file
from regard.runs.recipes import names, path_of
from tests.cli.command import environment, finish, fresh
from tests.code.tree import SOURCE
from tests.runs.test_run_file import needed, recipe

MISTAKES = [
    "training.stepz=3",
    "training.steps=many",
    "training.learning_rate=0",
    "training.betas=[0.9]",
    "training.betas=[0.9, 2]",
    "training=3",
    "task=seq2sek",
    "data={}",
    "data.kind=dots",
    "data.train=[1, 2, 3]",
    "model.widht=3",
    "model.width=0",
    "model={name: nobody}",
    "model.dropout=1.5",
    "tokenizers.source.kind=8",
    "tokenizer={}",
    "metrics=bleu",
    "metrics=[blue]",
    "search.beam=0.5",
    "model.align=[]",
    "model.align={name: hard, soft_share: 2}",
    "model.size=enormous",
    "nothing=1",
    "a.b.c",
    "training.steps={a: 1",
]


def mistakes(check: Any, path: Path, overrides: list[str]) -> list[str]:
    try:
        check(path, overrides)
    except InputError as error:
        return sorted(str(error).splitlines())
    return []


@pytest.mark.parametrize("name", ["dates", "translate-transformer", "classify", "characters-gpt2", "few-shot", "mdps"])
def test_a_check_by_the_schema_finds_what_the_dataclasses_find(name: str):
    path, given = path_of(name), needed(name)
    assert mistakes(keys.check, path, given) == []
    for wrong in MISTAKES:
        assert mistakes(keys.check, path, [*given, wrong]) == mistakes(run_file.read, path, [*given, wrong]), wrong


def test_a_mistake_is_reported_before_torch_is_imported(tmp_path: Path):
    (tmp_path / "torch.py").write_text("raise AssertionError('torch is imported')", encoding="utf-8")
    broken = environment(PYTHONPATH=f"{tmp_path}:{SOURCE.parent}")
    code, output, errors = finish(fresh("train", "dates", "--set", "model.widht=3", env=broken, cwd=tmp_path))
    assert (code, output) == (2, "")
    assert errors.startswith("regard: --set model.widht: unknown key; did you mean 'width'? The keys are 'name', 'emb")
    contradictory = ("--set", "training.steps=5", "--set", "training.warmup=9")
    code, output, errors = finish(fresh("train", "dates", *contradictory, env=broken, cwd=tmp_path))
    assert (code, output) == (2, "")
    assert errors.startswith("regard: --set training.steps and training.warmup: warmup is 9, and training ends after 5")


@pytest.mark.parametrize("name", names())
def test_a_recipe_with_every_key_is_the_same_run_file(name: str, tmp_path: Path):
    path = tmp_path / "my.yaml"
    path.write_text(keys.commented_file(path_of(name)), encoding="utf-8")
    assert run_file.read(path, needed(name)) == recipe(name)
    keys.check(path, needed(name))


@pytest.mark.parametrize("name", names())
def test_a_recipe_fits_the_schema_that_editors_use(name: str):
    whole = json.loads(json.dumps(plain(recipe(name))))
    jsonschema.validate(whole, keys.stored(), jsonschema.Draft7Validator)
    whole["training"]["stepz"] = 3
    with pytest.raises(jsonschema.ValidationError, match="stepz"):
        jsonschema.validate(whole, keys.stored(), jsonschema.Draft7Validator)


def test_every_key_has_a_meaning():
    parts = keys.stored()["definitions"].items()
    bare = [
        f"{name}.{key}" for name, part in parts for key, each in part["properties"].items() if "description" not in each
    ]
    assert bare == [], "write the meaning of these keys below their fields"


def test_a_new_run_file_shows_keys_with_their_meaning_and_default(capsys: pytest.CaptureFixture[str]):
    assert main(["new", "dates"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0] == "# yaml-language-server: $schema=regard.schema.json"
    assert "  # The number of updates. (a whole number >= 1; default: 10000)\n  steps: 700\n" in text
    assert "  # With kind: dialogue the keys are train, valid, test, turns, longest, held_out.\n" in text
    assert main(["new", "translate-many"]) == 0
    text = capsys.readouterr().out
    assert "(a list, each text or a whole number; must be filled in)\n  # languages:\n" in text
    assert "languages" not in yaml.safe_load(text)["data"]


def test_a_new_run_file_of_an_unknown_recipe(capsys: pytest.CaptureFixture[str]):
    assert main(["new", "daets"]) == 2
    assert "did you mean 'dates'?" in capsys.readouterr().err


def test_the_schema_is_printed_for_editors(capsys: pytest.CaptureFixture[str]):
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == keys.stored()

"""The JSON schema of run files, for editors."""

import json
from typing import Any

import jsonschema
import pytest

from regard.cli.main import main
from regard.config.yaml_tree import plain
from regard.runs.recipes import names
from regard.runs.run_file import make_schema
from tests.runs.test_run_file import recipe


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json.loads(json.dumps(make_schema()))


@pytest.mark.slow
def test_every_recipe_fits_and_an_unknown_key_does_not(schema: dict[str, Any]):
    for name in names():
        values = json.loads(json.dumps(plain(recipe(name))))
        jsonschema.validate(values, schema, jsonschema.Draft202012Validator)
        values["training"]["stepz"] = 3
        with pytest.raises(jsonschema.ValidationError, match="stepz"):
            jsonschema.validate(values, schema, jsonschema.Draft202012Validator)


def test_fields_have_the_meaning_of_their_docstring(schema: dict[str, Any]):
    assert schema["$defs"]["Training"]["properties"]["steps"]["description"] == "The number of updates."


def test_the_commands_print_the_schema_and_a_recipe(capsys: pytest.CaptureFixture[str], schema: dict[str, Any]):
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema
    assert main(["new", "dates"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# yaml-language-server: $schema=regard.schema.json\n")
    assert "  steps: 700\n" in text
    assert main(["new", "daets"]) == 2
    assert "did you mean 'dates'?" in capsys.readouterr().err

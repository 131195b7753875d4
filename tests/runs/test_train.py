"""A recipe of each task trains for two updates, is tested, and its run is evaluated by the command."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from regard.maps.alignment import Alignment
from regard.tasks.options import GeneratedText
from tests.code.tree import SOURCE
from tests.witness.cases import CASES, options

FIRST_RECIPES = {
    yaml.safe_load(path.read_text(encoding="utf-8"))["task"]: path.stem
    for path in sorted((SOURCE / "runs" / "recipes").glob("*.yaml"), reverse=True)
}


@pytest.mark.parametrize("task", FIRST_RECIPES)
def test_a_recipe_of_each_task(regard, task: str, tmp_path: Path):
    recipe, run = FIRST_RECIPES[task], str(tmp_path / "run")
    few = options({"training.steps": "2", "training.warmup": "0"})
    code, _, errors = regard("train", recipe, "--out", run, *CASES[recipe].options(tmp_path), *few)
    assert code == 0, errors
    code, output, errors = regard("evaluate", run, "--own-data", "--json")
    assert (code, bool(json.loads(output))) == (0, True), errors


def prediction() -> GeneratedText:
    weights = np.array([[1.0, 0.0], [1 / 3, 2 / 3], [0.0, 1.0]])
    attention = Alignment(weights, ("x", "b"), ("a", "b", "</s>"))
    other = GeneratedText("ax", -1.5, False, ("a", "x"))
    return GeneratedText("ab", -0.25, True, ("a", "b", "</s>"), attention, (other,))


def test_to_json():
    plain = prediction().to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain == {
        "text": "ab",
        "score": -0.25,
        "finished": True,
        "tokens": ["a", "b", "</s>"],
        "attention": {
            "source": ["x", "b"],
            "target": ["a", "b", "</s>"],
            "weights": [[1.0, 0.0], [0.333333, 0.666667], [0.0, 1.0]],
        },
        "alternatives": [
            {
                "text": "ax",
                "score": -1.5,
                "finished": False,
                "tokens": ["a", "x"],
                "attention": None,
                "alternatives": [],
            }
        ],
    }


def test_a_notebook_shows_attention_or_the_text():
    assert set(prediction()._repr_mimebundle_()) == {"text/plain", "text/html", "image/png"}
    assert GeneratedText("<b>", -1.0, True, ("<b>",))._repr_mimebundle_() == {"text/plain": "<b>"}

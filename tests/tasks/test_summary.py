"""The summary of the data before training, for every task, and the data that it warns of or refuses."""

import json
import sys
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL.Image import open as open_image

from regard.images import encode_preview, read_image
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import Setup
from regard.tasks.catalog import TASKS
from regard.tasks.summary import DataSummary, encode_for_request
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import KindName
from tests.witness.cases import CASES


def summary_of(recipe: str, folder: Path, *settings: str) -> DataSummary:
    """The summary of a recipe with these settings, without training."""
    found = prepared(recipe, folder, *settings).data
    assert found is not None
    return found


def prepared(recipe: str, folder: Path, *settings: str) -> Setup:
    """What a recipe with these settings trains."""
    config = run_file.read(path_of(recipe), list(settings))
    with RunDirectory.create(folder / "run") as run:
        return TASKS[config.task].setup(config, run, 1)


def witnessed(recipe: str, folder: Path) -> list[str]:
    """The settings of a recipe for a test, and its files."""
    return [each for each in CASES[recipe].options(folder) if each != "--set"]


def test_pairs_of_texts_have_one_name(tmp_path: Path):
    found = prepared("entailment", tmp_path, *witnessed("entailment", tmp_path))
    assert found.data is not None
    assert found.data.unit == "pairs of texts"
    assert found.summary.startswith(f"{found.data.rows['train'].count:,} pairs of texts to train on, ")


ONE_OF_EACH_TASK = (
    "dates translate-many language-gpt2 bert elmo classify entailment spans vit captions sorting copy few-shot bandits"
)


@pytest.mark.parametrize("recipe", ONE_OF_EACH_TASK.split())
def test_every_task_has_a_summary_of_its_data(recipe: str, tmp_path: Path):
    found = summary_of(recipe, tmp_path, *witnessed(recipe, tmp_path))
    assert found.rows["train"].count > found.rows["valid"].count > 0
    lines = found.lines()
    assert lines[0].startswith("train ")
    assert found.unit in lines[0]
    assert json.loads(json.dumps(found.to_json()))["unit"] == found.unit
    assert found.lengths or found.images
    assert not [warning for warning in found.warnings if "single training example" not in warning], recipe


@pytest.mark.parametrize(
    ("recipe", "inputs"),
    [
        ("spans", "question context"),
        ("classify", "text"),
        ("vit", "image"),
        ("captions", "image"),
        ("few-shot", "examples image"),
    ],
)
def test_a_summary_has_an_example_as_a_request_has_it(recipe: str, inputs: str, tmp_path: Path):
    request = summary_of(recipe, tmp_path, *witnessed(recipe, tmp_path)).request
    assert list(request) == inputs.split()
    support = json.loads(request.get("examples", "{}"))
    images = [*support.values(), *([[request["image"]]] if "image" in request else [])]
    assert all(read_image(b64decode(each, validate=True)).ndim == 3 for some in images for each in some)
    assert recipe != "few-shot" or len(support) > 1


@pytest.mark.parametrize(("shape", "kind"), [((28, 28), "PNG"), ((600, 300, 3), "JPEG"), ((9, 9, 1), "PNG")])
def test_a_preview_is_small_and_keeps_the_proportions(shape: tuple[int, ...], kind: str):
    content = encode_preview(np.random.default_rng(3).integers(0, 255, shape, dtype=np.uint8))
    image = open_image(BytesIO(content))
    assert image.format == kind
    assert image.size == ((128, 256) if kind == "JPEG" else (shape[1], shape[0]))


def test_without_pillow_arrays_have_no_preview(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert encode_for_request(np.zeros((2, 2), np.uint8)) == ""


@pytest.mark.parametrize(("recipe", "each"), [("classify", 0), ("bert", 0), ("vit", 1), ("few-shot", 10)])
def test_the_speed_counts_what_the_model_reads(recipe: str, each: int, tmp_path: Path):
    """Tokens of texts, images, images of episodes: not classes or blanks."""
    config = run_file.read(path_of(recipe), witnessed(recipe, tmp_path))
    with RunDirectory.create(tmp_path / "run") as run:
        setup = TASKS[config.task].setup(config, run, 1)
    indices = setup.objective.batches(0)[0]
    batch = setup.objective.batch(0, indices)
    found = setup.objective.loss(setup.model, batch, 1, None)
    size = each * len(indices)
    if not each:
        size = int((batch.inputs[1] if recipe == "classify" else batch.lengths).sum())
    assert (found.read or found.tokens) == size


def test_unknown_words_are_words_and_unknown_characters_characters():
    text = "zork the cat"
    expectations: dict[KindName, tuple[int, int]] = {"word": (1, 3), "space": (1, 3), "character": (4, 10)}
    for kind, expected in expectations.items():
        tokenizer = Tokenizer.train(TokenizerSettings(kind, minimum_count=1), ["the cat"])
        unit = "characters" if kind == "character" else "words"
        assert (tokenizer.unknown(text), tokenizer.unknown_unit) == (expected, unit)
    pieces = Tokenizer.train(TokenizerSettings("wordpiece", size=40), ["the cat sat on the mat"])
    assert (pieces.unknown("the 中文 cat"), pieces.unknown_unit) == ((2, 4), "words")

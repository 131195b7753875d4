"""The summary of the data before training, for every task, and the data that it warns of or refuses."""

import json
import sys
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np
import pytest
from PIL import Image
from PIL.Image import open as open_image

from regard.data.images import ImageFolders
from regard.data.pairs import Pair, are_sides_swapped
from regard.errors import InputError
from regard.images import encode_preview, read_image
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import Setup
from regard.tasks.catalog import TASKS
from regard.tasks.class_prediction import index_classes
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.image_captioning.data import CaptionTables
from regard.tasks.summary import DataSummary, agree, describe_images, describe_joined_words, encode_for_request
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
    ],
)
def test_a_summary_has_an_example_as_a_request_has_it(recipe: str, inputs: str, tmp_path: Path):
    request = summary_of(recipe, tmp_path, *witnessed(recipe, tmp_path)).request
    assert list(request) == inputs.split()
    assert "image" not in request or read_image(b64decode(request["image"], validate=True)).ndim == 3


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


WORDS = [["ein", "der", "hund", "katze", "läuft", "schläft", "und"], ["a", "the", "dog", "cat", "runs", "sleeps"]]


def written(folder: Path, name: str, rows: list[str]) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return str(path)


def picture(path: Path, *, coloured: bool = False, side: int = 40) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((side, side, 3), 90, np.uint8)
    pixels[:, :, 0] = 200 if coloured else 90
    Image.fromarray(pixels).save(path)
    return path


def bitext(count: int, seed: int) -> list[Pair]:
    random = Random(seed)
    return [
        Pair(*(" ".join(random.choices(words, k=5)) for words in WORDS), place=f"x:{number}") for number in range(count)
    ]


def turned(pairs: list[Pair]) -> list[Pair]:
    return [Pair(pair.target, pair.source, pair.place) for pair in pairs]


def test_a_unit_agrees_with_its_count():
    for unit, one in {"pairs of texts": "pair of texts", "classes": "class", "images": "image"}.items():
        assert (agree(unit, 1), agree(unit, 2)) == (one, unit)


def test_a_folder_one_level_too_high(tmp_path: Path):
    for name in ("train", "test"):
        picture(tmp_path / name / "cat" / "1.png")
    with pytest.raises(InputError) as refused:
        ImageFolders().read(str(tmp_path))
    assert str(refused.value) == (
        f"{tmp_path}: its folders are the sets test, train and no classes; name each: --set "
        f"data.train={tmp_path}/train --set data.test={tmp_path}/test"
    )
    assert [each.label for each in ImageFolders().read(str(tmp_path / "train"))] == ["cat"]


def test_classes_that_are_called_like_sets_beside_others(tmp_path: Path):
    for name in ("train", "bus"):
        picture(tmp_path / name / "1.png")
    assert {each.label for each in ImageFolders().read(str(tmp_path))} == {"train", "bus"}


@pytest.mark.parametrize("header", ["text\tlabel", "Sentence\tClass"])
def test_a_header_is_no_row(header: str, tmp_path: Path):
    path = written(tmp_path, "a.tsv", [header, "good\tpos", "bad\tneg"])
    with pytest.raises(InputError, match=r"a\.tsv:1: the line looks like a header \(\w+, \w+\) and not like a row"):
        LabelledTables(text=1, label=2).read(path)
    assert len(LabelledTables(text=1, label=2).read(written(tmp_path, "b.tsv", ["good\tpos", "bad\tneg"]))) == 2


def test_a_class_in_a_message_is_cut():
    labels = ["x" * 100, "y"]
    with pytest.raises(InputError) as caught:
        index_classes(labels, [Labelled(("a",), "z" * 100, "a.csv:2")])
    assert str(caught.value) == f"a.csv:2: label '{'z' * 40}...' is none of the training set's: {'x' * 40}..., y"


def test_the_label_of_texts_without_agreement(tmp_path: Path):
    path = written(tmp_path, "a.tsv", ["text\tlabel", "one\tyes", "two\t-", "three\tno"])
    for labels, data in ((["yes", "-", "no"], LabelledTables()), (["yes", "no"], LabelledTables(ignore="-"))):
        assert [each.label for each in data.read(path)] == labels


def test_a_row_for_each_caption(tmp_path: Path):
    for name in ("1.png", "2.png"):
        picture(tmp_path / name)
    table = written(tmp_path, "a.csv", ["image,captions", "1.png,a cat", "1.png,the cat", "2.png,a dog", "1.png,a cat"])
    first, second = CaptionTables(train=table, images=str(tmp_path)).read(table)
    assert (first.captions, first.place) == (("a cat", "the cat"), f"{table}:2")
    assert second.captions == ("a dog",)


def test_an_image_is_in_one_set_only(tmp_path: Path):
    for name in ("1.png", "2.png"):
        picture(tmp_path / name)
    train = written(tmp_path, "a.csv", ["image,captions", "1.png,a cat", "2.png,a dog"])
    valid = written(tmp_path, "b.csv", ["image,captions", "2.png,the dog"])
    with pytest.raises(InputError, match=r"b\.csv:2: image .*2\.png is in another set too, .*a\.csv:3; keep it in one"):
        CaptionTables(train=train, valid=valid, images=str(tmp_path)).load()


def test_colors_that_are_lost(tmp_path: Path):
    paths = [picture(tmp_path / f"{number}.png", coloured=number == 2) for number in range(3)]
    (before, after), warnings = describe_images(paths, 28, 1)
    assert (str(before), after) == ("40 x 40, color", "28 x 28, gray")
    assert warnings == (
        "images of 40 x 40, color become 28 x 28, gray: model.channels=3 keeps colors, a larger model.image keeps "
        "details",
    )
    assert not describe_images(paths, 28, 3)[1]
    assert not describe_images(paths[:2], 28, 1)[1]  # grey, saved as red, green and blue
    assert describe_images(paths, 8, 3)[1]


def test_oblong_images_are_seen_in_the_middle():
    square, oblong = np.zeros((9, 9), np.uint8), np.zeros((9, 12), np.uint8)
    assert describe_images([oblong], 9, 1, cropped=True)[0][1] == "9 x 9, gray, the middle square"
    assert describe_images([square], 9, 1, cropped=True)[0][1] == describe_images([oblong], 9, 1)[0][1] == "9 x 9, gray"


def test_source_and_target_exchanged():
    train = bitext(60, 1)
    assert are_sides_swapped(train, turned(bitext(40, 2)))
    assert not are_sides_swapped(train, bitext(40, 2))
    assert not are_sides_swapped(train, turned(bitext(10, 2)))  # too few to be sure


def test_exchanged_files_are_refused(tmp_path: Path):
    files = {}
    for name, pairs in (("train", bitext(60, 1)), ("valid", turned(bitext(40, 2)))):
        files[name] = [
            written(tmp_path, f"{name}.{side}", [getattr(pair, side) for pair in pairs])
            for side in ("source", "target")
        ]
    settings = [f"data.{name}={json.dumps(paths)}" for name, paths in files.items()]
    settings += ["tokenizers={source: {kind: word}, shared: true}", "training.batch_tokens=64"]
    with pytest.raises(InputError, match=r"data\.valid: its sources are like the targets of data\.train"):
        summary_of("translate-rnn", tmp_path, *settings)


def test_unknown_characters(tmp_path: Path):
    rows = ["text\tlabel", *(f"aab ba {'ab'[number % 2]}\t{number % 2}" for number in range(40))]
    other = ["text\tlabel", *(f"ωψ ω\t{number % 2}" for number in range(4))]
    settings = [f"data.train={written(tmp_path, 'a.tsv', rows)}", f"data.valid={written(tmp_path, 'b.tsv', other)}"]
    found = summary_of("classify", tmp_path, *settings, "tokenizer={kind: character}", "training.batch_tokens=64")
    assert found.unknown["train text"] == 0
    assert found.unknown["valid text"] == 100
    assert any(warning.startswith("100 % of the characters of valid text are unknown") for warning in found.warnings)


@pytest.mark.parametrize(
    ("kind", "text", "warnings"),
    [
        ("wordpiece-uncased", "où Ou péché pêche", 1),
        ("wordpiece", "où Ou péché pêche", 0),
        ("wordpiece-uncased", "Ou ou e\u0301te\u0301 été", 0),
        ("wordpiece-uncased", "आज कल कुल", 0),
        ("wordpiece-uncased", "ou ou\x05", 0),
    ],
)
def test_words_that_differ_in_accents_only_are_said(kind: KindName, text: str, warnings: int):
    found = describe_joined_words(Tokenizer.train(TokenizerSettings(kind=kind), [text]), [text])
    assert len(found) == warnings
    assert not found or found[0].startswith("the tokenizer reads où and ou as one word, and 1 more;")

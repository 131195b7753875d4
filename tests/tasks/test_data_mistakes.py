"""Row 84: data that is read as something else than meant, refused where certain, else a warning before training."""

import json
import logging
from pathlib import Path
from random import Random

import numpy as np
import pytest
from PIL import Image

from regard.data.images import ImageFolders
from regard.data.pairs import Pair
from regard.data.swapped_sides import are_sides_swapped
from regard.errors import InputError
from regard.tasks.class_prediction import check_distinct, index_classes
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.image_captioning.data import CaptionTables
from regard.tasks.summary import describe_images
from tests.attribution.untrained import seeing, telling
from tests.tasks.test_summary import summary_of

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


def test_row_84_a_folder_one_level_too_high(tmp_path: Path):
    for name in ("train", "test"):
        picture(tmp_path / name / "cat" / "1.png")
    with pytest.raises(InputError) as refused:
        ImageFolders().read(str(tmp_path))
    assert str(refused.value) == (
        f"{tmp_path}: its folders are the sets test, train and no classes; name each: --set "
        f"data.train={tmp_path}/train --set data.test={tmp_path}/test"
    )
    assert [each.label for each in ImageFolders().read(str(tmp_path / "train"))] == ["cat"]


def test_row_84_classes_that_are_called_like_sets_beside_others(tmp_path: Path):
    for name in ("train", "bus"):
        picture(tmp_path / name / "1.png")
    assert {each.label for each in ImageFolders().read(str(tmp_path))} == {"train", "bus"}


@pytest.mark.parametrize("header", ["text\tlabel", "Sentence\tClass"])
def test_row_84_a_header_is_no_row(header: str, tmp_path: Path):
    path = written(tmp_path, "a.tsv", [header, "good\tpos", "bad\tneg"])
    with pytest.raises(InputError, match=r"a\.tsv:1: the line looks like a header \(\w+, \w+\) and not like a row"):
        LabelledTables(text=1, label=2).read(path)
    assert len(LabelledTables(text=1, label=2).read(written(tmp_path, "b.tsv", ["good\tpos", "bad\tneg"]))) == 2


def test_a_column_of_texts_is_none_of_classes():
    texts = {f"a review {number} {'of many words ' * 9}": 1 for number in range(12)}
    with pytest.raises(
        InputError, match=r"^a.csv: 12 of 22 training rows have a class of their own, such as 'a review"
    ):
        check_distinct({**texts, "pos": 10}, "a.csv")
    check_distinct({**texts, "pos": 12}, "a.csv")  # half of them
    check_distinct(dict.fromkeys("abcdefghijklmnopqrs", 1), "a.csv")  # too few to be sure


def test_a_class_in_a_message_is_cut():
    labels = ["x" * 100, "y"]
    with pytest.raises(InputError) as caught:
        index_classes(labels, [Labelled(("a",), "z" * 100, "a.csv:2")])
    assert str(caught.value) == f"a.csv:2: label '{'z' * 40}...' is none of the training set's: {'x' * 40}..., y"


def test_the_label_of_texts_without_agreement(tmp_path: Path):
    path = written(tmp_path, "a.tsv", ["text\tlabel", "one\tyes", "two\t-", "three\tno"])
    for labels, data in ((["yes", "-", "no"], LabelledTables()), (["yes", "no"], LabelledTables(ignore="-"))):
        assert [each.label for each in data.read(path)] == labels


def test_row_84_a_row_for_each_caption(tmp_path: Path):
    for name in ("1.png", "2.png"):
        picture(tmp_path / name)
    table = written(tmp_path, "a.csv", ["image,captions", "1.png,a cat", "1.png,the cat", "2.png,a dog", "1.png,a cat"])
    first, second = CaptionTables(train=table, images=str(tmp_path)).read(table)
    assert (first.captions, first.place) == (("a cat", "the cat"), f"{table}:2")
    assert second.captions == ("a dog",)


def test_row_84_an_image_is_in_one_set_only(tmp_path: Path):
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


def test_row_84_source_and_target_exchanged():
    train = bitext(60, 1)
    assert are_sides_swapped(train, turned(bitext(40, 2)))
    assert not are_sides_swapped(train, bitext(40, 2))
    assert not are_sides_swapped(train, turned(bitext(10, 2)))  # too few to be sure


def test_row_84_summaries_exchanged_with_their_texts():
    random, words = Random(3), [f"w{number}" for number in range(30)]
    texts = [" ".join(random.choices(words, k=20)) for _ in range(80)]
    pairs = [Pair(text, " ".join(text.split()[:4]), "x") for text in texts]
    assert are_sides_swapped(pairs[:50], turned(pairs[50:]))
    assert not are_sides_swapped(pairs[:50], pairs[50:])
    copies = [Pair(text, " ".join(text.split()[::-1]), "x") for text in texts]
    assert not are_sides_swapped(copies[:50], turned(copies[50:]))


def test_row_84_exchanged_files_are_refused(tmp_path: Path):
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


def test_row_84_warnings_of_a_text(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        assert not telling().warnings(("the cat", "sat"))
        assert not seeing().warnings("a.png")


def test_row_84_unknown_characters(tmp_path: Path):
    rows = ["text\tlabel", *(f"aab ba {'ab'[number % 2]}\t{number % 2}" for number in range(40))]
    other = ["text\tlabel", *(f"ωψ ω\t{number % 2}" for number in range(4))]
    settings = [f"data.train={written(tmp_path, 'a.tsv', rows)}", f"data.valid={written(tmp_path, 'b.tsv', other)}"]
    found = summary_of("classify", tmp_path, *settings, "tokenizer={kind: character}", "training.batch_tokens=64")
    assert found.unknown["train text"] == 0
    assert found.unknown["valid text"] == 100
    assert any(warning.startswith("100 % of the characters of valid text are unknown") for warning in found.warnings)

"""Row 84: data that is read as something else than meant, refused where certain, else a warning before training."""

import json
import logging
from pathlib import Path
from random import Random

import numpy as np
import pytest
from PIL import Image

from regard.data.exchanged import exchanged
from regard.data.images import ImageFolders
from regard.data.pair import Pair
from regard.errors import InputError
from regard.tasks.class_prediction import class_indices
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.image_captioning.data import CaptionTables
from regard.tasks.label_checks import check_distinct, check_numbers, label_warnings
from regard.tasks.summary import images_seen
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
        f"data.test={tmp_path}/test --set data.train={tmp_path}/train"
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


def test_row_84_a_class_of_the_first_row_only():
    assert label_warnings({"pos": 9, "neg": 9, "Urteil": 1}, "Urteil") == [
        "the class 'Urteil' is that of the first row only; is this row a header? Name columns then"
    ]


@pytest.mark.parametrize("labels", [["a|b", "b", "a", "a|c"], ["x; y", "y; z", "z"]])
def test_row_84_several_labels_in_one(labels: list[str]):
    (warning, *_) = label_warnings(dict.fromkeys(labels, 5))
    assert "look like several labels" in warning


@pytest.mark.parametrize("labels", [["good, bad", "fine"], ["a", "b"], ["New York, NY", "Paris, France"]])
def test_row_84_punctuation_in_a_label_is_no_separator(labels: list[str]):
    assert not label_warnings(dict.fromkeys(labels, 5))


def test_row_84_numbers_are_no_classes():
    with pytest.raises(InputError, match=r"a\.tsv: the labels are 41 different numbers from 1 to 5, and class"):
        check_numbers([str(1 + number / 10) for number in range(41)], "a.tsv")
    check_numbers([str(number) for number in range(41)], "a.tsv")
    (warning,) = label_warnings({str(number): 3 for number in range(41)})
    assert warning.startswith("the labels are 41 different numbers from 0 to 40, each a class of its own here")
    assert not label_warnings({str(number): 3 for number in range(10)})


def test_a_column_of_texts_is_none_of_classes():
    texts = {f"a review {number} {'of many words ' * 9}": 1 for number in range(12)}
    said = (
        r"^a.csv: 12 of 22 training rows have a class of their own \(13 classes in all\), such as 'a review 0 of many "
    )
    with pytest.raises(InputError, match=said + r"[\w ]{,23}\.\.\.'; is data.label the column of the classes\?$"):
        check_distinct({**texts, "pos": 10}, "a.csv")
    check_distinct({**texts, "pos": 12}, "a.csv")  # half of them
    check_distinct(dict.fromkeys("abcdefghijklmnopqrs", 1), "a.csv")  # too few to be sure
    with pytest.raises(InputError, match=r"column of the classes\?; numbers are learned by the recipe regression$"):
        check_distinct({str(number): 1 for number in range(20)}, "a.csv")


def test_a_class_in_a_message_is_cut():
    labels = ["x" * 100, "y"]
    with pytest.raises(InputError) as caught:
        class_indices(labels, [Labelled(("a",), "z" * 100, "a.csv:2")])
    assert str(caught.value) == f"a.csv:2: label '{'z' * 40}...' is none of the training set's: {'x' * 40}..., y"


def test_classes_that_differ_in_blanks_or_capitals():
    classes = {"positiv": 214, "negativ": 205, "negativ ": 39, "Negativ": 25, "neutral": 9}
    assert label_warnings(classes) == [
        "the classes 'negativ' (205) and 'negativ ' (39) and 'Negativ' (25) differ in blanks at the ends or in "
        "capitals only; if they are one class, write them alike in all files"
    ]


def test_the_label_of_texts_without_agreement(tmp_path: Path):
    (warning,) = label_warnings({"entailment": 500, "neutral": 400, "-": 5})
    assert warning.startswith("5 training examples have the label '-', with which SNLI and MultiNLI mark texts whose")
    assert warning.endswith("and a class is expected; --set data.ignore=- leaves such rows out of all sets")
    assert not label_warnings({"+": 9, "-": 9})
    path = written(tmp_path, "a.tsv", ["text\tlabel", "one\tyes", "two\t-", "three\tno"])
    for labels, data in ((["yes", "-", "no"], LabelledTables()), (["yes", "no"], LabelledTables(ignore="-"))):
        assert [each.label for each in data.read(path)] == labels
    with pytest.raises(InputError) as refused:
        class_indices(["yes", "no"], LabelledTables().read(path))
    assert str(refused.value) == (
        f"{path}:3: label '-' is none of the training set's: yes, no; train with --set data.ignore=-, which leaves "
        "such rows out of all sets"
    )


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


def test_row_84_colours_that_are_lost(tmp_path: Path):
    paths = [picture(tmp_path / f"{number}.png", coloured=number == 2) for number in range(3)]
    (before, after), warnings = images_seen(paths, 28, 1)
    assert (str(before), after) == ("40 x 40, colour", "28 x 28, grey")
    assert warnings == (
        "images of 40 x 40, colour become 28 x 28, grey: model.channels=3 keeps colours, a larger model.image keeps "
        "details",
    )
    assert not images_seen(paths, 28, 3)[1]
    assert not images_seen(paths[:2], 28, 1)[1]  # grey, saved as red, green and blue
    assert images_seen(paths, 8, 3)[1]


def test_oblong_images_are_seen_in_the_middle():
    square, oblong = np.zeros((9, 9), np.uint8), np.zeros((9, 12), np.uint8)
    assert images_seen([oblong], 9, 1, cropped=True)[0][1] == "9 x 9, grey, the middle square"
    assert images_seen([square], 9, 1, cropped=True)[0][1] == images_seen([oblong], 9, 1)[0][1] == "9 x 9, grey"


def test_row_84_source_and_target_exchanged():
    train = bitext(60, 1)
    assert exchanged(train, turned(bitext(40, 2)))
    assert not exchanged(train, bitext(40, 2))
    assert not exchanged(train, turned(bitext(10, 2)))  # too few to be sure


def test_row_84_summaries_exchanged_with_their_texts():
    random, words = Random(3), [f"w{number}" for number in range(30)]
    texts = [" ".join(random.choices(words, k=20)) for _ in range(80)]
    pairs = [Pair(text, " ".join(text.split()[:4]), "x") for text in texts]
    assert exchanged(pairs[:50], turned(pairs[50:]))
    assert not exchanged(pairs[:50], pairs[50:])
    copies = [Pair(text, " ".join(text.split()[::-1]), "x") for text in texts]
    assert not exchanged(copies[:50], turned(copies[50:]))


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


def test_row_84_a_pair_for_a_model_of_one_text(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    rows = ["sentence_A\tsentence_B\tlabel", *(f"a b {number}\tc d\t{number % 2}" for number in range(40))]
    table = written(tmp_path, "pairs.tsv", rows)
    found = summary_of("classify", tmp_path, f"data.train={table}", "data.text=sentence_A", "training.batch_tokens=64")
    assert found.warnings[0] == (
        f"{table} has a column 'sentence_B' beside 'sentence_A', which is not read: this model reads one text; for "
        "pairs set data.second=sentence_B and choose a model of two texts"
    )
    with caplog.at_level(logging.WARNING):
        assert not telling().warnings(("the cat", "sat"))
        assert not seeing().warnings("a.png")


def test_row_84_unknown_characters(tmp_path: Path):
    rows = ["text\tlabel", *(f"aab ba {'ab'[number % 2]}\t{number % 2}" for number in range(40))]
    other = ["text\tlabel", *(f"ωψ ω\t{number % 2}" for number in range(4))]
    settings = [f"data.train={written(tmp_path, 'a.tsv', rows)}", f"data.valid={written(tmp_path, 'b.tsv', other)}"]
    found = summary_of("classify", tmp_path, *settings, "tokenizer={kind: character}", "training.batch_tokens=64")
    assert found.unknown["train"] == 0
    assert found.unknown["valid"] == 100
    assert any(warning.startswith("100 % of the characters of valid are unknown") for warning in found.warnings)

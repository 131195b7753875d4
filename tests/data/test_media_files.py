"""The table of a folder of files, and the files beside a table."""

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from regard.config.file_kinds import detect_text_table, is_table
from regard.data.images import digest_image
from regard.data.media_files import MediaFiles
from regard.data.usual_columns import recognize_columns
from regard.errors import InputError
from regard.tasks.image_captioning.data import COLORS, RELATIONS, SHAPES, CaptionTables, Scenes, make_scene
from regard.tasks.speech.data import SpeechTables
from tests.data.tables import read_table

SOUNDS = MediaFiles("sound", {"sound": "file"}, {".wav"}, "data.folder")


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_files_beside_the_table_in_a_folder_there_and_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = write(tmp_path / "set" / "table.csv", "audio,transcript", "a.wav,one")
    place = f"{table}:2"
    with pytest.raises(InputError, match=r"csv:2: no sound a.wav beside the table, in a folder there or here; set"):
        SOUNDS.find("a.wav", place)
    (tmp_path / "set" / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    for where in (".", "set/sounds", "set"):  # a file of that name here is the last to be meant
        file = write(tmp_path / where / "a.wav", where)
        assert SOUNDS.find("a.wav", place).resolve() == file
    for folder in ("set/sounds", "sounds", str(tmp_path / "set" / "sounds")):
        named = MediaFiles("sound", {}, {".wav"}, "data.folder", folder)
        assert named.find("a.wav", place).resolve() == tmp_path / "set" / "sounds" / "a.wav"
    elsewhere = MediaFiles("sound", {}, {".wav"}, "data.folder", str(tmp_path / "set" / "empty"))
    with pytest.raises(InputError, match=r"no sound a.wav in .*empty; set data.folder to the folder"):
        elsewhere.find("a.wav", place)


def test_the_table_of_a_folder(tmp_path: Path):
    folder = str(tmp_path)
    write(tmp_path / "readme.txt", "Recorded by friends, in a car,", "and at home, in the kitchen.")
    with pytest.raises(InputError, match=r"has no table with the columns file, only 1 "):
        SOUNDS.table_of(folder)
    listed = write(tmp_path / "list.txt", "file\ttext", "a.wav\tone", "b.wav\ttwo")
    assert SOUNDS.table_of(folder) == str(listed)
    table = write(tmp_path / "list.csv", "file,text", "a.wav,one")
    assert SOUNDS.table_of(folder) == SOUNDS.table_of(str(table)) == str(table)
    write(tmp_path / "other.csv", "file,text", "a.wav,one")
    with pytest.raises(InputError, match=r"has several tables, such as list.csv, other.csv; name"):
        SOUNDS.table_of(folder)


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (("A dog.\tEin Hund.", "A cat.\tEine Katze."), "tsv"),
        (("image,caption", 'a.jpg,"a dog, and a cat"', "b.jpg,a cat"), "csv"),
        (("A dog, a cat, and more than three words.", "One, two, three."), ""),
        (("image,caption", "no comma"), ""),
        (("A dog.\tEin Hund.", "", "A cat.\tEine Katze."), ""),
        (("A dog.\tEin Hund.", "A cat."), ""),
        (("image,caption",), ""),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "SMSSpamCollection"])
def test_a_text_file_that_is_a_table(name: str, lines: tuple[str, ...], kind: str, tmp_path: Path):
    path = write(tmp_path / name, *lines)
    assert detect_text_table(path) == kind
    assert is_table(str(path)) == bool(kind)
    assert not detect_text_table(write(tmp_path / "a.de", *lines))
    if kind:
        assert len(read_table(path, (1, 2) if kind == "tsv" else ("image", "caption"))) == 2
    else:
        with pytest.raises(InputError, match="unknown kind of table"):
            read_table(path, ("image", "caption"))


def test_captions_in_a_text_file_beside_one_folder(tmp_path: Path):
    images = [write(tmp_path / "Images" / f"{name}.jpg", name) for name in "ab"]
    write(tmp_path / "captions.txt", "image,caption", "a.jpg,a dog", "b.jpg,a cat", "a.jpg,an animal")
    found = CaptionTables(captions="caption").read(str(tmp_path))
    assert [(each.image, each.captions) for each in found] == [
        (images[0], ("a dog", "an animal")),
        (images[1], ("a cat",)),
    ]
    assert CaptionTables(captions="caption").read(str(tmp_path / "captions.txt"))[1].image == images[1]
    assert recognize_columns(CaptionTables(train=str(tmp_path)), ["train"]) == {"captions": "caption"}


def test_a_folder_with_a_table_of_sounds(tmp_path: Path):
    for name in "ab":
        write(tmp_path / "clips" / f"{name}.wav", name)
    write(tmp_path / "table.tsv", "path\tsentence", "a.wav\tword a", "b.wav\tword b")
    data = SpeechTables(audio="path", transcript="sentence")
    assert [each.transcript for each in data.read(str(tmp_path))] == ["word a", "word b"]
    with pytest.raises(InputError, match=r"clips: has no table with the columns path and sentence, only 2 "):
        data.read(str(tmp_path / "clips"))


def test_the_files_of_flickr8k_and_ljspeech(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Names with the number of a caption, and names without an ending."""
    monkeypatch.chdir(tmp_path)
    image = write(tmp_path / "Images" / "dog.jpg", "no image")
    table = write(tmp_path / "Flickr8k.token.txt", "dog.jpg#0\tA dog runs .", "dog.jpg#1\tA brown dog .")
    settings = CaptionTables(train=".", image=1, captions=2)
    (found,) = settings.read(".")
    assert settings.files.table_of(str(tmp_path)) == str(table)
    assert (Path(str(found.image)).resolve(), found.captions) == (image, ("A dog runs .", "A brown dog ."))
    sound = write(tmp_path / "wavs" / "LJ001.wav", "no sound")
    lines = write(tmp_path / "metadata.csv", "LJ001|Printed 1|printed one")
    assert SOUNDS.find("LJ001", f"{lines}:1").resolve() == sound


def test_folders_are_listed_only_for_a_file_that_is_not_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A table of many files beside it would list them for every row."""
    listed: list[Path] = []
    monkeypatch.setattr("regard.data.media_files.folders_in", lambda folder: listed.append(folder) or [])
    write(tmp_path / "a.wav", "no sound")
    place = f"{tmp_path / 'table.csv'}:2"
    assert (SOUNDS.find("a.wav", place), SOUNDS.find("a", place)) == (tmp_path / "a.wav", tmp_path / "a.wav")
    assert listed == []
    with pytest.raises(InputError, match="no sound b"):
        SOUNDS.find("b", place)
    assert listed == [tmp_path]


def test_what_is_said_is_true():
    """Read off the pixels: what has the colour that is said lies where it is said, within its box."""
    for number in range(50):
        each = make_scene(Random(number), 48, "x")
        assert isinstance(each.image, np.ndarray)
        assert len(each.captions) in (2, 4)
        for caption in each.captions:
            _, colour, shape, _, relation, *rest = caption.split()
            other_colour, other = rest[-2:]
            found = {}
            for name, kind in ((colour, shape), (other_colour, other)):
                rows, columns = np.nonzero((each.image == COLORS[name]).all(-1))
                top, left, bottom, right = each.boxes[kind]
                assert (rows.min() / 48, columns.min() / 48) >= (top - 0.03, left - 0.03)
                assert (rows.max() + 1) / 48 <= bottom + 0.03
                assert (columns.max() + 1) / 48 <= right + 0.03
                found[kind] = {"down": (rows.min(), rows.max()), "across": (columns.min(), columns.max())}
            way = "down" if relation in ("above", "below") else "across"
            first, second = (shape, other) if relation in ("above", "left") else (other, shape)
            assert found[first][way][1] < found[second][way][0]


def test_every_shape_is_drawn_and_sets_differ():
    splits = Scenes(train=80, valid=3, test=3).load()
    said = " ".join(caption for each in splits.train for caption in each.captions)
    assert all(word in said for word in (*SHAPES, *COLORS, *sum(RELATIONS.values(), ())))
    assert [each.captions for each in splits.valid] != [each.captions for each in splits.train[:3]]
    again = Scenes(train=80, valid=3, test=3).load().train
    assert [digest_image(each.image) for each in again] == [digest_image(each.image) for each in splits.train]
    with pytest.raises(ValidationError, match="greater than or equal to 16"):
        TypeAdapter(Scenes).validate_python({"size": 8})


@pytest.fixture
def captioned(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    lines = []
    for number, split in enumerate(("train", "train", "val", "test")):
        (tmp_path / "images" / f"{number}.png").write_bytes(b"an image")
        lines.append(json.dumps({"image": f"{number}.png", "captions": ["a b", "c"], "split": split, "part": "a"}))
    (tmp_path / "all.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_one_table_with_all_sets_or_one_a_set(captioned: Path):
    table, images = str(captioned / "all.jsonl"), str(captioned / "images")
    splits = CaptionTables(train=table, images=images, split="split").load()
    assert [len(each) for each in (splits.train, splits.valid, splits.test)] == [2, 1, 1]
    assert (splits.train[1].captions, splits.train[1].place) == (("a b", "c"), f"{table}:2")
    assert splits.train[1].image == captioned / "images" / "1.png"
    several = CaptionTables(train=table, valid=table, images=images)
    assert [len(each) for each in (several.load().train, several.load().valid, several.tests())] == [4, 4, 0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train": None}, "data.train is not given; expected a table of images and captions"),
        ({"split": "split", "valid": "x"}, "captions: with split all sets are in the file train"),
        ({"split": "part"}, "the column 'part' has a.*; expected train, valid, val, dev, test"),
        ({"split": "image"}, "data.split and data.image name one column, 'image'; expected a column for each"),
        ({"split": "split", "images": "nowhere"}, "no image 0.png in nowhere; set data.images to the folder"),
        ({"split": "splt"}, "'splt'"),
    ],
)
def test_tables_that_do_not_fit(captioned: Path, settings: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        CaptionTables(**{"train": str(captioned / "all.jsonl"), "images": str(captioned / "images"), **settings}).load()

"""The table of a folder of files, and the files beside a table."""

from pathlib import Path

import pytest

from regard.config.file_kinds import detect_text_table, is_table
from regard.data.media_files import MediaFiles
from regard.errors import InputError
from regard.tasks.image_captioning.data import CaptionTables
from regard.tasks.speech.data import SpeechTables
from tests.data.tables import read_table

SOUNDS = MediaFiles("sound", "table of sounds", {".wav"}, "data.folder")


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
        named = MediaFiles("sound", "table", {".wav"}, "data.folder", folder)
        assert named.find("a.wav", place).resolve() == tmp_path / "set" / "sounds" / "a.wav"
    elsewhere = MediaFiles("sound", "table", {".wav"}, "data.folder", str(tmp_path / "set" / "empty"))
    with pytest.raises(InputError, match=r"no sound a.wav in .*empty; set data.folder to the folder"):
        elsewhere.find("a.wav", place)


def test_the_table_of_a_folder(tmp_path: Path):
    assert SOUNDS.table_in(tmp_path) is None
    write(tmp_path / "readme.txt", "Recorded by friends, in a car,", "and at home, in the kitchen.")
    assert SOUNDS.table_in(tmp_path) is None
    listed = write(tmp_path / "list.txt", "file\ttext", "a.wav\tone", "b.wav\ttwo")
    assert SOUNDS.table_in(tmp_path) == listed
    table = write(tmp_path / "list.csv", "file,text", "a.wav,one")
    assert SOUNDS.table_in(tmp_path) == table
    write(tmp_path / "other.csv", "file,text", "a.wav,one")
    with pytest.raises(InputError, match=r"has several tables, such as list.csv, other.csv; name"):
        SOUNDS.table_in(tmp_path)


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


def test_folders_of_sounds(tmp_path: Path):
    for name in "ab":
        write(tmp_path / "one" / "clips" / f"{name}.wav", name)
        write(tmp_path / "two" / f"{name}.WAV", name)
        write(tmp_path / "two" / f"{name}.txt", f"word {name}", "more")
    write(tmp_path / "one" / "table.tsv", "path\tsentence", "a.wav\tword a", "b.wav\tword b")
    data = SpeechTables(audio="path", transcript="sentence")
    assert [each.transcript for each in data.read(str(tmp_path / "one"))] == ["word a", "word b"]
    assert [each.transcript for each in data.read(str(tmp_path / "two"))] == ["word a more", "word b more"]
    with pytest.raises(InputError, match=r"clips: has no table of transcripts"):
        data.read(str(tmp_path / "one" / "clips"))
    (tmp_path / "empty" / "sounds").mkdir(parents=True)
    with pytest.raises(InputError, match=r"sounds: has no table of transcripts .* and no audio file with a .txt file"):
        data.read(str(tmp_path / "empty" / "sounds"))


def test_the_files_of_flickr8k_and_ljspeech(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Names with the number of a caption, and names without an ending."""
    monkeypatch.chdir(tmp_path)
    image = write(tmp_path / "Images" / "dog.jpg", "no image")
    table = write(tmp_path / "Flickr8k.token.txt", "dog.jpg#0\tA dog runs .", "dog.jpg#1\tA brown dog .")
    settings = CaptionTables(train=".", image=1, captions=2)
    (found,) = settings.read(".")
    assert settings.files.table_in(tmp_path) == table
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

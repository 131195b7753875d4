"""Recordings in folders that are named by their transcripts, as in Speech Commands."""

import logging
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.tasks.speech.data import SpeechTables, speaker_of
from regard.tasks.summary import origin_of

SPEAKERS = [f"{number:08x}" for number in range(20)]


def recordings(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def commands(folder: Path) -> Path:
    """Two words by 20 speakers, twice each, with a folder of noise."""
    names = (f"{word}/{each}_nohash_{time}.wav" for word in ("no", "yes") for each in SPEAKERS for time in (0, 1))
    return recordings(folder, *names, "_background_noise_/tap.wav", "LICENSE")


def test_the_folder_s_name_is_the_transcript(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, logger="regard"):
        found = SpeechTables().read(str(commands(tmp_path)))
    assert (len(found), {each.transcript for each in found}) == (80, {"no", "yes"})
    assert all(Path(str(each.audio)).parent.name == each.transcript for each in found)
    assert caplog.messages == [f"{tmp_path}: the transcript of a recording is the name of its folder"]


def test_speakers_are_held_out(tmp_path: Path):
    splits = SpeechTables(train=str(commands(tmp_path))).load()
    sets = [{speaker_of(str(each.audio)) for each in some} for some in (splits.train, splits.valid)]
    assert (len(splits.valid), len(sets[1]), sets[0] & sets[1]) == (8, 2, set())
    assert speaker_of("yes/1.wav") == "yes/1.wav"


def test_lists_of_sets(tmp_path: Path):
    root = commands(tmp_path)
    (root / "validation_list.txt").write_text(f"no/{SPEAKERS[3]}_nohash_1.wav\nyes/{SPEAKERS[4]}_nohash_0.wav\n")
    (root / "testing_list.txt").write_text(f"no/{SPEAKERS[5]}_nohash_1.wav\n")
    data = SpeechTables(train=str(root))
    splits = data.load()
    assert [len(some) for some in splits.named.values()] == [77, 2, 1]
    assert [each.transcript for each in splits.valid] == ["no", "yes"]
    assert not {str(each.audio) for each in splits.train} & {str(each.audio) for each in (*splits.valid, *splits.test)}
    assert splits.valid[1].place == f"{root}/validation_list.txt:2"
    assert origin_of(data, "valid") == f"{root}/validation_list.txt"
    named = SpeechTables(train=str(root), test=str(root / "validation_list.txt")).load()
    assert [len(some) for some in named.named.values()] == [77, 2, 2]
    (root / "testing_list.txt").write_text("\nmaybe/1.wav\n")
    with pytest.raises(InputError, match=r"testing_list.txt:2: no audio file maybe/1.wav beside the list; fetch it"):
        data.load()
    (root / "testing_list.txt").write_text("1.wav\n")
    with pytest.raises(InputError, match=r"testing_list.txt:1: '1.wav' has no folder, whose name is its transcript"):
        data.tests()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train/a.wav", "test/b.wav"), "its folders are the sets test, train and no classes; name each: --set"),
        (("yes/a.wav", "no/b.wav", "c.wav"), "has no table of transcripts"),
        (("ann/yes/a.wav", "bob/no/b.wav"), "has no table of transcripts"),
        (("clips/a.wav", "clips/b.wav"), "has no table of transcripts"),
    ],
)
def test_folders_that_are_no_transcripts(names: tuple[str, ...], message: str, tmp_path: Path):
    with pytest.raises(InputError, match=message):
        SpeechTables().read(str(recordings(tmp_path, *names)))


def test_folders_of_libri_speech(tmp_path: Path):
    root = recordings(tmp_path, "19/198/19-198-0000.flac", "19/198/19-198-0001.flac", "26/495/26-495-0000.flac")
    lists = [root / "19/198/19-198.trans.txt", root / "26/495/26-495.trans.txt"]
    lists[0].write_text("19-198-0000 CHAPTER ONE\n19-198-0001 IT IS\n")
    lists[1].write_text("26-495-0000 A TREE\n")
    for folder, count in ((root, 3), (root / "19", 2), (root / "26/495", 1)):
        assert len(SpeechTables().read(str(folder))) == count
    found = SpeechTables().read(str(root))
    assert [(Path(str(each.audio)).name, each.transcript) for each in found] == [
        ("19-198-0000.flac", "CHAPTER ONE"), ("19-198-0001.flac", "IT IS"), ("26-495-0000.flac", "A TREE")
    ]  # fmt: skip
    assert found[1].place == f"{lists[0]}:2"
    lists[1].write_text("26-495-0000 A TREE\n\n26-495-0001 NO\n")
    with pytest.raises(InputError, match=r"26-495.trans.txt:3: no audio file 26-495-0001 beside the table"):
        SpeechTables().read(str(root))
    lists[1].write_text("26-495-0000\n")
    with pytest.raises(InputError, match=r"26-495.trans.txt:1: '26-495-0000' has no transcript, expected one behind"):
        SpeechTables().read(str(root))
    lists[1].write_text("26-495-0000\n26-495-0001 NO\n")
    lists[0].unlink()
    with pytest.raises(InputError, match=r"no usable record: 2 records, all skipped \(first: .*has no transcript"):
        SpeechTables(skip_bad=True).read(str(root))

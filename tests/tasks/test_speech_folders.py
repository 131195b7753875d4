"""Recordings in folders that are named by their transcripts, as in Speech Commands."""

import logging
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.tasks.speech.data import SpeechTables, Utterance

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
    sets = [{SpeechTables().group(each) for each in some} for some in (splits.train, splits.valid)]
    assert (len(splits.valid), len(sets[1]), sets[0] & sets[1]) == (8, 2, set())
    assert SpeechTables().group(Utterance("yes/1.wav", "yes", "x")) == "yes/1.wav"


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

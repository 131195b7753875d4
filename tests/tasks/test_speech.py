"""Speech: it learns, its runs predict and attribute, and bad input is one clear line or the right answer."""

import json
import wave
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import load
from regard.audio import LogMel, Sound
from regard.errors import InputError
from regard.models.recogniser import ChorowskiConfig
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.serve.runs import read_example
from regard.tasks.options import EvaluationOptions
from regard.tasks.speech.data import (
    DIGITS,
    RATE,
    DigitString,
    Recording,
    SpeechTables,
    SpokenDigits,
    Utterance,
    read_recordings,
    set_of,
    synthesize,
    synthesize_all,
)
from regard.tasks.speech.run import Speech, SpeechRun
from regard.text import Tokenizer, TokenizerSettings

SMALL = [
    "training.batch_tokens=1500",
    "training.learning_rate=1e-2",
    "training.warmup=10",
    "training.threads=1",
    "training.validate_every=0",
    "training.label_smoothing=0",
    "masking={time: 4}",
    "data={kind: spoken-digits, train: 240, valid: 20, test: 30, most: 1}",
    "audio={rate: 8000, mels: 16}",
    "model={name: chorowski, stages: [8, 8], reader: 16, embedding: 8, width: 24, attention: 16, maxout: 16}",
]
TINY = ChorowskiConfig(stages=(2, 3), reader=5, embedding=3, width=7, attention=4, maxout=3, dropout=0.0)


def write(path: Path, samples: np.ndarray, rate: int = RATE) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return path


def parts(each: Utterance) -> tuple[Recording, ...]:
    """The recordings that a sound is joined of."""
    assert isinstance(each.audio, DigitString)
    return each.audio.parts


def untrained(**settings: Any) -> SpeechRun:
    torch.manual_seed(1)
    tokenizer = Tokenizer.train(TokenizerSettings("character"), [*DIGITS, " "])
    config = Speech(
        data=SpokenDigits(), audio=LogMel(rate=8000, mels=9), tokenizer=TokenizerSettings("character"), model=TINY
    )
    return SpeechRun(config, SpeechRun.build(config, tokenizer).eval(), tokenizer)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    launch.train(run_file.read(path_of("spoken-digits"), [*SMALL, "training.steps=300"]), folder / "run")
    write(folder / "six.wav", synthesize(6, RATE, 0, 0))
    return folder


@pytest.mark.slow
def test_it_learns_letters_of_synthesised_digits(folder: Path):
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["test/character-error-rate"] < 70  # the same word for every sound has more
    assert "valid/word-error-rate" in result


def test_the_letters_weights_are_on_the_keys_of_the_sound():
    run, sound = untrained(), Sound(0.1 * np.random.default_rng(1).standard_normal(3000).astype(np.float32), RATE)
    recording = run.attribute(sound).lookups[0].recording
    assert recording is not None
    assert recording.seconds * len(run.attribute(sound).lookups[0].source) == pytest.approx(sound.seconds, abs=0.1)
    found = run.attribute(sound, target="one  Two")
    keys = run.model.encoder.halving.keys(run.config.audio.frames(3000))
    assert found.prediction.text == "one two"
    (lookups,) = found.lookups
    assert lookups.weights.shape == (1, 1, 8, keys)
    assert lookups.source[:2] == ("0.00 s", "0.04 s")
    assert lookups.patches is not None
    assert lookups.patches.pixels.shape == (18, 8 * keys, 3)
    np.testing.assert_allclose(lookups.weights.sum(-1), 1, atol=1e-5)
    assert found.figure() is not None


def test_strings_of_digits_of_one_speaker():
    splits = SpokenDigits(train=30, valid=5, test=20).load()
    assert [len(each) for each in splits.by_name.values()] == [30, 5, 20]
    one = max(splits.train, key=lambda each: len(parts(each)))
    assert [DIGITS[part.digit] for part in parts(one)] == one.transcript.split()
    assert len({part.speaker for part in parts(one)}) == 1
    samples = one.sound(LogMel(rate=8000)).samples
    assert isinstance(one.audio, DigitString)
    first = 0
    for pause, part in zip(one.audio.pauses, parts(one), strict=False):
        assert abs(samples[first : first + pause]).max() < 2e-3
        first += pause
        heard = samples[first : first + len(part.samples)]
        np.testing.assert_allclose(heard, one.audio.gain * part.samples, atol=2e-3)
        first += len(part.samples)
    assert {set_of(part.number) for each in splits.test for part in parts(each)} == {"test"}
    assert [each.transcript for each in splits.test] == [
        each.transcript for each in SpokenDigits(train=1, valid=1, test=20).tests()
    ]


def test_a_held_out_speaker_is_in_the_test_set_only():
    splits = SpokenDigits(train=20, valid=5, test=9, held_out_speaker="synthetic 1").load()
    names = [{part.speaker for each in some for part in parts(each)} for some in splits.by_name.values()]
    assert names[2] == {"synthetic 1"}
    assert not (names[0] | names[1]) & names[2]
    with pytest.raises(InputError, match=r"no recording of the set test.*the speakers are synthetic 0, synthetic 1"):
        SpokenDigits(held_out_speaker="nobody").tests()


def arrays_of(some: list[Recording]) -> dict[str, Any]:
    samples = [(20000 * each.samples).astype(np.int16) for each in some]
    return {
        "audio": np.concatenate(samples),
        "start": np.cumsum([0, *map(len, samples)]),
        "digit": np.array([each.digit for each in some], np.uint8),
        "recording": np.array([each.number for each in some], np.uint8),
        "speaker": np.zeros(len(some), np.uint8),
        "speaker_names": np.array(["ann"]),
    }


def test_recordings_of_an_npz_file(tmp_path: Path):
    some = [each for each in synthesize_all() if each.speaker == "synthetic 0"]
    found = arrays_of(some)
    np.savez(tmp_path / "a.npz", **found)
    again = read_recordings(str(tmp_path / "a.npz"))
    assert [(each.digit, each.number, each.speaker) for each in again[:2]] == [(0, 0, "ann"), (0, 1, "ann")]
    assert max(abs(again[3].samples)) == pytest.approx(0.9, abs=1e-4)
    assert len(SpokenDigits(recordings=str(tmp_path / "a.npz"), train=4, valid=2, test=3).load().test) == 3
    read = untrained().read([tmp_path / "a.npz"], EvaluationOptions())
    assert (len(read), read[0].place) == (500, "spoken-digits test 1")
    for name, value in {"digit": found["digit"] + 90, "start": found["start"][1:], "audio": found["audio"] / 2}.items():
        np.savez(tmp_path / "b.npz", **found | {name: value})
        with pytest.raises(InputError, match=r"b.npz: its arrays do not fit together"):
            read_recordings(str(tmp_path / "b.npz"))


def test_tables_of_files(tmp_path: Path):
    write(tmp_path / "a.wav", synthesize(1, RATE, 0, 0))
    table = tmp_path / "t.jsonl"
    table.write_text(json.dumps({"audio": "a.wav", "transcript": "One"}) + "\n")
    (one,) = SpeechTables(train=str(table)).read(str(table))
    assert (one.transcript, one.place) == ("One", f"{table}:1")
    assert one.features(LogMel(rate=8000, mels=9)).shape[1] == 9
    table.write_text(json.dumps({"audio": "b.wav", "transcript": "One"}) + "\n")
    with pytest.raises(InputError, match=r"t.jsonl:1: no audio file b.wav beside the table, in a folder"):
        SpeechTables(train=str(table)).load()
    with pytest.raises(InputError, match=r"data.train is not given; expected a table of audio files"):
        SpeechTables().load()


def test_a_folder_of_sets_with_a_table_each(tmp_path: Path):
    lines = []
    for name in ("train", "val", "test"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "a.wav", synthesize(1, RATE, 0, 0))
        (tmp_path / name / "metadata.csv").write_text("file_name,transcription\na.wav,one\n")
    settings = [f"data.train={tmp_path}"]
    data = run_file.read(path_of("spoken-digits"), settings, is_new=True, say=lines.append).data
    assert lines[0] == f"using train/ and val/ and test/ of {tmp_path}"
    sets = data.load()
    assert [each.transcript for part in (sets.train, sets.valid, sets.test) for each in part] == ["one"] * 3


def test_a_silent_sound_is_predicted_with_a_warning():
    run = untrained()
    assert run.warnings(Sound(np.zeros(800, np.float32), RATE)) == [
        "the sound is silent, so the prediction means nothing"
    ]
    assert run.warnings(Sound(np.full(800, 0.1, np.float32), RATE)) == []
    (found,) = run.predict([Sound(np.zeros(800, np.float32), RATE)])
    assert np.isfinite(found.score)


def test_the_bytes_of_a_file_as_a_server_has_them(tmp_path: Path):
    run, file = untrained(), write(tmp_path / "a.wav", synthesize(1, RATE, 0, 0))
    (found, again) = run.predict([run.example({"audio": file.read_bytes()}), str(file)])
    assert found == again
    assert (run.inputs, run.description()["kind"]) == ({"audio": bytes}, "audio")
    with pytest.raises(InputError, match=r"the audio: is empty, 0 bytes; expected audio"):
        run.example({"audio": b""})


def test_the_first_recording_is_the_example_of_a_page(folder: Path):
    kept = json.loads((folder / "run" / "data.json").read_text(encoding="utf-8"))["request"]
    run = load(folder / "run")
    sound = run.example({"audio": b64decode(kept["audio"])})
    first = run.config.data.load().train[0].sound(run.config.audio)
    assert sound.rate == first.rate
    assert np.abs(sound.samples - first.samples.clip(-1, 1)).max() < 2**-14
    assert read_example(run, folder / "run") == kept


def test_letters_outside_the_vocabulary(tmp_path: Path):
    run = untrained()
    sound = write(tmp_path / "a.wav", synthesize(1, RATE, 0, 0))
    with pytest.raises(InputError, match=r"the transcript 'øne' has letters that the run does not know"):
        run.attribute(str(sound), target="øne")
    scores = run.evaluate([Utterance(sound, "øøø øøø", "x")])
    assert scores["word-error-rate"] >= 100  # letters that are not known are errors


def test_a_sound_longer_than_a_batch_and_one_longer_than_the_limit(tmp_path: Path):
    write(tmp_path / "a.wav", np.zeros(5 * RATE) + 0.1)
    table = tmp_path / "t.csv"
    table.write_text("audio,transcript\n" + "a.wav,one\n" * 4)
    data = f"data={{kind: speech, train: {table}, valid: {table}}}"
    settings = [*(each for each in SMALL if not each.startswith("data")), data, "training.steps=20"]
    with pytest.raises(InputError, match=r"t.csv:2: 501 tokens, more than training.batch_tokens, 400"):
        launch.train(
            run_file.read(path_of("spoken-digits"), [*settings, "training.batch_tokens=400"]), tmp_path / "run"
        )
    with pytest.raises(InputError, match=r"a.wav: 5 seconds of sound"):
        launch.train(run_file.read(path_of("spoken-digits"), [*settings, "audio.longest=2"]), tmp_path / "run2")

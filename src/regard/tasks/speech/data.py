"""Recordings with transcripts, from tables and folders, and their batches."""

import hashlib
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.audio import SUFFIXES, LogMel, Sound, read_audio
from regard.config.file_kinds import Kind, read_first_lines, suffix
from regard.data.batches import Batch, collate
from regard.data.data_files import DataFiles
from regard.data.files import (
    check_classes,
    folders_in,
    is_hidden,
    iterate_numbered_lines,
)
from regard.data.media_files import MediaFiles
from regard.data.rows import Row, iterate_converted
from regard.data.tables import Tabular
from regard.errors import InputError
from regard.nn.encoders import cells_of
from regard.shapes import Float, Int
from regard.text.special import SPECIAL, SpecialTokens

LISTS = {"valid": "validation_list.txt", "test": "testing_list.txt"}
"""The files that list the recordings of a set, in the folder of the folders."""
NO_TRANSCRIPT = "_"
"""The first character of folders of noise, such as `_background_noise_`."""
SPEAKER = re.compile(r"([0-9a-f]+)_nohash_\d+")
"""The name of a recording by its speaker and how often the speaker says the word."""
LIBRISPEECH = "*.trans.txt"
"""Files with the name and the transcript of a recording in each line."""
Span = tuple[float, float]
"""The seconds at which a part of a sound begins and ends."""
log = logging.getLogger("regard")


@runtime_checkable
class ComputedSound(Protocol):
    """A sound that is computed when it is read."""

    def sound(self) -> Sound: ...


Audio = Path | str | Sound | ComputedSound
"""The path of a file, a sound, or how it is computed."""


@dataclass(frozen=True, eq=False)
class Utterance:
    """A sound with its transcript."""

    audio: Audio
    transcript: str
    place: str
    """Its `file:line`, for messages."""
    spans: tuple[Span, ...] = ()
    """Those of the transcript's words, where they are known."""

    def sound(self, audio: LogMel) -> Sound:
        """Return the sound with the rate of the features.

        Raises:
            InputError: The file can't be read, or the sound is too long.
        """
        return audio.resample(*self._read(audio))

    def frames(self, audio: LogMel) -> int:
        """Return the number of frames. Raises InputError as `sound`."""
        return audio.count_frames(*self._read(audio))

    def load_sound(self, audio: LogMel) -> "Utterance":
        """Return the utterance with its sound in memory.

        Raises InputError as `sound`.
        """
        return replace(self, audio=self.sound(audio))

    def features(self, audio: LogMel) -> Float[Tensor, "frame mel"]:
        """Return the features. Raises InputError as `sound`."""
        return audio(torch.from_numpy(self.sound(audio).samples))

    def normalize_transcript(self, lower: bool) -> "Utterance":
        """Return the utterance with a normalized transcript."""
        return replace(self, transcript=normalize(self.transcript, lower))

    def _read(self, audio: LogMel) -> tuple[Sound, str]:
        """Return the sound at its own rate, and its name in messages."""
        if isinstance(self.audio, Path | str):
            return read_audio(self.audio, audio.longest), str(self.audio)
        if isinstance(self.audio, Sound):
            return self.audio, self.place
        return self.audio.sound(), self.place


def normalize(text: str, lower: bool) -> str:
    """Put single blanks between words, and lowercase with `lower`."""
    text = " ".join(text.split())
    return text.lower() if lower else text


def digest_sound(utterance: Utterance) -> str:
    """Return a digest of the sound of an utterance."""
    audio = utterance.audio
    if isinstance(audio, Path | str):
        with Path(audio).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    sound = audio if isinstance(audio, Sound) else audio.sound()
    return hashlib.sha256(sound.samples.tobytes()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class SpeechTables(DataFiles[Utterance], Tabular):
    """Tables of audio files and transcripts, or folders.

    A folder has one such table, or a .txt file of the same name for each sound, or
    folders of sounds with LibriSpeech's files of transcripts or with the transcript as
    their name. Without `valid`, sounds of the training set are held out, all of a
    speaker in one set where file names have the form `SPEAKER_nohash_NUMBER`. Speech
    Commands' lists of a set in such a folder are read too.
    """

    kind: Literal["speech"] = "speech"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    folder: str = "."
    """The folder of the recordings, seen from here or from the table's folder."""
    audio: str | int = "audio"
    """The column of the recording's file."""
    transcript: str | int = "transcript"
    """The column of the transcript."""

    recognised: ClassVar[tuple[Kind, ...]] = ("table", "folder")
    noun = "sounds"
    expected = (
        "a table of audio files and transcripts, or a folder with one, as --set "
        "data.train=PATH"
    )

    @property
    def files(self) -> MediaFiles:
        """Where the sounds are."""
        return MediaFiles(
            "audio file", "table of transcripts", SUFFIXES, "data.folder", self.folder
        )

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of sound and transcript."""
        return {"audio": self.audio, "transcript": self.transcript}

    def separate(self) -> dict[str, Sequence[Utterance]]:
        """Read the training files without the recordings in the lists of other sets."""
        parts = super().separate()
        lists = {name: self.read(path) for name, path in self.listed.items()}
        names = {str(sound.audio) for sounds in lists.values() for sound in sounds}
        train = [sound for sound in parts["train"] if str(sound.audio) not in names]
        return {**parts, **lists, "train": train}

    def group(self, example: Utterance) -> str:
        """Return the speaker, whose sounds stay in one set."""
        return speaker_of(str(example.audio))

    @property
    def listed(self) -> dict[str, str]:
        """The lists of sets in the training folder."""
        if self.train is None:
            return {}
        files = {name: Path(self.train) / file for name, file in LISTS.items()}
        return {name: str(file) for name, file in files.items() if file.is_file()}

    def tests(self) -> Sequence[Utterance]:
        """Read the test set; empty without one."""
        path = self.listed.get("test") if self.test is None else self.test
        return [] if path is None else self.read(path)

    def examples(self, path: str) -> Iterator[Utterance]:
        """Yield the sounds of a table, list or folder. Raises InputError as `load`."""
        folder = Path(path)
        if is_list(folder, self.files):
            yield from read_list(folder)
            return
        table = self.files.table_in(folder) if folder.is_dir() else path
        if table is not None:
            rows = self.streamed(table, self.columns)
            yield from iterate_converted(
                rows, self._parse, path, skip_bad=self.skip_bad
            )
        elif rows := read_librispeech(folder):
            yield from iterate_converted(
                rows, self._parse, path, skip_bad=self.skip_bad
            )
        else:
            yield from self._find_sounds(path)

    def _find_sounds(self, path: str) -> Iterator[Utterance]:
        """Yield sounds whose folders or text files are their transcripts."""
        folder = Path(path)
        sounds = self.files.within(folder)
        if are_named_by_folder(folder, sounds, self.files):
            log.info(
                "%s: the transcript of a recording is the name of its folder", path
            )
            for file in sounds:
                if not is_noise(file, folder):
                    yield Utterance(file, file.parent.name, str(file))
            return
        for file, lines in self.files.texts(folder, sounds):
            yield Utterance(file, " ".join(lines), str(file.with_suffix(".txt")))

    def _parse(self, row: Row) -> Utterance:
        name, transcript = row.fields
        if not transcript:
            raise InputError(
                f"{row.place}: {name!r} has no transcript, expected one behind it"
            )
        file = self.files.find(name, row.place)
        if self.skip_bad:  # before sounds are held out, so that none of those is bad
            read_audio(file, inf)
        return Utterance(file, transcript, row.place)


def is_noise(file: Path, folder: Path) -> bool:
    """Return whether a recording is in a folder of noise."""
    return file.relative_to(folder).parts[0].startswith(NO_TRANSCRIPT)


def are_named_by_folder(
    folder: Path, sounds: Sequence[Path], files: MediaFiles
) -> bool:
    """Return whether recordings lie in folders that are named by their transcripts.

    They do not where one has a .txt file of its name, or lies in the folder itself or
    deeper than in a folder of it.

    Raises:
        InputError: Folders are named after sets, or a table is in the folder above.
    """
    if not sounds or any(file.with_suffix(".txt").is_file() for file in sounds):
        return False
    check_classes(str(folder), [child.name for child in folders_in(folder)])
    files.check_above(folder, sounds)
    parents = {file.parent for file in sounds if not is_noise(file, folder)}
    return len(parents) > 1 and all(parent.parent == folder for parent in parents)


def read_librispeech(folder: Path) -> list[Row]:
    """Read names of recordings, without endings, and transcripts of LibriSpeech."""
    rows = []
    for file in sorted(folder.rglob(LIBRISPEECH)):
        for number, line in iterate_numbered_lines(file) if not is_hidden(file) else ():
            name, _, transcript = line.strip().partition(" ")
            if name:
                rows.append(Row((name, transcript), f"{file}:{number}"))
    return rows


def is_list(path: Path, files: MediaFiles) -> bool:
    """Return whether a .txt file has the name of a recording in each line."""
    if suffix(path) != "txt":
        return False
    names = [Path(line.strip()) for line in read_first_lines(path) if line.strip()]
    return bool(names) and all(name.suffix.lower() in files.suffixes for name in names)


def read_list(path: Path) -> Iterator[Utterance]:
    """Yield the recordings of a list, such as `yes/0a7c2a8d_nohash_0.wav` in each line.

    Raises:
        InputError: A recording is missing, or has no folder.
    """
    for number, line in iterate_numbered_lines(path):
        name, place = line.strip(), f"{path}:{number}"
        if not name:
            continue
        transcript, file = Path(name).parent.name, path.parent / name
        if not transcript:
            raise InputError(
                f"{place}: {name!r} has no folder, whose name is its transcript; expected "
                "FOLDER/FILE"
            )
        if not file.is_file():
            raise InputError(
                f"{place}: no audio file {name} beside the list; fetch it, or remove the "
                "line"
            )
        yield Utterance(file, transcript, place)


def speaker_of(file: str) -> str:
    """Return the speaker of a recording of Speech Commands, else the file."""
    match = SPEAKER.fullmatch(Path(file).stem)
    return match[1] if match else file


@dataclass(frozen=True, repr=False)
class SpeechBatch(Batch):
    """Features padded on the right with zeros, with transcripts for a decoder.

    The decoder reads `target_in` and predicts `target_out`, padded with `IGNORED`.
    """

    frames: Float[Tensor, "batch frame mel"]
    frame_lengths: Int[Tensor, " batch"]
    source_lengths: Int[Tensor, " batch"]
    """The keys of each sound."""
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    target_tokens: int
    """The tokens of all transcripts, the end included."""
    links: None = None


def collate_speech(
    examples: Sequence[tuple[Float[Tensor, "_frame mel"], list[int]]],
    halvings: int,
    special: SpecialTokens = SPECIAL,
) -> SpeechBatch:
    """Collate features with the ids of a transcript each.

    Args:
        examples: Features and ids.
        halvings: How often the encoder halves time.
        special: The special tokens.

    Raises:
        ValueError: There are no examples.
    """
    words = collate([([], ids) for _, ids in examples], target=special)
    frames, lengths = pad_features([features for features, _ in examples])
    keys = cells_of(lengths, halvings)
    return SpeechBatch(
        frames, lengths, keys, words.target_in, words.target_out, words.target_tokens
    )


def pad_features(
    features: Sequence[Float[Tensor, "_frame mel"]],
) -> tuple[Float[Tensor, "batch longest mel"], Int[Tensor, " batch"]]:
    """Stack features, with the number of frames of each."""
    lengths = torch.tensor([len(frames) for frames in features])
    return pad_sequence(list(features), batch_first=True), lengths

"""The `data:` section of a run file for speech: sounds with transcripts, from tables, and their batches."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.audio import SUFFIXES, LogMel, Sound, read_audio
from regard.config.recognition import Kind
from regard.data.bad_records import Row
from regard.data.batching import Batch, collate
from regard.data.beside import FilesBeside
from regard.data.splits import HeldOut, Splits
from regard.data.tables import Tabular
from regard.data.usable import usable
from regard.errors import InputError
from regard.nn.encoders.grid import cells_of
from regard.shapes import Float, Int
from regard.tasks.speech.folders import (
    in_named_folders,
    is_list,
    listed,
    lists_in,
    speaker,
    transcribed,
)
from regard.text.special import SPECIAL, SpecialTokens

log = logging.getLogger("regard")
Span = tuple[float, float]
"""The seconds at which a part of a sound begins and ends."""


@runtime_checkable
class Joined(Protocol):
    """A sound that is computed when it is read."""

    def sound(self) -> Sound: ...


Audio = Path | str | Sound | Joined
"""The path of a file, a sound, or how it is computed."""


@dataclass(frozen=True, eq=False)
class Utterance:
    """A sound, its transcript, and its `file:line`, for messages. `spans` are those of the transcript's words, where
    they are known."""

    audio: Audio
    transcript: str
    place: str
    spans: tuple[Span, ...] = ()

    def sound(self, audio: LogMel) -> Sound:
        """The sound with the rate of the features. Raises InputError for a file that cannot be read, and for one that
        is too long."""
        return audio.sound(*self._recorded(audio))

    def frames(self, audio: LogMel) -> int:
        """The number of frames of the features. Raises InputError as `sound` does."""
        return audio.frames_of(*self._recorded(audio))

    def loaded(self, audio: LogMel) -> "Utterance":
        """The utterance with its sound in memory, at the rate of the features. Raises InputError as `sound` does."""
        return replace(self, audio=self.sound(audio))

    def features(self, audio: LogMel) -> Float[Tensor, "frame mel"]:
        """The features. Raises InputError as `sound` does."""
        return audio(torch.from_numpy(self.sound(audio).samples))

    def _recorded(self, audio: LogMel) -> tuple[Sound, str]:
        """The sound at its own rate, and its name in messages."""
        match self.audio:
            case Sound():
                return self.audio, self.place
            case Path() | str():
                return read_audio(self.audio, audio.longest), str(self.audio)
            case _:
                return self.audio.sound(), self.place


@dataclass(frozen=True, kw_only=True)
class SpeechTables(HeldOut, Tabular):
    """A table a set with the columns `audio`, a file in the folder `folder`, or beside the table or in a folder there,
    and `transcript`. A folder instead has one such table, or a .txt file of the same name for each sound, or folders of
    sounds with LibriSpeech's files of transcripts, or that are named by their transcripts. Without `valid`, sounds of
    the training set are held out, all of a speaker in one set where file names have the form `SPEAKER_nohash_NUMBER`.
    Speech Commands' lists of a set in such a folder of folders are read too.

    folder: The folder of the recordings, seen from here or from the table's folder.
    audio: The column of the recording's file.
    transcript: The column of the transcript.
    """

    kind: Literal["speech"] = "speech"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    folder: str = "."
    audio: str | int = "audio"
    transcript: str | int = "transcript"

    recognised: ClassVar[tuple[Kind, ...]] = ("table", "folder")

    @property
    def files(self) -> FilesBeside:
        """Where the sounds are."""
        return FilesBeside(
            "audio file", "table of transcripts", SUFFIXES, "data.folder", self.folder
        )

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of sound and transcript."""
        return {"audio": self.audio, "transcript": self.transcript}

    def load(self) -> Splits[Utterance]:
        """Read all sets. Raises InputError with file and line for an invalid record."""
        if self.train is None:
            raise InputError(
                "data.train is not given; expected a table of audio files and transcripts, or a folder with one, "
                "as --set data.train=PATH"
            )
        lists = {name: self.read(path) for name, path in self.listed.items()}
        others = {str(each.audio) for some in lists.values() for each in some}
        train = [
            each for each in self.read(self.train) if str(each.audio) not in others
        ]
        valid = lists.get("valid", []) if self.valid is None else self.read(self.valid)
        if not valid:
            what = f"{self.train}: {len(train):,} sounds"
            train, valid = self.hold_out(
                train, what, lambda each: speaker(str(each.audio))
            )
        return Splits(
            train,
            valid,
            lists.get("test", []) if self.test is None else self.read(self.test),
        )

    @property
    def listed(self) -> dict[str, str]:
        """The lists of sets in the training folder, which are read where the run file names no files of the set."""
        return {} if self.train is None else lists_in(Path(self.train))

    def tests(self) -> Sequence[Utterance]:
        """The sounds of the test set; none without one. Raises InputError as `load` does."""
        path = self.listed.get("test") if self.test is None else self.test
        return [] if path is None else self.read(path)

    def read(self, path: str) -> list[Utterance]:
        """Read the sounds of another table, list or folder. Raises InputError as `load` does."""
        folder = Path(path)
        if is_list(folder, self.files):
            return [Utterance(*each) for each in listed(folder)]
        table = self.files.table_in(folder) if folder.is_dir() else path
        if table is None and (rows := transcribed(folder)):
            return usable(rows, self._of, path, skip_bad=self.skip_bad)
        if table is None:
            every = self.files.within(folder)
            if named := in_named_folders(folder, every, self.files):
                log.info(
                    "%s: the transcript of a recording is the name of its folder", path
                )
                return [Utterance(sound, name, str(sound)) for sound, name in named]
            found = self.files.texts(folder, every)
            return [
                Utterance(sound, " ".join(lines), str(sound.with_suffix(".txt")))
                for sound, lines in found
            ]
        return usable(
            self.rows(table, self.columns), self._of, path, skip_bad=self.skip_bad
        )

    def _of(self, row: Row) -> Utterance:
        name, transcript = row.fields
        if not transcript:
            raise InputError(
                f"{row.place}: {name!r} has no transcript, expected one behind it"
            )
        file = self.files.found(name, row.place)
        if self.skip_bad:  # before sounds are held out, so that none of those is bad
            read_audio(file, inf)
        return Utterance(file, transcript, row.place)


def contents(each: Utterance) -> str:
    """A digest of the sound of an utterance."""
    if isinstance(each.audio, Path | str):
        with Path(each.audio).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    sound = each.audio if isinstance(each.audio, Sound) else each.audio.sound()
    return hashlib.sha256(sound.samples.tobytes()).hexdigest()


@dataclass(frozen=True, repr=False)
class SpeechBatch(Batch):
    """Features padded on the right with zeros, of `frame_lengths`, with ids (int64): the decoder reads `target_in` and
    should predict `target_out`, padded with `IGNORED`. `source_lengths` counts the keys of each sound, and
    `target_tokens` the tokens of all transcripts, the end included. Transcripts have no word links: `links` is None."""

    frames: Float[Tensor, "batch frame mel"]
    frame_lengths: Int[Tensor, " batch"]
    source_lengths: Int[Tensor, " batch"]
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    target_tokens: int
    links: None = None


def collate_speech(
    examples: Sequence[tuple[Float[Tensor, "_frame mel"], list[int]]],
    halvings: int,
    special: SpecialTokens = SPECIAL,
) -> SpeechBatch:
    """Features with the ids of a transcript each; time is halved so many times. Raises ValueError for no examples."""
    words = collate([([], ids) for _, ids in examples], target=special)
    frames, lengths = padded([features for features, _ in examples])
    keys = cells_of(lengths, halvings)
    return SpeechBatch(
        frames, lengths, keys, words.target_in, words.target_out, words.target_tokens
    )


def padded(
    features: Sequence[Float[Tensor, "_frame mel"]],
) -> tuple[Float[Tensor, "batch longest mel"], Int[Tensor, " batch"]]:
    """Features as one tensor, with the number of frames of each."""
    return pad_sequence(list(features), batch_first=True), torch.tensor(
        [len(each) for each in features]
    )


def normalised(each: Utterance, lower: bool) -> Utterance:
    """The utterance with single blanks between the words of its transcript, lowercased with `lower`."""
    text = " ".join(each.transcript.split())
    return replace(each, transcript=text.lower() if lower else text)

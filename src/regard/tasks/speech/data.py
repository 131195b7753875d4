"""Recordings with transcripts, from tables and folders, and their batches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.audio import (
    SUFFIXES,
    LogMel,
    Sound,
    check_length,
    count_resampled,
    read_audio,
    resample,
)
from regard.config.file_kinds import Kind
from regard.data.data_files import TableFiles
from regard.data.media_files import MediaFiles
from regard.data.rows import Row
from regard.data.tables import Columns
from regard.errors import InputError
from regard.shapes import Float, Int

Audio = Path | str | Sound | Callable[[], Sound]
"""The path of a file, a sound, or a function that computes one."""


@dataclass(frozen=True, eq=False)
class Utterance:
    """A sound with its transcript."""

    audio: Audio
    transcript: str
    place: str
    """Its `file:line`, for messages."""

    def read(self, longest: float) -> Sound:
        """Return the sound at its own rate.

        Raises:
            InputError: The file can't be read, or has more than `longest` seconds.
        """
        if isinstance(self.audio, Path | str):
            return read_audio(self.audio, longest)
        sound = self.audio if isinstance(self.audio, Sound) else self.audio()
        check_length(sound.seconds, longest, self.place)
        return sound

    def sound(self, audio: LogMel) -> Sound:
        """Return the sound with the rate of the features. Raises InputError as `read`."""
        return resample(self.read(audio.longest), audio.rate)

    def frames(self, audio: LogMel) -> int:
        """Return the number of frames. Raises InputError as `read`."""
        return audio.frames(count_resampled(self.read(audio.longest), audio.rate))

    def features(self, audio: LogMel) -> Float[Tensor, "frame mel"]:
        """Return the features. Raises InputError as `read`."""
        return audio(torch.from_numpy(self.sound(audio).samples))


def normalize(text: str, lower: bool) -> str:
    """Put single blanks between words, and lowercase with `lower`."""
    text = " ".join(text.split())
    return text.lower() if lower else text


@dataclass(frozen=True, kw_only=True)
class SpeechTables(TableFiles[Utterance]):
    """Tables of audio files and transcripts, or folders with one such table."""

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

    def read_table(self, path: Any, split: Columns) -> Iterator[Utterance]:
        """Yield the sounds of a table. Raises InputError as `load` does."""
        return super().read_table(self.files.table_of(path), split)

    def parse(self, row: Row) -> Utterance:
        """Return the sound of a row. Raises InputError for one that is not there."""
        name, transcript = row.fields
        if not transcript:
            raise InputError(
                f"{row.place}: {name!r} has no transcript, expected one behind it"
            )
        file = self.files.find(name, row.place)
        if self.skip_bad:  # before sounds are held out, so that none of those is bad
            read_audio(file, inf)
        return Utterance(file, transcript, row.place)


def pad_features(
    features: Sequence[Float[Tensor, "_frame mel"]],
) -> tuple[Float[Tensor, "batch longest mel"], Int[Tensor, " batch"]]:
    """Stack features, with the number of frames of each."""
    lengths = torch.tensor([len(frames) for frames in features])
    return pad_sequence(list(features), batch_first=True), lengths

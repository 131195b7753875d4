"""Recordings with transcripts, from tables and folders, and their batches."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import ClassVar, Literal

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
from regard.data.data_files import DataFiles
from regard.data.files import check_classes, folders_in
from regard.data.media_files import MediaFiles
from regard.data.rows import Row, iterate_converted
from regard.data.tables import Tabular
from regard.errors import InputError
from regard.shapes import Float, Int

NO_TRANSCRIPT = "_"
"""The first character of folders of noise, such as `_background_noise_`."""
SPEAKER = re.compile(r"([0-9a-f]+)_nohash_\d+")
"""The name of a recording by its speaker and how often the speaker says the word."""
log = logging.getLogger("regard")
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
class SpeechTables(DataFiles[Utterance], Tabular):
    """Tables of audio files and transcripts, or folders.

    A folder has one such table, or a .txt file of the same name for each sound, or
    folders of sounds with the transcript as their name. Without `valid`, sounds of the
    training set are held out, all of a speaker in one set where file names have the form
    `SPEAKER_nohash_NUMBER` (Speech Commands).
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

    def group(self, example: Utterance) -> str:
        """Return the speaker, whose sounds stay in one set, or else the file."""
        match = SPEAKER.fullmatch(Path(str(example.audio)).stem)
        return match[1] if match else str(example.audio)

    def examples(self, path: str) -> Iterator[Utterance]:
        """Yield the sounds of a table or folder. Raises InputError as `load` does."""
        folder = Path(path)
        table = self.files.table_in(folder) if folder.is_dir() else path
        if table is not None:
            rows = self.stream_rows(table, self.columns)
            yield from iterate_converted(
                rows, self._parse, path, skip_bad=self.skip_bad
            )
            return
        sounds = [
            file
            for file in self.files.list_within(folder)
            if not file.relative_to(folder).parts[0].startswith(NO_TRANSCRIPT)
        ]
        if self._are_named_by_folder(folder, sounds):
            log.info(
                "%s: the transcript of a recording is the name of its folder", path
            )
            for file in sounds:
                yield Utterance(file, file.parent.name, str(file))
            return
        for file, lines in self.files.texts(folder, sounds):
            yield Utterance(file, " ".join(lines), str(file.with_suffix(".txt")))

    def _are_named_by_folder(self, folder: Path, sounds: Sequence[Path]) -> bool:
        """Return whether recordings lie in folders that are named by their transcripts.

        They do not where one has a .txt file of its name, or lies in the folder itself or
        deeper than in a folder of it.

        Raises:
            InputError: Folders are named after sets.
        """
        if not sounds or any(file.with_suffix(".txt").is_file() for file in sounds):
            return False
        check_classes(str(folder), [child.name for child in folders_in(folder)])
        parents = {file.parent for file in sounds}
        return len(parents) > 1 and all(parent.parent == folder for parent in parents)

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


def pad_features(
    features: Sequence[Float[Tensor, "_frame mel"]],
) -> tuple[Float[Tensor, "batch longest mel"], Int[Tensor, " batch"]]:
    """Stack features, with the number of frames of each."""
    lengths = torch.tensor([len(frames) for frames in features])
    return pad_sequence(list(features), batch_first=True), lengths

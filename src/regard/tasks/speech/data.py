"""Sounds with transcripts: from tables and folders, or spoken digits."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
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
from regard.data.arrays import arrays
from regard.data.data_files import TableFiles
from regard.data.generated.pairs import (
    Size,
    SmallSize,
    SmallSizeOrNone,
    SyntheticOfLengths,
)
from regard.data.media_files import MediaFiles
from regard.data.rows import Row
from regard.data.splits import Splits
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

    recognised = ("table", "folder")
    noun = "sounds"
    expected = (
        "a table of audio files and transcripts, or a folder with one, as --set "
        "data.train=PATH"
    )

    @property
    def files(self) -> MediaFiles:
        """Where the sounds are."""
        return MediaFiles(
            "audio file",
            self.columns,
            SUFFIXES,
            "data.folder",
            self.folder,
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


RATE, SPEAKERS, REPEATS = 8_000, 3, 14
"""Samples a second; synthesized speakers, and the recordings of each digit by each."""
TESTS, VALIDS = range(5), range(5, 8)
"""The recordings of the test set (the published split) and of validation."""
HUM = 2e-4
"""The deviation of the noise in the string."""
NAMES = ("audio", "start", "digit", "recording", "speaker", "speaker_names")
BANDWIDTHS = (80.0, 110.0, 160.0)
STEP = 40
"""Samples between two sets of formants."""
SOUNDS = {
    "zero": "ziro",
    "one": "wan",
    "two": "tuu",
    "three": "Trii",
    "four": "foor",
    "five": "fav_",
    "six": "sI_ks",
    "seven": "sev@n",
    "eight": "eI_t",
    "nine": "nain",
}
"""The phones of each digit."""
DIGITS = list(SOUNDS)
SHORTEST_PAUSE, LONGEST_PAUSE = 0.03, 0.35
"""In seconds."""
QUIETEST = 12.0
"""The decibels by which a sound is at most quieter than the loudest."""


@dataclass(frozen=True)
class Phone:
    """A speech sound."""

    formants: tuple[int, int, int]
    """Frequencies in hertz."""
    voice: float
    """The loudness of the voice."""
    noise: float = 0.0
    """The loudness of the noise."""
    band: tuple[int, int] = (0, 4000)
    """The band of the noise in hertz."""
    seconds: float = 0.09


PHONES = {
    "a": Phone((730, 1090, 2440), 1.0),
    "e": Phone((530, 1840, 2480), 1.0),
    "i": Phone((280, 2250, 2900), 1.0),
    "I": Phone((400, 1990, 2550), 1.0, seconds=0.07),
    "o": Phone((570, 840, 2410), 1.0),
    "u": Phone((310, 870, 2250), 0.9),
    "@": Phone((500, 1500, 2500), 0.8, seconds=0.06),
    "r": Phone((420, 1200, 1600), 0.6, seconds=0.06),
    "w": Phone((300, 650, 2200), 0.5, seconds=0.06),
    "n": Phone((250, 1500, 2500), 0.35, seconds=0.07),
    "v": Phone(
        (280, 1100, 2300),
        0.25,
        0.08,
        (1000, 3800),
        0.05,
    ),
    "z": Phone(
        (250, 1600, 2500),
        0.2,
        0.25,
        (2800, 4000),
        0.07,
    ),
    "f": Phone(
        (300, 1100, 2300),
        0.0,
        0.12,
        (1200, 3900),
        0.09,
    ),
    "T": Phone(
        (300, 1400, 2500),
        0.0,
        0.08,
        (1800, 3900),
        0.07,
    ),
    "s": Phone(
        (300, 1700, 2500),
        0.0,
        0.4,
        (2700, 4000),
        0.1,
    ),
    "k": Phone(
        (300, 1800, 2400),
        0.0,
        0.3,
        (1500, 2600),
        0.03,
    ),
    "t": Phone(
        (300, 1800, 2600),
        0.0,
        0.35,
        (2400, 4000),
        0.03,
    ),
    "_": Phone((300, 1500, 2500), 0.0, seconds=0.04),
}


def synthesize(digit: int, rate: int, speaker: int, recording: int) -> np.ndarray:
    """Synthesize a digit, 0.9 at its loudest; a function of its arguments only."""
    voice = Random(f"speaker/{speaker}")
    random = Random(f"recording/{speaker}/{digit}/{recording}")
    pitch = voice.uniform(90, 220)
    tract = voice.uniform(0.9, 1.15)
    pace = voice.uniform(0.85, 1.2)
    pitch *= random.uniform(0.94, 1.06)
    pace *= random.uniform(0.9, 1.1)
    phones = [PHONES[name] for name in SOUNDS[DIGITS[digit]]]
    edges = [0]
    for phone in phones:
        seconds = phone.seconds * pace * random.uniform(0.85, 1.15)
        count = max(STEP, round(seconds * rate))
        edges.append(edges[-1] + count)
    noise = np.random.default_rng(random.getrandbits(32)).standard_normal(edges[-1])
    samples = synthesize_voice(
        phones,
        np.array(edges),
        rate,
        pitch,
        tract,
    )
    for phone, (first, last) in zip(phones, itertools.pairwise(edges), strict=True):
        if phone.noise:
            count = last - first
            low, high = phone.band
            spectrum = np.fft.rfft(noise[first:last])
            frequency = np.fft.rfftfreq(count, 1 / rate)
            inside = (frequency >= low) & (frequency <= high)
            band = np.fft.irfft(spectrum * inside, count)
            samples[first:last] += phone.noise * band * np.hanning(count)
    return 0.9 * samples / abs(samples).max()


def synthesize_voice(
    phones: Sequence[Phone], edges: np.ndarray, rate: int, pitch: float, tract: float
) -> np.ndarray:
    """Sum harmonics of a falling pitch, weighted by the gains of three resonances."""
    count = edges[-1]
    time = np.arange(count)
    coarse = np.arange(0, count + STEP, STEP)
    middles = (edges[1:] + edges[:-1]) / 2
    formants = []
    for values in zip(*[phone.formants for phone in phones], strict=True):
        formants.append(tract * np.interp(coarse, middles, values))
    voices = [phone.voice for phone in phones]
    loudness = np.interp(coarse, middles, voices)
    fundamental = pitch * np.linspace(1.08, 0.9, count)
    phase = 2 * np.pi * np.cumsum(fundamental) / rate
    samples = np.zeros(count)
    highest = int(rate / 2 / (1.08 * pitch))
    for harmonic in range(1, highest):
        frequency = harmonic * pitch
        gains = []
        for formant, bandwidth in zip(formants, BANDWIDTHS, strict=True):
            distance = (formant**2 - frequency**2) ** 2
            width = (bandwidth * frequency) ** 2
            gains.append(formant**2 / np.sqrt(distance + width))
        gain = np.prod(gains, 0) / harmonic
        envelope = np.interp(time, coarse, gain * loudness)
        samples += envelope * np.sin(harmonic * phase)
    return samples


@dataclass(frozen=True, eq=False)
class Recording:
    """One spoken digit."""

    speaker: str
    digit: int
    number: int
    samples: np.ndarray


@lru_cache(1)
def synthesize_all() -> list[Recording]:
    """Synthesize the recordings of all speakers."""
    numbers = itertools.product(range(SPEAKERS), range(10), range(REPEATS))
    return [
        Recording(
            f"synthetic {speaker}",
            digit,
            number,
            synthesize(digit, RATE, speaker, number).astype(np.float32),
        )
        for speaker, digit, number in numbers
    ]


def set_of(number: int) -> str:
    """Return the set that a recording belongs to, by its number."""
    return "test" if number in TESTS else "valid" if number in VALIDS else "train"


def read_recordings(path: str) -> list[Recording]:
    """Read the recordings of an .npz file, each at most 0.9 at its loudest.

    Raises:
        InputError: It is another file, or its arrays do not fit together.
    """
    audio, start, digit, number, speaker, names = arrays(path, NAMES)
    try:
        rows = zip(
            itertools.pairwise(start), digit, number, names[speaker], strict=True
        )
        spans = np.diff(start, append=len(audio) + 1)
        if audio.dtype != np.int16 or digit.max(initial=0) > 9 or spans.min() <= 0:
            raise ValueError(path)
        recordings = []
        for (first, last), spoken, count, name in rows:
            samples = audio[first:last].astype(np.float32)
            samples *= np.float32(0.9) / max(1.0, float(abs(samples).max()))
            recordings.append(Recording(str(name), int(spoken), int(count), samples))
    except (IndexError, ValueError):
        raise InputError(
            f"{path}: its arrays do not fit together; expected int16 audio, and for each "
            "recording its start in order, a digit 0 to 9, its number and its speaker"
        ) from None
    return recordings


@dataclass(frozen=True, eq=False)
class DigitString:
    """Recordings with pauses before each and after the last, in weak noise."""

    parts: tuple[Recording, ...]
    pauses: tuple[int, ...]
    """In samples."""
    gain: float
    seed: int

    def __call__(self) -> Sound:
        """Join the recordings."""
        count = sum(self.pauses) + sum(len(part.samples) for part in self.parts)
        noise = HUM * np.random.default_rng(self.seed).standard_normal(count)
        samples = noise.astype(np.float32)
        last = 0
        for pause, part in zip(self.pauses, self.parts, strict=False):
            first = last + pause
            last = first + len(part.samples)
            samples[first:last] += np.float32(self.gain) * part.samples
        return Sound(samples.clip(-1, 1), RATE)


@dataclass(frozen=True, kw_only=True)
class SpokenDigits(SyntheticOfLengths):
    """Strings of digits of one speaker, with pauses and levels that vary.

    Recordings 0 to 4 of each digit and speaker are the test set, 5 to 7 the validation
    set.
    """

    kind: Literal["spoken-digits"] = "spoken-digits"
    train: Size = 4_000
    valid: SmallSize = 200
    test: SmallSizeOrNone = 500
    least: int = 1
    """The smallest number of digits in a sound."""
    most: int = 5
    """The largest number of digits in a sound."""
    recordings: str | None = None
    """An .npz file of recorded digits; without one the digits are synthesized."""
    held_out_speaker: str | None = None
    """The only speaker of the test set, left out of the other sets."""

    def load(self) -> Splits[Utterance]:
        """Join the strings of all three sets, each by a generator of its own.

        Raises:
            InputError: `recordings` is no such file, or a set has no recording.
        """
        pool = synthesize_all()
        if self.recordings is not None:
            pool = read_recordings(self.recordings)
        return Splits(*(self._make(name, pool) for name in ("train", "valid", "test")))

    def tests(self) -> Sequence[Utterance]:
        """Join the strings of the test set. Raises InputError as `load`."""
        return self.load().test

    def _make(self, name: str, pool: Sequence[Recording]) -> list[Utterance]:
        held_out = self.held_out_speaker
        recordings = [
            recording
            for recording in pool
            if set_of(recording.number) == name
            and (
                held_out is None or (recording.speaker == held_out) == (name == "test")
            )
        ]
        count = getattr(self, name)
        if not recordings and count:
            names = sorted({recording.speaker for recording in pool})
            raise InputError(
                f"spoken-digits: no recording of the set {name}; recordings 0 to 4 are the "
                f"test set, and the speakers are {', '.join(names)}"
            )
        random = Random(f"spoken-digits/{self.seed}/{name}")
        speakers = sorted({recording.speaker for recording in recordings})
        utterances = []
        for number in range(1, count + 1):
            speaker = random.choice(speakers)
            spoken = [r for r in recordings if r.speaker == speaker]
            digits = sorted({recording.digit for recording in spoken})
            length = random.randint(self.least, self.most)
            parts = []
            for _ in range(length):
                digit = random.choice(digits)
                parts.append(random.choice([r for r in spoken if r.digit == digit]))
            pauses = [
                round(random.uniform(SHORTEST_PAUSE, LONGEST_PAUSE) * RATE)
                for _ in range(length + 1)
            ]
            gain = 10 ** (-random.uniform(0, QUIETEST) / 20)
            seed = random.getrandbits(32)
            joined = DigitString(tuple(parts), tuple(pauses), gain, seed)
            transcript = " ".join(DIGITS[part.digit] for part in parts)
            place = f"spoken-digits {name} {number}"
            utterances.append(Utterance(joined, transcript, place))
        return utterances

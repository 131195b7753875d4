"""Strings of spoken digits, recorded or by a formant synthesizer.

A synthesized digit is a sequence of phones. A vowel has three formants, between which
the sound glides; a consonant is noise in a band, or a weak voice. Speakers differ in
pitch, in the length of their vocal tract, which scales all formants, and in their pace.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from regard.audio import Sound
from regard.data.arrays import arrays
from regard.data.generated.synthetic import SyntheticOfLengths
from regard.data.splits import Splits
from regard.errors import InputError
from regard.tasks.speech.data import Utterance

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
DIGITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
]
SOUNDS = [
    "ziro",
    "wan",
    "tuu",
    "Trii",
    "foor",
    "fav_",
    "sI_ks",
    "sev@n",
    "eI_t",
    "nain",
]
Seconds = Annotated[float, Field(ge=0, le=10)]


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
    "v": Phone((280, 1100, 2300), 0.25, 0.08, (1000, 3800), 0.05),
    "z": Phone((250, 1600, 2500), 0.2, 0.25, (2800, 4000), 0.07),
    "f": Phone((300, 1100, 2300), 0.0, 0.12, (1200, 3900), 0.09),
    "T": Phone((300, 1400, 2500), 0.0, 0.08, (1800, 3900), 0.07),
    "s": Phone((300, 1700, 2500), 0.0, 0.4, (2700, 4000), 0.1),
    "k": Phone((300, 1800, 2400), 0.0, 0.3, (1500, 2600), 0.03),
    "t": Phone((300, 1800, 2600), 0.0, 0.35, (2400, 4000), 0.03),
    "_": Phone((300, 1500, 2500), 0.0, seconds=0.04),
}


def synthesize(digit: int, rate: int, speaker: int, recording: int) -> np.ndarray:
    """Synthesize a digit, 0.9 at its loudest; a function of its arguments only."""
    voice = Random(f"speaker/{speaker}")
    random = Random(f"recording/{speaker}/{digit}/{recording}")
    pitch, tract = voice.uniform(90, 220), voice.uniform(0.9, 1.15)
    pace = voice.uniform(0.85, 1.2)
    pitch, pace = pitch * random.uniform(0.94, 1.06), pace * random.uniform(0.9, 1.1)
    phones = [PHONES[name] for name in SOUNDS[digit]]
    counts = [
        max(STEP, round(phone.seconds * pace * random.uniform(0.85, 1.15) * rate))
        for phone in phones
    ]
    edges = np.cumsum([0, *counts])
    noise = np.random.default_rng(random.getrandbits(32)).standard_normal(edges[-1])
    samples = synthesize_voice(phones, edges, rate, pitch, tract)
    for phone, first, last in zip(phones, edges, edges[1:], strict=False):
        if phone.noise:
            band = filter_band(noise[first:last], phone.band, rate)
            samples[first:last] += phone.noise * band * np.hanning(last - first)
    return 0.9 * samples / abs(samples).max()


def synthesize_voice(
    phones: Sequence[Phone], edges: np.ndarray, rate: int, pitch: float, tract: float
) -> np.ndarray:
    """Sum harmonics of a falling pitch, weighted by the gains of three resonances."""
    time = np.arange(edges[-1])
    middles = (edges[1:] + edges[:-1]) / 2
    coarse = np.arange(0, edges[-1] + STEP, STEP)
    formants = [
        tract * np.interp(coarse, middles, [phone.formants[n] for phone in phones])
        for n in range(3)
    ]
    loudness = np.interp(coarse, middles, [phone.voice for phone in phones])
    fundamental = pitch * np.linspace(1.08, 0.9, len(time))
    phase = 2 * np.pi * np.cumsum(fundamental) / rate
    samples = np.zeros(len(time))
    for harmonic in range(1, int(rate / 2 / (1.08 * pitch))):
        gains = [
            resonance_gain(harmonic * pitch, formant, bandwidth)
            for formant, bandwidth in zip(formants, BANDWIDTHS, strict=True)
        ]
        gain = np.prod(gains, 0) / harmonic
        samples += np.interp(time, coarse, gain * loudness) * np.sin(harmonic * phase)
    return samples


def resonance_gain(
    frequency: float, formant: np.ndarray, bandwidth: float
) -> np.ndarray:
    """Return the gain of a resonance at a frequency."""
    distance = (formant**2 - frequency**2) ** 2
    return formant**2 / np.sqrt(distance + (bandwidth * frequency) ** 2)


def filter_band(noise: np.ndarray, band: tuple[int, int], rate: int) -> np.ndarray:
    """Keep the frequencies of a band."""
    spectrum, frequency = np.fft.rfft(noise), np.fft.rfftfreq(len(noise), 1 / rate)
    inside = (frequency >= band[0]) & (frequency <= band[1])
    return np.fft.irfft(spectrum * inside, len(noise))


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
    recordings = []
    for speaker, digit, number in numbers:
        samples = synthesize(digit, RATE, speaker, number).astype(np.float32)
        recordings.append(Recording(f"synthetic {speaker}", digit, number, samples))
    return recordings


def set_of(number: int) -> str:
    """Return the set that a recording belongs to, by its number."""
    return "test" if number in TESTS else "valid" if number in VALIDS else "train"


def read_recordings(path: str) -> list[Recording]:
    """Read the recordings of an .npz file, each at most 0.9 at its loudest.

    Raises:
        InputError: It is another file, or its arrays do not fit together.
    """
    if Path(path).is_dir():
        raise InputError(
            f"{path}: is a folder; expected an .npz file with the arrays "
            f"{', '.join(NAMES)}"
        )
    audio, start, digit, number, speaker, names = arrays(path, NAMES)
    counts = {len(start) - 1, len(digit), len(number), len(speaker)}
    if (
        len(counts) > 1
        or audio.dtype != np.int16
        or start.dtype.kind != "i"
        or names.dtype.kind != "U"
    ):
        raise InputError(
            f"{path}: its arrays do not fit together; expected int16 audio, and one start, "
            "digit, ... each"
        )
    in_order = len(digit) and start[0] == 0 and (np.diff(start) > 0).all()
    if (
        not in_order
        or start[-1] != len(audio)
        or digit.max() > 9
        or speaker.max() >= len(names)
    ):
        raise InputError(
            f"{path}: a start, digit or speaker is out of range; expected digits 0 to 9, "
            "starts in order"
        )
    recordings = []
    for row, (first, last) in enumerate(itertools.pairwise(start)):
        samples = audio[first:last].astype(np.float32)
        samples *= np.float32(0.9) / max(1.0, float(abs(samples).max()))
        name = str(names[speaker[row]])
        recordings.append(Recording(name, int(digit[row]), int(number[row]), samples))
    return recordings


@dataclass(frozen=True, eq=False)
class DigitString:
    """Recordings with pauses before each and after the last, in weak noise."""

    parts: tuple[Recording, ...]
    pauses: tuple[int, ...]
    """In samples."""
    gain: float
    seed: int

    @property
    def edges(self) -> list[tuple[int, int]]:
        """The samples at which each recording begins and ends."""
        edges, end = [], 0
        for pause, part in zip(self.pauses, self.parts, strict=False):
            edges.append((end + pause, end + pause + len(part.samples)))
            end = edges[-1][1]
        return edges

    def sound(self) -> Sound:
        """Join the recordings."""
        count = self.edges[-1][1] + self.pauses[-1]
        noise = HUM * np.random.default_rng(self.seed).standard_normal(count)
        samples = noise.astype(np.float32)
        for (first, last), part in zip(self.edges, self.parts, strict=True):
            samples[first:last] += np.float32(self.gain) * part.samples
        return Sound(samples.clip(-1, 1), RATE)


@dataclass(frozen=True, kw_only=True)
class SpokenDigits(SyntheticOfLengths):
    """Strings of digits of one speaker, with pauses and levels that vary.

    Recordings 0 to 4 of each digit and speaker are the test set, 5 to 7 the validation
    set.
    """

    kind: Literal["spoken-digits"] = "spoken-digits"
    train: int = 4_000
    valid: int = 200
    test: int = 500
    least: int = 1
    """The smallest number of digits in a sound."""
    most: int = 5
    """The largest number of digits in a sound."""
    recordings: str | None = None
    """An .npz file of recorded digits; without one the digits are synthesized."""
    shortest: Seconds = 0.03
    """The seconds of the shortest pause."""
    longest: Seconds = 0.35
    """The seconds of the longest pause."""
    quieter: Annotated[float, Field(ge=0, le=60)] = 12.0
    """The decibels by which a sound is at most quieter than the loudest."""
    held_out_speaker: str | None = None
    """The only speaker of the test set, left out of the other sets."""

    most_train = 1_000_000
    most_held_out = 100_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortest > self.longest:
            raise InputError(
                f"spoken-digits: shortest is {self.shortest} and longest {self.longest}; "
                "expected shortest <= longest"
            )

    def load(self) -> Splits[Utterance]:
        """Join the strings of all three sets, each by a generator of its own.

        Raises:
            InputError: `recordings` is no such file.
        """
        pool = self._read_pool()
        return Splits(*(self._make(name, pool) for name in ("train", "valid", "test")))

    def tests(self) -> list[Utterance]:
        """Join the strings of the test set. Raises InputError as `load`."""
        return self._make("test", self._read_pool())

    def _read_pool(self) -> list[Recording]:
        if self.recordings is None:
            pool = synthesize_all()
        else:
            pool = read_recordings(self.recordings)
        names = sorted({recording.speaker for recording in pool})
        held_out = self.held_out_speaker
        if held_out is not None and (held_out not in names or len(names) < 2):
            raise InputError(
                f"spoken-digits: held_out_speaker is {held_out!r}; expected one of "
                f"{', '.join(names)}, with others beside it"
            )
        return pool

    def _make(self, name: str, pool: Sequence[Recording]) -> list[Utterance]:
        speakers: dict[str, dict[int, list[Recording]]] = {}
        for recording in pool:
            held_out = recording.speaker == self.held_out_speaker
            is_allowed = self.held_out_speaker is None or held_out == (name == "test")
            if set_of(recording.number) == name and is_allowed:
                digits = speakers.setdefault(recording.speaker, {})
                digits.setdefault(recording.digit, []).append(recording)
        count = getattr(self, name)
        if not speakers and count:
            raise InputError(
                f"{self.recordings}: no recording of the set {name}; recordings 0 to 4 are "
                "the test set"
            )
        random = Random(f"spoken-digits/{self.seed}/{name}")
        return [
            self._join(random, speakers, f"spoken-digits {name} {number}")
            for number in range(1, count + 1)
        ]

    def _join(
        self,
        random: Random,
        speakers: dict[str, dict[int, list[Recording]]],
        place: str,
    ) -> Utterance:
        digits = speakers[random.choice(sorted(speakers))]
        count = random.randint(self.least, self.most)
        parts = tuple(
            random.choice(digits[random.choice(sorted(digits))]) for _ in range(count)
        )
        pauses = tuple(
            round(random.uniform(self.shortest, self.longest) * RATE)
            for _ in range(count + 1)
        )
        gain = 10 ** (-random.uniform(0, self.quieter) / 20)
        joined = DigitString(parts, pauses, gain, random.getrandbits(32))
        spans = tuple((first / RATE, last / RATE) for first, last in joined.edges)
        transcript = " ".join(DIGITS[part.digit] for part in parts)
        return Utterance(joined, transcript, place, spans)

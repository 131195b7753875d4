"""Recordings of spoken digits joined to strings, so that it is known when each digit is spoken."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float32
from pydantic import Field

from regard.audio import Sound
from regard.data.arrays import arrays
from regard.data.generated.synthetic import SyntheticOfLengths
from regard.data.splits import Splits
from regard.errors import InputError
from regard.tasks.speech.data import Utterance
from regard.tasks.speech.synthesis import DIGITS, recordings

RATE, SPEAKERS, EACH = 8_000, 3, 14
"""Samples a second of all recordings; the synthesised speakers, and the recordings of each digit by each of them."""
TESTS, VALIDS = range(5), range(5, 8)
"""The numbers of the recordings of the test set (the published split) and of the validation set."""
HUM = 2e-4
"""The deviation of the noise in the whole string."""
NAMES = ("audio", "start", "digit", "recording", "speaker", "speaker_names")
Seconds = Annotated[float, Field(ge=0, le=10)]


@dataclass(frozen=True, eq=False)
class Recording:
    """One spoken digit."""

    speaker: str
    digit: int
    number: int
    samples: Float32[np.ndarray, " sample"]


@dataclass(frozen=True, eq=False)
class DigitString:
    """Recordings with pauses (in samples) before each and after the last, multiplied by `gain`, in weak noise."""

    parts: tuple[Recording, ...]
    pauses: tuple[int, ...]
    gain: float
    seed: int

    @property
    def edges(self) -> list[tuple[int, int]]:
        """The samples at which each recording begins and ends."""
        found, at = [], 0
        for pause, part in zip(self.pauses, self.parts, strict=False):
            found.append((at + pause, at + pause + len(part.samples)))
            at = found[-1][1]
        return found

    def sound(self) -> Sound:
        """The joined sound."""
        count = self.edges[-1][1] + self.pauses[-1]
        samples = (
            HUM * np.random.default_rng(self.seed).standard_normal(count)
        ).astype(np.float32)
        for (first, last), part in zip(self.edges, self.parts, strict=True):
            samples[first:last] += np.float32(self.gain) * part.samples
        return Sound(samples.clip(-1, 1), RATE)


@dataclass(frozen=True, kw_only=True)
class SpokenDigits(SyntheticOfLengths):
    """Strings of `least` to `most` digits of one speaker, with pauses of `shortest` to `longest` seconds and a level of
    0 to -`quieter` decibels. The digits are those of `recordings`, an .npz file with the arrays audio, start, digit,
    recording, speaker and speaker_names, or synthesised without one. Recordings 0 to 4 of each digit and speaker are
    the test set, 5 to 7 the validation set. With `held_out_speaker` the test set is of this speaker only, and the other
    sets are of the others.

    recordings: An .npz file of recorded digits; without one the digits are synthesised.
    least: The smallest number of digits in a sound.
    most: The largest number of digits in a sound.
    shortest: The seconds of the shortest pause.
    longest: The seconds of the longest pause.
    quieter: The decibels by which a sound is at most quieter than the loudest.
    held_out_speaker: The only speaker of the test set, left out of the other sets.
    """

    kind: Literal["spoken-digits"] = "spoken-digits"
    train: int = 4_000
    valid: int = 200
    test: int = 500
    most: int = 5
    recordings: str | None = None
    shortest: Seconds = 0.03
    longest: Seconds = 0.35
    quieter: Annotated[float, Field(ge=0, le=60)] = 12.0
    held_out_speaker: str | None = None

    most_train = 1_000_000
    most_held_out = 100_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortest > self.longest:
            raise InputError(
                f"spoken-digits: shortest is {self.shortest} and longest {self.longest}; expected shortest <= longest"
            )

    def load(self) -> Splits[Utterance]:
        """Join all three sets, each by a generator of its own. Raises InputError for a file that is no such .npz."""
        pool = self._pool()
        return Splits(*(self._make(name, pool) for name in ("train", "valid", "test")))

    def tests(self) -> list[Utterance]:
        """The strings of the test set. Raises InputError as `load` does."""
        return self._make("test", self._pool())

    def _pool(self) -> list[Recording]:
        pool = (
            synthesised()
            if self.recordings is None
            else read_recordings(self.recordings)
        )
        names = sorted({each.speaker for each in pool})
        if self.held_out_speaker is not None and (
            self.held_out_speaker not in names or len(names) < 2
        ):
            raise InputError(
                f"spoken-digits: held_out_speaker is {self.held_out_speaker!r}; expected one of {', '.join(names)}, "
                "with others beside it"
            )
        return pool

    def _make(self, name: str, pool: Sequence[Recording]) -> list[Utterance]:
        speakers: dict[str, dict[int, list[Recording]]] = {}
        for each in pool:
            if set_of(each.number) == name and self._used(each.speaker, name):
                speakers.setdefault(each.speaker, {}).setdefault(each.digit, []).append(
                    each
                )
        if not speakers and getattr(self, name):
            raise InputError(
                f"{self.recordings}: no recording of the set {name}; recordings 0 to 4 are the test set"
            )
        random = Random(f"spoken-digits/{self.seed}/{name}")
        return [
            self._string(random, speakers, f"{name} {number}")
            for number in range(1, getattr(self, name) + 1)
        ]

    def _used(self, speaker: str, name: str) -> bool:
        return self.held_out_speaker is None or (speaker == self.held_out_speaker) == (
            name == "test"
        )

    def _string(
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
        return Utterance(
            joined,
            " ".join(DIGITS[each.digit] for each in parts),
            f"spoken-digits {place}",
            spans,
        )


def set_of(number: int) -> str:
    """The set that a recording belongs to, by its number."""
    return "test" if number in TESTS else "valid" if number in VALIDS else "train"


def synthesised() -> list[Recording]:
    """Recordings by the formant synthesiser."""
    return [
        Recording(f"synthetic {speaker}", digit, number, samples.astype(np.float32))
        for speaker, digit, number, samples in recordings(RATE, SPEAKERS, EACH)
    ]


def read_recordings(path: str) -> list[Recording]:
    """The recordings of an .npz file, each at most 0.9 at its loudest. Raises InputError for another file, and for
    arrays that do not fit together."""
    if Path(path).is_dir():
        raise InputError(
            f"{path}: is a folder; expected an .npz file with the arrays {', '.join(NAMES)}"
        )
    audio, start, digit, number, speaker, names = arrays(path, NAMES)
    counts = {len(start) - 1, len(digit), len(number), len(speaker)}
    if (
        audio.dtype != np.int16
        or len(counts) > 1
        or start.dtype.kind != "i"
        or names.dtype.kind != "U"
    ):
        raise InputError(
            f"{path}: its arrays do not fit together; expected int16 audio, and one start, digit, ... each"
        )
    inside = (
        bool(len(digit))
        and start[0] == 0
        and start[-1] == len(audio)
        and (np.diff(start) > 0).all()
    )
    if not inside or digit.max() > 9 or speaker.max() >= len(names):
        raise InputError(
            f"{path}: a start, digit or speaker is out of range; expected digits 0 to 9, starts in order"
        )
    found = []
    for row, (first, last) in enumerate(itertools.pairwise(start)):
        samples = audio[first:last].astype(np.float32)
        samples *= np.float32(0.9) / max(1.0, float(abs(samples).max()))
        found.append(
            Recording(
                str(names[speaker[row]]), int(digit[row]), int(number[row]), samples
            )
        )
    return found

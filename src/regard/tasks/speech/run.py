"""A trained speech recognizer: `load(folder).predict(files)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from regard.attention.memory import Memory
from regard.audio import Sound, read_audio
from regard.data.records import Records
from regard.data.rows import convert_files
from regard.decoding.streaming import StreamSource
from regard.errors import InputError
from regard.maps.lookups import Patches
from regard.metrics import ERROR_RATES
from regard.models.recogniser import Chorowski
from regard.pictures.panels import spectrogram
from regard.pictures.style import palette
from regard.tasks.generating import GeneratingRun
from regard.tasks.options import EvaluationOptions
from regard.tasks.speech.config import Speech
from regard.tasks.speech.data import (
    Audio,
    SpeechTables,
    Utterance,
    normalize,
    pad_features,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WEIGHTS_NOTE = "attention weights: what each token reads of the sound above"
SILENCE = 1e-4
"""The loudest sample of a sound that counts as silent, of 1."""
DARKEST = 2.0
"""The darkest feature, in deviations above the mean; the same below is white."""
BAND_PIXELS = 2
"""Pixels for each band on a page, and for each frame."""


@dataclass(frozen=True, eq=False)
class SpeechWeights:
    """The attention to a sound at each token of its transcript."""

    features: np.ndarray
    """Those of the sound, `(frame, mel)`."""
    tokens: tuple[str, ...]
    weights: np.ndarray
    """`(token, key)`, the mean over layers and heads."""
    hop: float
    """The seconds of a frame."""
    key: float
    """The seconds of a key."""

    def figure(self, title: str) -> "Figure":
        """Plot the spectrogram, and below it a row of weights for each token."""
        return spectrogram(
            shade_features(self.features),
            self.weights,
            self.tokens,
            times=(self.hop, self.key),
            title=title,
        )


class SpeechRun(GeneratingRun[Audio, Utterance]):
    """A trained model with its tokenizer and its run file. Examples are sounds."""

    config: Speech
    model: Chorowski
    inputs = {"audio": bytes}
    rows = 32
    source_name = "audio"
    detail = WEIGHTS_NOTE
    data_hint = "give sounds with transcripts"

    @staticmethod
    def build(config: Speech, vocabulary: int) -> Chorowski:
        return Chorowski(vocabulary, config.audio.mels, config.model)

    def parse(self, line: str, place: str = "text 1") -> Audio:
        return line

    def example(self, values: Mapping[str, Any]) -> Audio:
        return read_audio(values["audio"], self.config.audio.longest)

    def warnings(self, example: Audio) -> list[str]:
        sound = self.prepare(example, "sound 1").sound(self.config.audio)
        if abs(sound.samples).max() > SILENCE:
            return []
        return ["the sound is silent, so the prediction means nothing"]

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Utterance]:
        data = self.config.data
        if not isinstance(data, SpeechTables):
            data = SpeechTables()
        data = data.with_columns(options.columns, skip_bad=options.skip_bad)

        def check(sound: Utterance) -> Utterance:
            sound.read(self.config.audio.longest)
            return sound

        return convert_files(files, data.read, check, skip_bad=data.skip_bad)

    def prepare(self, example: Audio, name: str) -> Utterance:
        if not isinstance(example, Sound | Path | str):
            raise InputError(
                f"{name}: is a {type(example).__name__}; expected the path of a file, or a "
                "Sound"
            )
        return Utterance(example, "", name)

    def encode(self, sources: Sequence[Utterance]) -> tuple[Memory, Tensor]:
        features = [sound.features(self.config.audio) for sound in sources]
        frames, lengths = pad_features(features)
        frames = frames.to(self.device)
        lengths = lengths.to(self.device)
        memory = self.model.encoder(frames, lengths)
        return memory, lengths * self.config.keys_per_frame

    def label_source(self, source: Utterance) -> StreamSource:
        """Paint the spectrogram, low bands at the bottom, cut into one column a key.

        Keys are labeled by when they begin.
        """
        features = source.features(self.config.audio).numpy()
        length, bands = features.shape
        keys = self.model.encoder.halving.keys(length)
        frames = np.zeros((keys << self.config.halvings, bands))
        frames[:length] = shade_features(features)
        image = frames.T[::-1]
        colors = palette()
        indices = (image * (len(colors) - 1)).round().astype(int)
        pixels = colors[indices].astype(np.uint8)
        enlarged = pixels.repeat(BAND_PIXELS, 0).repeat(BAND_PIXELS, 1)
        seconds = self.config.key_seconds
        labels = tuple(f"{index * seconds:.2f} s" for index in range(keys))
        return StreamSource(labels, Patches(enlarged, 1, keys))

    def normalize_target(self, text: str) -> str:
        text = normalize(text, self.config.lower)
        if self.tokenizer.unknown_characters(text)[0]:
            raise InputError(
                f"the transcript {text!r} has letters that the run does not know; leave "
                "them out"
            )
        return text

    def compute_metrics(
        self, examples: Sequence[Utterance], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the run's metrics. Raises InputError for a sound that can't be read."""
        search = self.config.search.with_beam(options.beam)
        outputs = self.search_texts(examples, search)
        references = [
            normalize(sound.transcript, self.config.lower) for sound in examples
        ]
        return {
            name: ERROR_RATES[name](outputs, references) for name in self.config.metrics
        }

    def draw_weights(
        self,
        source: Utterance,
        patches: Patches | None,
        tokens: tuple[str, ...],
        weights: np.ndarray,
        gates: tuple[float, ...] | None,
    ) -> SpeechWeights:
        return SpeechWeights(
            source.features(self.config.audio).numpy(),
            tokens,
            weights,
            self.config.audio.seconds,
            self.config.key_seconds,
        )


def shade_features(features: np.ndarray) -> np.ndarray:
    """Return features as shades from 0 to 1."""
    centered = features - features.mean()
    deviation = max(float(centered.std()), 1e-6)
    return np.clip(0.5 + centered / deviation / (2 * DARKEST), 0, 1)

"""A trained speech recognizer: `load(folder).predict(files)`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from regard.attention.memory import Memory
from regard.audio import read_audio
from regard.decoding.streaming import StreamSource
from regard.errors import InputError
from regard.maps.lookups import Patches
from regard.metrics import ERROR_RATES
from regard.models.recogniser import Chorowski
from regard.pictures.canvas import palette
from regard.pictures.panels import spectrogram
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
from regard.text import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WEIGHTS_NOTE = "attention weights: what each token reads of the sound above"
SILENCE = 1e-4
"""The loudest sample of a sound that counts as silent, of 1."""
DARKEST = 2.0
"""The darkest feature, in deviations above the mean; the same below is white."""
BAND_PIXELS = 2
"""Pixels for each band on a page, and for each frame."""


class SpeechRun(GeneratingRun[Audio, Utterance]):
    """A trained model with its tokenizer and its run file. Examples are sounds."""

    config: Speech
    model: Chorowski
    inputs = {"audio": bytes}
    rows = 32
    source_name = "audio"
    tables = SpeechTables
    detail = WEIGHTS_NOTE
    data_hint = "give sounds with transcripts"

    @staticmethod
    def build(config: Speech, tokenizer: Tokenizer) -> Chorowski:
        return Chorowski(tokenizer.size, config.audio.mels, config.model)

    def example(self, values: Mapping[str, Any]) -> Audio:
        return read_audio(values["audio"], self.config.audio.longest)

    def warnings(self, example: Audio) -> list[str]:
        sound = self.prepare(example, "sound 1").sound(self.config.audio)
        if abs(sound.samples).max() > SILENCE:
            return []
        return ["the sound is silent, so the prediction means nothing"]

    def prepare(self, example: Audio, name: str) -> Utterance:
        return Utterance(example, "", name)

    def check(self, source: Utterance) -> Utterance:
        source.read(self.config.audio.longest)
        return source

    def encode(self, sources: Sequence[Utterance]) -> tuple[Memory, Tensor]:
        features = [sound.features(self.config.audio) for sound in sources]
        frames, lengths = pad_features(features)
        frames = frames.to(self.device)
        lengths = lengths.to(self.device)
        return self.model.encoder(frames, lengths), lengths * 0.5**self.config.halvings

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
        if self.tokenizer.unknown(text)[0]:
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
        decode = self.tokenizer.decode
        outputs = [decode(best.tokens) for best, *_ in self.search(examples, search)]
        references = [
            normalize(sound.transcript, self.config.lower) for sound in examples
        ]
        return {
            name: ERROR_RATES[name](outputs, references) for name in self.config.metrics
        }

    def plot(
        self,
        source: Utterance,
        patches: Patches,
        tokens: tuple[str, ...],
        weights: np.ndarray,
        remarks: tuple[str, ...],
        title: str,
    ) -> "Figure":
        audio = self.config.audio
        return spectrogram(
            shade_features(source.features(audio).numpy()),
            weights[:, 0],
            tokens,
            times=(audio.seconds, self.config.key_seconds),
            title=title,
        )


def shade_features(features: np.ndarray) -> np.ndarray:
    """Return features as shades from 0 to 1."""
    centered = features - features.mean()
    deviation = max(float(centered.std()), 1e-6)
    return np.clip(0.5 + centered / deviation / (2 * DARKEST), 0, 1)

"""A trained speech recognizer: `load(folder).predict(files)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.attention.record import record_breakdown
from regard.audio import Sound, decode_audio
from regard.data.records import Records
from regard.data.rows import convert_files
from regard.decoding.streaming import StreamSource
from regard.errors import InputError
from regard.maps.breakdown import Breakdown
from regard.maps.lookups import Lookups, Patches
from regard.metrics import ERROR_RATES
from regard.models.recogniser import (
    Chorowski,
    ChorowskiConfig,
    Recogniser,
    SpeechTransformer,
)
from regard.pictures.panels import spectrogram
from regard.pictures.style import palette
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import GeneratingRun
from regard.tasks.options import SEARCHING, AttributionOptions, EvaluationOptions
from regard.tasks.prediction import GeneratedText
from regard.tasks.speech.config import Speech
from regard.tasks.speech.data import (
    Audio,
    Span,
    SpeechTables,
    Utterance,
    collate_speech,
    normalize,
    pad_features,
)
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WEIGHTS_NOTE = "attention weights: what each token reads of the sound above"
SILENCE = 1e-4
"""The loudest sample of a sound that counts as silent, of 1."""
INSIDE = "inside"
"""The metric of the mean share of a letter's weights at the times of its word."""
DARKEST = 2.0
"""The darkest feature, in deviations above the mean; the same below is white."""
BAND_PIXELS = 2
"""Pixels for each band on a page, and for each frame."""


@dataclass(frozen=True, eq=False)
class SpeechMaps:
    """The weights on the keys of a sound at each token of a transcript, END last."""

    heads: np.ndarray
    """`(layer, head, position, key)`"""
    breakdown: Breakdown | None = None

    @property
    def weights(self) -> np.ndarray:
        """The mean over layers and heads, `(position, key)`."""
        return self.heads.mean((0, 1))


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


def build(config: Speech, vocabulary: int) -> Recogniser:
    """Build the model of a run file with initial weights."""
    model, mels = config.model, config.audio.mels
    if isinstance(model, ChorowskiConfig):
        return Chorowski(vocabulary, mels, model)
    return SpeechTransformer(vocabulary, mels, model)


class SpeechRun(GeneratingRun[Audio, Utterance]):
    """A trained model with its tokenizer and its run file. Examples are sounds."""

    config: Speech
    model: Recogniser
    supports = {
        "predict": frozenset({"beam", "n_best", *SEARCHING}),
        "stream": frozenset({*SEARCHING, "prefix", "prefix_tokens", "candidates"}),
        "evaluate": frozenset({"files", "beam", "columns", "skip_bad"}),
        "attribute": frozenset({"beam", "target", "finished", "target_tokens"}),
    }
    inputs = {"audio": bytes}
    rows = 32
    source_name = "sound"
    data_hint = "give sounds with transcripts"

    def __init__(self, config: Speech, model: Recogniser, tokenizer: Tokenizer):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(cls, run: RunDirectory, config: Speech) -> "SpeechRun":
        """Open the run in a folder, its model with initial weights."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        return cls(config, build(config, tokenizer.size), tokenizer)

    def parse(self, line: str, place: str = "text 1") -> Audio:
        return line

    def example(self, values: Mapping[str, Any]) -> Audio:
        return decode_audio(values["audio"], self.config.audio.longest)

    def warnings(self, example: Audio) -> list[str]:
        sound = self.prepare(example, "sound 1").sound(self.config.audio)
        if abs(sound.samples).max() > SILENCE:
            return []
        return ["the sound is silent, so the prediction means nothing"]

    def description(self) -> dict[str, Any]:
        model, end = self.config.model.name, self.tokenizer.special.end
        return super().description() | {"kind": "audio", "model": model, "end": end}

    def record(self, example: Audio) -> dict[str, Any]:
        is_file = isinstance(example, Path | str)
        return {"audio": str(example) if is_file else "the sound"}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Utterance]:
        data = self.config.data
        if not isinstance(data, SpeechTables):
            data = SpeechTables()
        data = data.with_columns(options.columns, skip_bad=options.skip_bad)

        def check(sound: Utterance) -> Utterance:
            sound.frames(self.config.audio)
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
        frames, lengths = frames.to(self.device), lengths.to(self.device)
        memory = self.model.encoder(frames, lengths)
        return memory, lengths * self.config.keys_per_frame

    def label_source(self, source: Utterance) -> StreamSource:
        patches = self._patches(source.features(self.config.audio).numpy())
        return StreamSource(self._times(patches.columns), patches)

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
        """Return the run's metrics, and how letters attend to words of known times."""
        sounds = [sound.normalize_transcript(self.config.lower) for sound in examples]
        search = self.config.search.with_beam(options.beam)
        outputs = self.search_texts(sounds, search)
        references = [sound.transcript for sound in sounds]
        scores = {
            name: ERROR_RATES[name](outputs, references) for name in self.config.metrics
        }
        share = self.measure_inside(sounds)
        return scores if share is None else scores | {INSIDE: share}

    def measure_inside(self, sounds: Sequence[Utterance]) -> float | None:
        """Return the mean share of a letter's weights within its word, in per cent.

        The reference transcripts are forced.

        Returns:
            None where no spans are known, or a token is no letter.
        """
        shares: list[float] = []
        for sound in sounds:
            ids = self.tokenizer.encode(sound.transcript)
            words = sound.transcript.split()
            if len(words) != len(sound.spans) or len(ids) != len(sound.transcript):
                continue
            weights = self.record_transcript(sound, ids).weights
            keys, seconds = weights.shape[1], self.config.key_seconds
            spans = [overlap(span, keys, seconds) for span in sound.spans]
            word = 0
            for position, letter in enumerate(sound.transcript):
                if letter == " ":
                    word += 1
                else:
                    shares.append(float(weights[position] @ spans[word]))
        return 100 * sum(shares) / len(shares) if shares else None

    @torch.no_grad()
    def record_transcript(self, sound: Utterance, ids: Sequence[int]) -> SpeechMaps:
        """Record the attention to the sound in one pass with teacher forcing."""
        decoder = self.model.decoder
        modules = decoder.source_attention
        assert modules is not None
        names = (modules,) if isinstance(modules, str) else modules
        example = sound.features(self.config.audio), list(ids)
        batch = collate_speech([example], self.config.halvings, decoder.special)
        batch = batch.to(self.device)
        with record_breakdown(decoder, names) as maps:
            self.model(batch.frames, batch.frame_lengths, batch.target_in)
        weights = maps.stack_layers()[0].double().cpu().numpy()
        return SpeechMaps(weights, maps.breakdown(weights))

    @torch.no_grad()
    def _attribute(self, example: Audio, options: AttributionOptions) -> Attribution:
        """Attribute each token of the predicted or forced transcript to the sound."""
        sound = self.prepare(example, "sound 1").load_sound(self.config.audio)
        transcript, tokens = self.write_output(sound, options)
        ids = [token for token in tokens if token != self.tokenizer.special.end]
        maps = self.record_transcript(sound, ids)
        # a forced output has a row for END; a predicted transcript has none
        rows = ids if isinstance(transcript, GeneratedText) else tokens
        pieces = tuple(self.tokenizer.pieces(rows))
        features = sound.features(self.config.audio).numpy()
        weights = SpeechWeights(
            features,
            pieces,
            maps.weights[: len(pieces)],
            self.config.audio.seconds,
            self.config.key_seconds,
        )
        patches = self._patches(features)
        lookups = Lookups(
            maps.heads[:, :, : len(pieces)],
            self._times(patches.columns),
            pieces,
            patches=patches,
            breakdown=maps.breakdown and maps.breakdown.select_rows(slice(len(pieces))),
        )
        return Attribution(
            transcript,
            transcript.text,
            (lookups,),
            weights,
            options,
            draw=weights.figure,
            detail=WEIGHTS_NOTE,
        )

    def _patches(self, features: np.ndarray) -> Patches:
        """Return the spectrogram, cut into one column a key."""
        keys = self.model.encoder.halving.keys(len(features))
        return Patches(paint_spectrogram(features, keys, self.config.halvings), 1, keys)

    def _times(self, keys: int) -> tuple[str, ...]:
        """Label keys by when they begin."""
        seconds = self.config.key_seconds
        return tuple(f"{index * seconds:.2f} s" for index in range(keys))


def overlap(span: Span, keys: int, key: float) -> np.ndarray:
    """Return the share of each key, `key` seconds long, in a span, 0 to 1."""
    edges = np.arange(keys + 1) * key
    ends, starts = np.minimum(edges[1:], span[1]), np.maximum(edges[:-1], span[0])
    return np.clip(ends - starts, 0, None) / key


def shade_features(features: np.ndarray) -> np.ndarray:
    """Return features as shades from 0 to 1."""
    centered = features - features.mean()
    deviation = max(float(centered.std()), 1e-6)
    return np.clip(0.5 + centered / deviation / (2 * DARKEST), 0, 1)


def paint_spectrogram(features: np.ndarray, keys: int, halvings: int) -> np.ndarray:
    """Paint a spectrogram as wide as its keys, low bands at the bottom, for a page."""
    frames = np.zeros((keys << halvings, features.shape[1]))
    frames[: len(features)] = shade_features(features)
    colors = palette()
    indices = (frames.T[::-1] * (len(colors) - 1)).round().astype(int)
    pixels = colors[indices].astype(np.uint8)
    return pixels.repeat(BAND_PIXELS, 0).repeat(BAND_PIXELS, 1)

"""The attention to a sound while a transcript is decoded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, UInt8

from regard.attention.record import record_breakdown
from regard.maps.breakdown import Breakdown
from regard.models.recogniser import Recogniser
from regard.pictures.spectrogram import spectrogram
from regard.pictures.style import palette
from regard.tasks.speech.config import Speech
from regard.tasks.speech.data import Span, Utterance, collate_speech
from regard.text import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INSIDE = "inside"
"""The metric's name: the mean share of a letter's weights at the times of its word, in per cent."""
LOUDEST = 2.0
"""The feature, in deviations above the mean, that is darkest in pictures; the same below is white."""
TALLEST = 2
"""Pixels for each band on a page, and for each frame."""


@dataclass(frozen=True, eq=False)
class SpeechMaps:
    """The weights on the keys of a sound at each token of a transcript, END last, of every layer and head, and their
    breakdown."""

    every: Float[np.ndarray, "layer head position key"]
    breakdown: Breakdown | None = None

    @property
    def weights(self) -> Float[np.ndarray, "position key"]:
        """The mean over layers and heads."""
        return self.every.mean((0, 1))


@dataclass(frozen=True, eq=False)
class SpeechWeights:
    """The attention to a sound at each token of its transcript.

    features: of the sound, of which each is `hop` seconds long; tokens: those of the transcript; weights: on the keys,
    of which each is `key` seconds long, the mean over layers and heads.
    """

    features: Float[np.ndarray, "frame mel"]
    tokens: tuple[str, ...]
    weights: Float[np.ndarray, "token key"]
    hop: float
    key: float

    def figure(self, title: str) -> "Figure":
        """The spectrogram, and below it a row of weights for each token."""
        return spectrogram(
            shades(self.features),
            self.weights,
            self.tokens,
            times=(self.hop, self.key),
            title=title,
        )


@torch.no_grad()
def attended(
    model: Recogniser, sound: Utterance, ids: Sequence[int], config: Speech
) -> SpeechMaps:
    """The attention to the sound at each token of a transcript and at its END, from one pass with teacher forcing."""
    readers = model.decoder.source_attention
    assert readers is not None
    batch = collate_speech(
        [(sound.features(config.audio), list(ids))],
        config.halvings,
        model.decoder.special,
    )
    batch = batch.to(next(model.parameters()).device)
    with record_breakdown(
        model.decoder, (readers,) if isinstance(readers, str) else readers
    ) as maps:
        model(batch.frames, batch.frame_lengths, batch.target_in)
    every = maps.layered()[0].double().cpu().numpy()
    return SpeechMaps(every, maps.breakdown(every))


def inside(
    model: Recogniser, tokenizer: Tokenizer, sounds: Sequence[Utterance], config: Speech
) -> float | None:
    """The mean over the letters of the reference transcripts, which are forced, of the share of a letter's weights that
    lies within the span of its word. None where no spans are known, or where a token is no letter."""
    shares: list[float] = []
    for each in sounds:
        ids = tokenizer.encode(each.transcript)
        words = each.transcript.split()
        if len(words) != len(each.spans) or len(ids) != len(each.transcript):
            continue
        weights = attended(model, each, ids, config).weights
        parts = [
            overlap(span, weights.shape[1], config.key_seconds) for span in each.spans
        ]
        word = 0
        for place, letter in enumerate(each.transcript):
            if letter == " ":
                word += 1
            else:
                shares.append(float(weights[place] @ parts[word]))
    return 100 * sum(shares) / len(shares) if shares else None


def overlap(span: Span, keys: int, key: float) -> Float[np.ndarray, " key"]:
    """The share of each key, `key` seconds long, that lies in a span, 0 to 1."""
    edges = np.arange(keys + 1) * key
    return (
        np.clip(
            np.minimum(edges[1:], span[1]) - np.maximum(edges[:-1], span[0]), 0, None
        )
        / key
    )


def shades(features: Float[np.ndarray, "frame mel"]) -> Float[np.ndarray, "frame mel"]:
    """Features as shades from 0 to 1."""
    centred = features - features.mean()
    return np.clip(
        0.5 + centred / max(float(centred.std()), 1e-6) / (2 * LOUDEST), 0, 1
    )


def picture(
    features: Float[np.ndarray, "frame mel"], keys: int, halvings: int
) -> UInt8[np.ndarray, "band time 3"]:
    """A spectrogram as pixels, low bands at the bottom, for a page: as wide as its keys."""
    frames = np.zeros((keys << halvings, features.shape[1]))
    frames[: len(features)] = shades(features)
    colours = palette()
    found = colours[(frames.T[::-1] * (len(colours) - 1)).round().astype(int)].astype(
        np.uint8
    )
    return found.repeat(TALLEST, 0).repeat(TALLEST, 1)

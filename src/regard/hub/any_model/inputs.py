"""From an example, a text, a pair of texts, an image or a sound, to the inputs of a transformers model."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.audio import LONGEST, decode_audio, read_audio, resampled
from regard.errors import InputError, quoted
from regard.hub.any_model.folder import Loaded, embeddings
from regard.hub.any_model.labels import moments, numbered, side_of
from regard.images import decode_image, read_image
from regard.maps.heads import Side
from regard.maps.lookups import Patches, patch_labels

UNLIMITED = 10**9
"""Tokenizers without a limit have at least this one."""
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp"})


@dataclass(frozen=True)
class SentFile:
    """The bytes of an image or a sound that came without a path."""

    content: bytes


Example = str | SentFile
"""A text, two texts with a tab between, the path of an image or a sound, or such a file's bytes."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a model for one example.

    model: the part of the model that reads them, the whole or one tower.
    tensors: by the names of its parameters.
    text: the tokens, `(token,)`; None for images and sounds.
    pixels: the image as it is shown; None without one.
    seconds: the length of a sound; 0 without one.
    """

    model: Any
    tensors: dict[str, Tensor]
    text: tuple[int, ...] | None = None
    pixels: np.ndarray | None = None
    seconds: float = 0.0

    def side(self, tokenizer: Any, count: int) -> tuple[Side, Patches | None]:
        """The labels of `count` positions, and the image that they are patches of."""
        if self.text is not None and len(self.text) == count:
            return side_of(tokenizer, self.text), None
        if self.pixels is not None and (grid := self._grid(count)) is not None:
            rows, columns = grid
            first = count - rows * columns
            before = tuple(
                "[CLS]" if number == 0 else f"token {number}" for number in range(first)
            )
            return Side.of(before + patch_labels(rows, columns)), Patches(
                self.pixels, rows, columns, first
            )
        return (
            moments(count, self.seconds)
            if self.seconds
            else numbered(count, "position")
        ), None

    def _grid(self, count: int) -> tuple[int, int] | None:
        """The rows and columns of patches among `count` positions, of which a few come before."""
        size = getattr(self.model.config, "patch_size", None)
        if not isinstance(size, int):
            return None
        height, width = self.tensors["pixel_values"].shape[-2:]
        rows, columns = height // size, width // size
        return (rows, columns) if 0 <= count - rows * columns <= 8 else None


def inputs_of(loaded: Loaded, example: Example) -> Inputs:
    """The inputs of an example: a file for a model that reads images or sounds, else a text, or two with a tab between.

    Raises InputError for a file that cannot be read, and for a text that is empty or longer than the model's positions.
    """
    model, name = loaded.model, loaded.model.main_input_name
    if loaded.sounds is not None:
        return _sound(loaded, example)
    towers = {
        each: part
        for each, part in model.named_children()
        if each in ("vision_model", "text_model")
    }
    picture = isinstance(example, SentFile) or Path(example).suffix.lower() in PICTURES
    if name == "pixel_values" or (len(towers) == 2 and picture):
        alone = len(towers) == 2 or not model.config.is_encoder_decoder
        return _image(
            loaded, towers.get("vision_model", model) if alone else model, example
        )
    model = towers["text_model"] if len(towers) == 2 else model
    assert isinstance(example, str), "a run for texts makes no file of its inputs"
    return text_inputs(loaded.tokenizer, model, example)


def text_inputs(tokenizer: Any, model: Any, example: str) -> Inputs:
    """The inputs of a text, or of two with a tab between. Raises InputError as `inputs_of`."""
    first, tab, second = example.partition("\t")
    return _batch(
        model,
        tokenizer(*((first, second) if tab else (first,)), return_tensors="pt"),
        example,
    )


def cut_inputs(tokenizer: Any, model: Any, text: str, longest: int | None) -> Inputs:
    """The inputs of one text, whose end is cut off beyond `longest` tokens, those around it included; by default beyond
    what the tokenizer and the model take. Raises InputError for ids beyond the model's embeddings."""
    limits = (
        tokenizer.model_max_length if longest is None else longest,
        positions(model),
    )
    most = min(each for each in limits if each is not None)
    cut = {"truncation": True, "max_length": most} if most < UNLIMITED else {}
    return _batch(model, tokenizer(text, return_tensors="pt", **cut), text)


def _batch(model: Any, batch: Any, example: str) -> Inputs:
    """The inputs that a model reads of what a tokenizer gave."""
    parameters = _parameters(model)
    tensors = {
        key: each.to(model.device) for key, each in batch.items() if key in parameters
    }
    ids = tensors["input_ids"][0].tolist()
    if not ids:
        raise InputError(f"{quoted(example)} has no token; write a text")
    check_ids(model, ids)
    return Inputs(model, tensors, tuple(ids))


def check_ids(model: Any, ids: Sequence[int]) -> None:
    """Raises InputError for ids beyond the model's embeddings, or more of them than it has positions."""
    rows = embeddings(model)
    if max(ids) >= rows:
        raise InputError(
            f"the tokenizer gives the id {max(ids)}, but the model has {rows:,} embeddings; "
            "use the tokenizer that belongs to the model"
        )
    limit = positions(model)
    if limit is not None and len(ids) > limit:
        raise InputError(
            f"the text has {len(ids):,} tokens, but the model has {limit:,} positions; shorten it"
        )


def positions(model: Any) -> int | None:
    """The most positions of a text; None for a model without a limit."""
    for name, each in model.named_modules():
        if (
            name.endswith("position_embeddings")
            and isinstance(each, nn.Embedding)
            and each.padding_idx is not None
        ):
            return (
                each.num_embeddings - each.padding_idx - 1
            )  # the first ones belong to padding
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def _image(loaded: Loaded, model: Any, example: Example) -> Inputs:
    if loaded.images is None:
        raise InputError(
            f"{loaded.name} has no preprocessor_config.json, so an image cannot be prepared for it"
        )
    image = (
        decode_image(example.content)
        if isinstance(example, SentFile)
        else read_image(Path(example))
    )
    tensors = dict(loaded.images(images=image, return_tensors="pt"))
    parameters = _parameters(model)
    tensors = {
        key: each.to(model.device) for key, each in tensors.items() if key in parameters
    }
    shown = tensors["pixel_values"][0].float().cpu().numpy()
    shown = np.moveaxis(shown, 0, -1)
    low, high = shown.min(), shown.max()
    pixels = ((shown - low) / max(high - low, 1e-9) * 255).round().astype(np.uint8)
    return Inputs(model, tensors, pixels=pixels)


def _sound(loaded: Loaded, example: Example) -> Inputs:
    rate = loaded.sounds.sampling_rate
    most = getattr(
        loaded.sounds, "n_samples", None
    )  # of a model with windows of one length, such as Whisper
    longest = LONGEST if most is None else most / rate
    sent = isinstance(example, SentFile)
    sound = resampled(
        decode_audio(example.content, longest)
        if sent
        else read_audio(example, longest),
        rate,
    )
    batch = loaded.sounds(sound.samples, sampling_rate=rate, return_tensors="pt")
    tensors = {
        loaded.model.main_input_name: batch[loaded.model.main_input_name].to(
            loaded.model.device
        )
    }
    feature = tensors[loaded.model.main_input_name]
    hop = getattr(loaded.sounds, "hop_length", 1)
    return Inputs(loaded.model, tensors, seconds=feature.shape[-1] * hop / rate)


def _parameters(model: Any) -> set[str]:
    """The names of the parameters of a model's call."""
    return set(inspect.signature(model.forward).parameters)


def single(ids: Sequence[int], device: torch.device) -> Tensor:
    """Ids as a batch of one, `(1, token)`."""
    return torch.tensor([list(ids)], device=device)

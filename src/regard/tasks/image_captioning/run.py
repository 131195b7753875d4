"""A trained captioner of images: `load(folder).predict(images)`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.attention.record import record_breakdown
from regard.attribution.kinds import Kind
from regard.attribution.self_attention import attribute_part
from regard.data.inputs import image_at
from regard.data.records import Records
from regard.data.rows import convert_files
from regard.data.tokens import label_ids, side
from regard.decoding.streaming import StreamSource
from regard.errors import InputError
from regard.images import Image, Pixels, decode_image
from regard.maps.breakdown import Breakdown
from regard.maps.lookups import Lookups, Patches, patch_labels, with_maps
from regard.metrics import METRICS
from regard.models.captioner import Captioner
from regard.models.catalog import build_captioner
from regard.pictures.overlay import overlays
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import GeneratingRun
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import (
    Box,
    CaptionBatch,
    Captioned,
    CaptionShards,
    CaptionTables,
    collate_captions,
)
from regard.tasks.options import SEARCHING, AttributionOptions, EvaluationOptions
from regard.tasks.prediction import GeneratedText, TextPrediction
from regard.tasks.row_examples import input_columns
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAT_NOTE = "attention weights: what each word reads of the image"
GATE_NOTE = "gate: the share of what is read that enters the word, 0 none to 1 all"
POINTING = "pointing"
"""The metric of the mean attention in the box of the object that a word names."""


@dataclass(frozen=True, eq=False)
class CaptionMaps:
    """The attention to an image at each token of a caption, END last."""

    heads: np.ndarray
    """`(layer, head, position, row, column)`"""
    gates: tuple[float, ...] | None
    """The gate on the context of each token but END, None for a model without one."""
    breakdown: Breakdown | None = None

    @property
    def weights(self) -> np.ndarray:
        """The mean over layers and heads, `(position, row, column)`."""
        return self.heads.mean((0, 1))


@dataclass(frozen=True, eq=False)
class CaptionWeights:
    """The attention to the cells of an image at each token of its caption."""

    photo: Pixels
    """The part of the photograph that the model reads, in its own resolution."""
    tokens: tuple[str, ...]
    """Those of the caption, without END."""
    weights: np.ndarray
    """`(token, row, column)`, the mean over layers and heads."""
    gates: tuple[float, ...] | None

    def figure(self, title: str) -> "Figure":
        """Plot a heat map of each token over the photograph, with its gate."""
        notes = [HEAT_NOTE] if self.gates is None else [HEAT_NOTE, GATE_NOTE]
        return overlays(
            self.photo,
            self.weights,
            self.tokens,
            title=title,
            remarks=format_gates(self.gates),
            notes=notes,
        )


def format_gates(gates: Sequence[float] | None) -> tuple[str, ...]:
    """Return the remark on each gate."""
    return tuple(f"gate {gate:.2f}" for gate in gates or ())


def read_pixels(image: Captioned, config: ImageCaptioning) -> Pixels:
    """Read an image as the model's input. Raises InputError for an unreadable one."""
    size, channels = config.model.image, config.model.channels
    return config.images.pixels(image.image, size, channels, image.place)


def check_image(image: Captioned, config: ImageCaptioning) -> Captioned:
    """Return the image. Raises InputError for one that can't be read."""
    read_pixels(image, config)
    return image


def read_caption(caption: str, config: ImageCaptioning) -> str:
    """Return a caption as the tokenizer reads it, lowercased with `lower`."""
    return caption.lower() if config.lower else caption


def stack_images(
    images: Sequence[Captioned], config: ImageCaptioning, device: torch.device
) -> Float[Tensor, "batch channel height width"]:
    """Read images as the model's input. Raises InputError for an unreadable one."""
    tensors = [config.images.tensor(read_pixels(image, config)) for image in images]
    return torch.stack(tensors).to(device)


def collate_one(
    model: Captioner, image: Pixels, ids: Sequence[int], config: ImageCaptioning
) -> CaptionBatch:
    """Return a batch of one image and its caption, on the model's device."""
    example = config.images.tensor(image), list(ids)
    batch = collate_captions([example], config.cells, model.decoder.special)
    return batch.to(next(model.parameters()).device)


@torch.no_grad()
def record_caption(
    model: Captioner, image: Pixels, ids: Sequence[int], config: ImageCaptioning
) -> CaptionMaps:
    """Record the attention to the image in one pass with teacher forcing."""
    modules, gate = model.decoder.source_attention, model.decoder.source_gate
    assert modules is not None
    names = (modules,) if isinstance(modules, str) else modules
    batch = collate_one(model, image, ids, config)
    observed = names if gate is None else (*names, gate)
    with record_breakdown(model.decoder, observed) as maps:
        model(batch.images, batch.target_in)
    weights = maps.exclude(gate).stack_layers()[0].double().cpu().numpy()
    gates = None if gate is None else tuple(maps[gate][0, : len(ids), 0].tolist())
    cells = weights.reshape(*weights.shape[:-1], config.model.side, config.model.side)
    return CaptionMaps(cells, gates, maps.breakdown(weights))


class ImageCaptioningRun(GeneratingRun[Image, Captioned]):
    """A trained model with its tokenizer and its run file. Examples are images."""

    config: ImageCaptioning
    model: Captioner
    supports = {
        "predict": frozenset({"beam", "n_best", *SEARCHING}),
        "stream": frozenset({*SEARCHING, "prefix", "prefix_tokens", "candidates"}),
        "evaluate": frozenset({"files", "beam", "columns", "skip_bad"}),
        "attribute": frozenset(
            {"beam", "role", "kinds", "maps", "target", "finished", "target_tokens"}
        ),
    }
    inputs = {"image": bytes}
    source_name = "image"
    data_hint = "give images with captions"

    def __init__(self, config: ImageCaptioning, model: Captioner, tokenizer: Tokenizer):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(cls, run: RunDirectory, config: ImageCaptioning) -> "ImageCaptioningRun":
        """Open the run in a folder, its model with initial weights."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        return cls(config, build_captioner(config.model, tokenizer.size), tokenizer)

    def parse(self, line: str, place: str = "text 1") -> Image:
        data = self.config.data
        files = data.files if isinstance(data, CaptionTables) else None
        return image_at(line, input_columns(self)["image"], files, place)

    def example(self, values: Mapping[str, Any]) -> Image:
        decode_image(values["image"])
        return values["image"]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return () if self.model.decoder.source_attention is None else ("weights",)

    def description(self) -> dict[str, Any]:
        model, end = self.config.model.name, self.tokenizer.special.end
        return super().description() | {"kind": "image", "model": model, "end": end}

    def record(self, example: Image) -> dict[str, Any]:
        return {"image": str(example)} if isinstance(example, str | Path) else {}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Captioned]:
        def check(image: Captioned) -> Captioned:
            return check_image(image, self.config)

        data = self.config.data
        if isinstance(data, CaptionShards):
            return convert_files(files, data.read, check, skip_bad=options.skip_bad)
        if isinstance(data, CaptionTables):
            table = replace(data, split=None)
        else:
            table = CaptionTables()
        table = table.with_columns(options.columns, skip_bad=options.skip_bad)
        return convert_files(files, table.read, check, skip_bad=table.skip_bad)

    def prepare(self, example: Image, name: str) -> Captioned:
        return Captioned(example, (), name)

    def encode(self, sources: Sequence[Captioned]) -> tuple[Memory, Tensor]:
        images = stack_images(sources, self.config, self.device)
        lengths = torch.zeros(len(sources), dtype=torch.int64, device=self.device)
        return self.model.encoder(images), lengths

    def label_source(self, source: Captioned) -> StreamSource:
        patches = self._patches(source.image)
        return StreamSource(patch_labels(patches.rows, patches.columns), patches)

    def normalize_target(self, text: str) -> str:
        return read_caption(text, self.config)

    def compute_metrics(
        self, examples: Sequence[Captioned], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the run's metrics, and how words point at objects with known boxes."""
        search = self.config.search.with_beam(options.beam)
        ids = [list(best.tokens) for best, *_ in self.search(examples, search)]
        outputs = [self.tokenizer.decode(tokens) for tokens in ids]
        references = [
            [read_caption(caption, self.config) for caption in image.captions]
            for image in examples
        ]
        scores: dict[str, float] = {
            name: METRICS[name](outputs, references) for name in self.config.metrics
        }
        share = self.measure_pointing(examples, ids)
        return scores if share is None else scores | {POINTING: share}

    def measure_pointing(
        self, images: Sequence[Captioned], captions: Sequence[Sequence[int]]
    ) -> float | None:
        """Return the mean attention in the boxes of named objects, in per cent.

        A word that names an object of other images only counts as 0.

        Returns:
            None for images without boxes, captions without such words, or a model
            without attention.
        """
        names = {name for image in images for name in image.boxes}
        if self.model.decoder.source_attention is None:
            return None
        shares: list[float] = []
        for image, ids in zip(images, captions, strict=True):
            pieces = self.tokenizer.pieces(ids)
            if names.isdisjoint(pieces):
                continue
            pixels = read_pixels(image, self.config)
            weights = record_caption(self.model, pixels, ids, self.config).weights
            for position, word in enumerate(pieces):
                if word in image.boxes:
                    inside = overlap(image.boxes[word], self.config.model.side)
                    shares.append(float((weights[position] * inside).sum()))
                elif word in names:
                    shares.append(0.0)
        return 100 * sum(shares) / len(shares) if shares else None

    @torch.no_grad()
    def _attribute(self, example: Image, options: AttributionOptions) -> Attribution:
        """Attribute the caption to the image, or with the role decoder to its tokens.

        The self-attention of a trunk is not included.
        """
        source = self.prepare(example, "the image")
        if options.role not in (None, "cross"):
            caption, tokens = self.write_output(source, options)
            return self._attribute_to_tokens(source, caption, tokens, options)
        if self.model.decoder.source_attention is None:
            raise InputError(
                "the run's model reads its image once and has no attention over it; there "
                "is nothing to draw"
            )
        if options.maps is not None or set(options.kinds) - {"weights"}:
            raise InputError(
                "kinds and maps are of the role decoder only; how an image is read has one "
                "map of weights"
            )
        caption, tokens = self.write_output(source, options)
        return self._attribute_to_image(source, caption, tokens, options)

    def _attribute_to_image(
        self,
        source: Captioned,
        caption: GeneratedText | TextPrediction,
        tokens: list[int],
        options: AttributionOptions,
    ) -> Attribution:
        ids = [token for token in tokens if token != self.tokenizer.special.end]
        pixels = read_pixels(source, self.config)
        maps = record_caption(self.model, pixels, ids, self.config)
        # a forced output has a row for END; the run's own caption is drawn without it
        rows = ids if isinstance(caption, GeneratedText) else tokens
        pieces = tuple(label_ids(self.tokenizer, rows))
        patches = self._patches(source.image)
        weights = CaptionWeights(
            patches.pixels, pieces[: len(ids)], maps.weights[: len(ids)], maps.gates
        )
        heads = maps.heads[:, :, : len(pieces)]
        breakdown = maps.breakdown and maps.breakdown.select_rows(slice(len(pieces)))
        notes = format_gates(maps.gates)
        notes += ("",) * (len(pieces) - len(notes)) if notes else ()
        lookups = Lookups(
            heads.reshape(*heads.shape[:3], math.prod(heads.shape[3:])),
            patch_labels(patches.rows, patches.columns),
            pieces,
            notes=notes,
            patches=patches,
            breakdown=breakdown,
        )
        return Attribution(
            caption, caption.text, (lookups,), weights, options, draw=weights.figure
        )

    def _attribute_to_tokens(
        self,
        source: Captioned,
        caption: GeneratedText | TextPrediction,
        tokens: list[int],
        options: AttributionOptions,
    ) -> Attribution:
        decoder, role = self.model.decoder, options.role or "decoder"
        inputs = tokens[:-1]
        pixels = read_pixels(source, self.config)
        batch = collate_one(self.model, pixels, inputs, self.config)
        # cells of convolutions do not attend to each other
        names = decoder.self_attention if role == "decoder" else None
        labels = side(self.tokenizer, [self.tokenizer.special.start, *inputs])

        def call() -> object:
            return self.model(batch.images, batch.target_in)

        results = [
            attribute_part(decoder, names, role, labels, call, options.maps, kind)
            for kind in options.list_kinds()
        ]
        lookups = with_maps(*(lookups for lookups, _ in results))
        return Attribution(
            caption, caption.text, (lookups,), results[0][1], options, has_heads=True
        )

    def _patches(self, image: Image) -> Patches:
        side = self.config.model.side
        photo = self.config.images.photograph(image, self.config.model.image)
        return Patches(photo, side, side)


def overlap(box: Box, side: int) -> np.ndarray:
    """Return the share of each of `side` x `side` cells that lies in a box, 0 to 1."""
    edges = np.arange(side + 1) / side
    shares = []
    for axis in (0, 1):
        ends = np.minimum(edges[1:], box[axis + 2])
        starts = np.maximum(edges[:-1], box[axis])
        shares.append(np.clip(ends - starts, 0, None) * side)
    return shares[0][:, None] * shares[1]

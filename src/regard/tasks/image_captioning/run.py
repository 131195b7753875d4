"""A trained captioner of images: `load(folder).predict(images)`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from einops import rearrange

from regard.attribution.kinds import Kind
from regard.attribution.roles import within_part
from regard.data.image_inputs import image_at
from regard.data.memory import Records
from regard.data.token_words import readable, side
from regard.data.usable import usable_files
from regard.decoding.constraints import writable
from regard.decoding.streaming import StreamEvent, StreamSource, check_prefixes
from regard.errors import InputError
from regard.images import Image, Pixels, decode_image
from regard.maps.lookups import Lookups, Patches, beside, patch_labels
from regard.models.captioner import Captioner
from regard.models.catalog import build_captioner
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.decoded_text import DecodedText, TextStream, constraints_of
from regard.tasks.evaluation import for_evaluation
from regard.tasks.image_captioning.attribution import (
    CaptionMaps,
    CaptionWeights,
    attended,
    decodable,
    one,
    pixels_of,
)
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import Captioned, CaptionTables
from regard.tasks.image_captioning.shards import CaptionShards
from regard.tasks.image_captioning.training import decode, encoded, figures, read
from regard.tasks.options import (
    SEARCHING,
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
    StreamOptions,
)
from regard.tasks.prediction import TextPrediction, ranked
from regard.tasks.row_examples import input_columns
from regard.tasks.run import Run
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text import Tokenizer


class Caption(DecodedText):
    """The caption of an image."""


class ImageCaptioningRun(Run[Image, Caption]):
    """A trained model with its tokenizer and its run file. An example is an image: its path, or an array of uint8
    `(height, width)` or `(height, width, channel)`."""

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

    def __init__(self, config: ImageCaptioning, model: Captioner, tokenizer: Tokenizer):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(cls, run: RunDirectory, config: ImageCaptioning) -> "ImageCaptioningRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        return cls(config, build_captioner(config.model, tokenizer.size), tokenizer)

    def parse(self, line: str, place: str = "text 1") -> Image:
        """The path of an image, or its place in a file, as `photos.parquet:1` (`image_at`)."""
        files = (
            self.config.data.files
            if isinstance(self.config.data, CaptionTables)
            else None
        )
        return image_at(line, input_columns(self)["image"], files, place)

    def example(self, values: Mapping[str, Any]) -> Image:
        """The content of an image file. Raises InputError for bytes that are no image."""
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
        """The images of tables, folders or shards with captions. Raises InputError as `CaptionTables.read`."""
        own, check = self.config.data, partial(decodable, config=self.config)
        if isinstance(own, CaptionShards):
            return usable_files(files, own.read, check, skip_bad=options.skip_bad)
        data = (
            replace(own, split=None)
            if isinstance(own, CaptionTables)
            else CaptionTables()
        )
        data = data.with_columns(options.columns, skip_bad=options.skip_bad)
        return usable_files(files, data.read, check, skip_bad=data.skip_bad)

    def _evaluate(
        self, examples: Sequence[Captioned] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """The metrics of the run file, and the grounding of words in the image (`POINTING`).

        Raises:
            InputError: there are neither examples nor a test set, or an image cannot be read.
        """
        images = for_evaluation(examples, self.config.data, "give images with captions")
        with guarded(self.model):
            return figures(
                self.model,
                self.tokenizer,
                images,
                self.config,
                self.config.search.searching(options.beam),
            )

    def _predict(
        self, examples: Sequence[Image], options: PredictOptions
    ) -> list[Caption]:
        """The caption of each image, with its `n_best` - 1 alternatives.

        Raises:
            InputError: an image cannot be read, or is an array of another kind.
            ValueError: beam, `n_best` and vocabulary do not fit together.
        """
        search = options.search(self.config.search)
        limits = constraints_of(self.tokenizer, options, search)
        with guarded(self.model):
            found = decode(self.model, numbered(examples), self.config, search, limits)
        return [
            ranked([Caption.of(each, self.tokenizer) for each in some], options.n_best)
            for some in found
        ]

    def _stream(
        self,
        images: Sequence[Image],
        options: StreamOptions,
        active: Callable[[int], bool],
    ) -> Iterator[StreamEvent]:
        """The weights of a token are on the cells of its image.

        Raises:
            InputError: as `predict`, and for a prefix with a token that no caption has.
            ValueError: a prefix is longer than its caption may be.
        """
        examples, search = numbered(images), options.search(self.config.search)
        prefix = options.forced(partial(writable, self.tokenizer))
        check_prefixes([prefix], self.tokenizer.size, self.tokenizer.special)
        sources = [self._stream_source(each, len(prefix)) for each in examples]
        with guarded(self.model):
            memory, limit = encoded(self.model, examples, self.config, search)
            stream = TextStream(
                self.model.decoder, self.tokenizer, search, sources, prefix
            )
            yield from stream.events(memory, limit, options, active)

    def _stream_source(self, example: Captioned, forced: int) -> StreamSource:
        patches = self._patches(example.image)
        return StreamSource(
            patch_labels(patches.rows, patches.columns), patches, forced
        )

    def _attribute(self, example: Image, options: AttributionOptions) -> Attribution:
        """The attention to the image at each token of the predicted or forced caption; with the role decoder, the
        attention between the tokens, START first. The self-attention of a trunk is not included.

        Raises:
            InputError: as `predict`; the model does not attend to its image; or kinds or maps are chosen without the
                role decoder.
        """
        cross = options.role in (None, "cross")
        if cross:
            self._check_cross(options)
        with guarded(self.model):
            if cross:
                return self._of_image(
                    example, *self._written(example, options), options
                )
            caption, tokens = self._written(example, options)
            pixels = pixels_of(Captioned(example, (), "the image"), self.config)
            return self._of_tokens(pixels, caption, tokens, options)

    def _written(
        self, image: Image, options: AttributionOptions
    ) -> tuple[Caption | TextPrediction, list[int]]:
        """A caption and its tokens, END among them where it is finished: the forced one, or the run's own."""
        if options.target_tokens is not None:
            tokens = list(options.target_tokens)
            return TextPrediction(self.tokenizer.decode(tokens)), tokens
        if options.target is not None:
            tokens = self.tokenizer.encode(read(options.target, self.config))
            return TextPrediction(options.target), [
                *tokens,
                self.tokenizer.special.end,
            ] if options.finished else tokens
        search = self.config.search.searching(options.beam)
        ((best, *_),) = decode(
            self.model, [Captioned(image, (), "the image")], self.config, search
        )
        end = [self.tokenizer.special.end] if best.finished else []
        return Caption.of(best, self.tokenizer), [*best.tokens, *end]

    def _of_image(
        self,
        image: Image,
        caption: Caption | TextPrediction,
        tokens: list[int],
        options: AttributionOptions,
    ) -> Attribution:
        pixels = pixels_of(Captioned(image, (), "the image"), self.config)
        written = [each for each in tokens if each != self.tokenizer.special.end]
        seen = attended(self.model, pixels, written, self.config)
        # END has a row of its own where an output is forced; the run's own caption is drawn without it.
        labels = written if isinstance(caption, Caption) else tokens
        pieces = tuple(readable(self.tokenizer, labels))
        patches = self._patches(image)
        weights = CaptionWeights(
            patches.pixels,
            pieces[: len(written)],
            seen.weights[: len(written)],
            seen.gates,
        )
        lookups = self._lookups(patches, pieces, seen)
        return Attribution(
            caption, caption.text, (lookups,), weights, options, draw=weights.figure
        )

    def _check_cross(self, options: AttributionOptions) -> None:
        if self.model.decoder.source_attention is None:
            raise InputError(
                "the run's model reads its image once and attends to no part of it: nothing can be drawn"
            )
        if options.maps is not None or set(options.kinds) - {"weights"}:
            raise InputError(
                "kinds and maps are of the role decoder only; how an image is read has one map of weights"
            )

    @torch.no_grad()
    def _of_tokens(
        self,
        pixels: Pixels,
        caption: Caption | TextPrediction,
        tokens: list[int],
        options: AttributionOptions,
    ) -> Attribution:
        inputs = tokens[:-1]  # START stands before them
        batch = one(self.model, pixels, inputs, self.config)
        decoder, role = self.model.decoder, options.role or "decoder"
        names = (
            decoder.self_attention if role == "decoder" else None
        )  # cells of convolutions do not read each other
        labels = side(self.tokenizer, [self.tokenizer.special.start, *inputs])
        found = [
            within_part(
                decoder,
                names,
                role,
                labels,
                lambda: self.model(batch.images, batch.target_in),
                options.maps,
                kind,
            )
            for kind in options.each_kind()
        ]
        lookups = beside(*(each for each, _ in found))
        return Attribution(
            caption, caption.text, (lookups,), found[0][1], options, has_heads=True
        )

    def _lookups(
        self, patches: Patches, tokens: tuple[str, ...], seen: CaptionMaps
    ) -> Lookups:
        """The lookups of the first rows, one for each of these tokens. The note of a token is its gate; END has
        none."""
        notes = (
            ()
            if seen.gates is None
            else tuple(f"gate {gate:.2f}" for gate in seen.gates)
        )
        notes += ("",) * (len(tokens) - len(notes)) if notes else ()
        weights = rearrange(
            seen.every[:, :, : len(tokens)],
            "layer head token row column -> layer head token (row column)",
        )
        labels = patch_labels(patches.rows, patches.columns)
        breakdown = seen.breakdown and seen.breakdown.of_rows(slice(len(tokens)))
        return Lookups(
            weights, labels, tokens, notes=notes, patches=patches, breakdown=breakdown
        )

    def _patches(self, image: Image) -> Patches:
        side = self.config.model.side
        return Patches(
            self.config.images.photograph(image, self.config.model.image), side, side
        )


def numbered(images: Sequence[Image]) -> list[Captioned]:
    """Images without captions, each with its number for messages."""
    return [
        Captioned(each, (), f"image {number}") for number, each in enumerate(images, 1)
    ]

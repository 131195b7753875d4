"""Runs that tell classes of images, or what is to be seen in them."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from pydantic import Base64Bytes

from regard.attribution.available import LAYERED
from regard.attribution.kinds import Kind
from regard.decoding.constraints import writable
from regard.errors import InputError
from regard.images import Pixels, decode_image
from regard.pictures.payload import payload
from regard.serve.legacy import Streamed, Width, viewed
from regard.serve.operation import Active, Operation, ResponsePart, ServedRun, at_once
from regard.serve.request import AttributionKinds, RequestBody
from regard.tasks.image_captioning.run import ImageCaptioningRun
from regard.tasks.image_classification.run import ImageClassificationRun


class Tell(RequestBody):
    """The bytes of an image file, in base64."""

    image: Base64Bytes

    def pixels(self, channels: int) -> Pixels:
        """Raises InputError for what is no image."""
        return decode_image(self.image, channels)


class Look(Tell):
    """The same, and what is to be seen beside the weights of every layer and head."""

    kinds: AttributionKinds = ("rollout",)


class Caption(Tell):
    """The best captions of an image, by the run's own search or one with this beam."""

    beam: Width | None = None
    n_best: Width = 1


class Looked(Tell):
    """An image, and the caption that the model is made to write, `finished` or not; or what it says itself, with this
    beam."""

    target: str | None = None
    finished: bool = True
    beam: Width | None = None


class Stream(Tell, Streamed):
    """The caption of an image, token by token."""


def image_classes(name: str, run: ImageClassificationRun) -> ServedRun:
    """A run that tells classes, to be served."""
    channels = run.config.model.channels

    def predict(asks: Sequence[Tell]) -> list[dict[str, Any]]:
        return [found.to_json() for found in run.predict([ask.pixels(channels) for ask in asks])]

    def look(ask: Look) -> dict[str, Any]:
        found = run.attribute(ask.pixels(channels), kinds=ask.kinds)
        return found.prediction.to_json() | {"view": payload(found.lookups)}

    operations = {
        "predict": Operation(Tell, at_once(predict), lambda ask: None),
        "attention": Operation(Look, at_once(lambda asks: [look(ask) for ask in asks])),
    }
    about = {"kind": "image", "kinds": LAYERED, "task": "image-classification", "model": run.config.model.name}
    return ServedRun(name, about | {"classes": list(run.labels)}, operations)


def captions(name: str, run: ImageCaptioningRun) -> ServedRun:
    """A run that tells of images, to be served."""
    channels = run.config.model.channels

    def predict(asks: Sequence[Caption]) -> list[dict[str, Any]]:
        images, one = [ask.pixels(channels) for ask in asks], asks[0]
        return [found.to_json() for found in run.predict(images, beam=one.beam, n_best=one.n_best)]

    def look(ask: Looked) -> dict[str, Any]:
        pixels = ask.pixels(channels)
        if ask.target is None:
            found = run.attribute(pixels, beam=ask.beam)
            return found.prediction.to_json() | {"view": payload(found.lookups)}
        if ask.beam is not None:
            raise InputError("beam and target are both given; choose one")
        return payload(run.attribute(pixels, target=ask.target, finished=ask.finished).lookups)

    operations = {
        "predict": Operation(Caption, at_once(predict), lambda ask: (ask.beam, ask.n_best)),
        "stream": Operation(Stream, partial(_stream, run), Stream.together, streams=True),
    }
    if run.model.decoder.source_attention is not None:
        operations["attention"] = Operation(Looked, at_once(lambda asks: [look(ask) for ask in asks]))
    about = {"kind": "image", "task": "image-captioning", "model": run.config.model.name}
    return ServedRun(name, about, operations)


def _stream(run: ImageCaptioningRun, asks: Sequence[Stream], wanted: Active) -> Iterator[ResponsePart]:
    one, images = asks[0], [ask.pixels(run.config.model.channels) for ask in asks]
    prefixes = [ask.begun(partial(writable, run.tokenizer)) for ask in asks]
    search = one.search(run.config.search)
    grown = run.write(images, search=search, prefixes=prefixes, candidates=one.candidates, wanted=wanted)
    kinds: list[Kind] = [] if run.model.decoder.source_attention is None else ["weights"]
    return viewed(
        grown, asks, kinds, lambda number, tokens, _: run.attribute(images[number], target_tokens=tokens).lookups[0]
    )

"""Runs that tell classes of images, or what is to be seen in them."""

from collections.abc import Sequence
from typing import Any

from pydantic import Base64Bytes

from regard.images import Pixels, decode_image
from regard.inference.possible import LAYERED
from regard.maps.lookups import beside
from regard.pictures.payload import payload
from regard.serve.ask import Ask, Kinds
from regard.serve.operation import Operation, Served, at_once
from regard.serve.writing import Width
from regard.tasks.image_captioning.run import ImageCaptioningRun
from regard.tasks.image_classification.run import ImageClassificationRun


class Tell(Ask):
    """The bytes of an image file, in base64."""

    image: Base64Bytes

    def pixels(self, channels: int) -> Pixels:
        """Raises InputError for what is no image."""
        return decode_image(self.image, channels)


class Look(Tell):
    """The same, and what is to be seen beside the weights of every layer and head."""

    kinds: Kinds = ("rollout",)


class Caption(Tell):
    """An image, and the width of the search; by default the run's own."""

    beam: Width | None = None


def image_classes(name: str, run: ImageClassificationRun) -> Served:
    """A run that tells classes, to be served."""
    channels = run.config.model.channels

    def predict(asks: Sequence[Tell]) -> list[dict[str, Any]]:
        return [found.to_json() for found in run.classify([ask.pixels(channels) for ask in asks])]

    def look(ask: Look) -> dict[str, Any]:
        looked = [run.look(ask.pixels(channels), kind=kind) for kind in ask.kinds]
        return looked[0].found.to_json() | {"view": payload([beside(*(each.lookups for each in looked))])}

    operations = {
        "predict": Operation(Tell, at_once(predict), lambda ask: None),
        "attention": Operation(Look, at_once(lambda asks: [look(ask) for ask in asks])),
    }
    about = {"kind": "image", "kinds": LAYERED, "task": "image-classification", "model": run.config.model.name}
    return Served(name, about | {"classes": list(run.labels)}, operations)


def captions(name: str, run: ImageCaptioningRun) -> Served:
    """A run that tells of images, to be served."""
    channels = run.config.model.channels

    def predict(asks: Sequence[Caption]) -> list[dict[str, Any]]:
        images = [ask.pixels(channels) for ask in asks]
        return [found.to_json() for found in run.tell(images, beam=asks[0].beam)]

    def look(ask: Caption) -> dict[str, Any]:
        looked = run.look(ask.pixels(channels), beam=ask.beam)
        return looked.caption.to_json() | {"view": payload([looked.lookups])}

    operations = {"predict": Operation(Caption, at_once(predict), lambda ask: ask.beam)}
    if run.model.decoder.source_attention is not None:
        operations["attention"] = Operation(Caption, at_once(lambda asks: [look(ask) for ask in asks]))
    about = {"kind": "image", "task": "image-captioning", "model": run.config.model.name}
    return Served(name, about, operations)

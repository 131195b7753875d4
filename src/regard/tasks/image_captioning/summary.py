"""The summary of images and captions before training."""

from pathlib import Path

from regard.data.splits import Splits
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import Captioned
from regard.tasks.image_captioning.training import read
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    images_seen,
    pieces,
    rows,
    sampled,
    sent,
    text_lengths,
    unknown_shares,
    unknown_warnings,
)
from regard.text import Tokenizer


def caption_summary(
    config: ImageCaptioning, splits: Splits[Captioned], tokenizer: Tokenizer
) -> DataSummary:
    """The images, and the lengths and unknown characters of their captions."""
    captions = {
        name: [read(text, config) for each in sampled(some) for text in each.captions]
        for name, some in splits.named.items()
    }
    unknown = unknown_shares(tokenizer, captions)
    images, warnings = images_seen(
        [each.image for each in sampled(splits.train)],
        config.model.image,
        config.model.channels,
        cropped=config.images.shape == "kept",
    )
    others = {name: share for name, share in unknown.items() if name != "train"}
    first = splits.train[0]
    ids = [*tokenizer.encode(captions["train"][0]), tokenizer.special.end]
    return DataSummary(
        unit="images",
        rows=rows(config.data, splits),
        lengths={
            "captions": text_lengths(tokenizer, captions["train"]),
            "captions an image": Lengths.of(
                [len(each.captions) for each in sampled(splits.train)]
            ),
        },
        unknown=unknown,
        unknown_unit=tokenizer.unknown_unit,
        images=images,
        example={
            "image": str(first.image) if isinstance(first.image, Path) else first.place,
            "caption": pieces(tokenizer, ids),
        },
        request={"image": sent(first.image)},
        warnings=(*warnings, *unknown_warnings(tokenizer, others)),
    )

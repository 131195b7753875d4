"""Set up training: data, tokenizer, model and objective from a run file."""

from regard.data.images import contents
from regard.data.usable import usable_sets
from regard.models.catalog import build_captioner
from regard.models.vit_trunk import VitTrunk
from regard.storage.run_folder import RunDirectory
from regard.tasks.image_captioning.attribution import decodable
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import Captioned
from regard.tasks.image_captioning.summary import caption_summary
from regard.tasks.image_captioning.training import CaptionObjective, read
from regard.tasks.setup import Setup, check_beam, digest
from regard.tasks.tokenizer_file import TOKENIZER, kept_or_trained
from regard.training.state import count_parameters

PRETRAINED = {"encoder.vit": "encoder."}
"""The part of a model that is pretrained, with the prefix of its parameters in the trunk's run."""


def setup(config: ImageCaptioning, folder: RunDirectory, processes: int) -> Setup:
    """Read images and captions, check every image, and build tokenizer, model and objective.

    Raises:
        InputError: the images, the captions or the model are invalid.
    """
    splits = usable_sets(config.data.load(), lambda each: decodable(each, config), config.data)
    tokenizer = kept_or_trained(
        folder, config.tokenizer, [read(text, config) for each in splits.train for text in each.captions]
    )
    model = build_captioner(config.model, tokenizer.size)
    check_beam(config.search.beam, tokenizer.size, "vocabulary")
    captions = sum(len(each.captions) for each in splits.train)
    return Setup(
        model,
        CaptionObjective(splits.train, splits.valid, tokenizer, config, model),
        digest(line(each) for each in (*splits.train, *splits.valid)),
        f"{len(splits.train):,} images with {captions:,} captions to train on, {len(splits.valid):,} to validate, "
        f"{len(splits.test):,} to test; a vocabulary of {tokenizer.size:,}; {count_parameters(model):,} parameters"
        f"{about(config.model.trunk)}",
        {TOKENIZER: tokenizer},
        splits.test,
        pretrained={} if config.model.trunk is None else PRETRAINED,
        data=caption_summary(config, splits, tokenizer),
    )


def about(trunk: VitTrunk | None) -> str:
    """The trunk in the summary of the setup: its run, and whether its weights are frozen. Empty without a trunk."""
    if trunk is None:
        return ""
    return f"; images as {trunk.vit} prepares them, whose weights {'stay' if trunk.frozen else 'learn with the rest'}"


def line(each: Captioned) -> str:
    """An image with its captions as a line, for the digest of the data."""
    return "\0".join((contents(each.image), *each.captions)) + "\n"

"""From a run file to what training needs."""

from regard.data.images import contents
from regard.models.catalog import build_captioner
from regard.models.vit_trunk import VitTrunk
from regard.storage.run_folder import RunDirectory
from regard.tasks.image_captioning.attribution import pixels_of
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import Captioned
from regard.tasks.image_captioning.training import CaptionObjective, read
from regard.tasks.setup import Setup, check_beam, digest
from regard.tasks.tokenizer_file import TOKENIZER, kept_or_trained
from regard.training.state import count_parameters

PRETRAINED = {"encoder.vit": "encoder."}
"""What a model with a trunk takes, with the beginning of its weights' names in that run."""


def setup(config: ImageCaptioning, folder: RunDirectory, processes: int) -> Setup:
    """Reads images and captions, each image once to see that it can be, and builds the rest.

    Raises:
        InputError: images, captions and model are not as they must be.
    """
    splits = config.data.load()
    tokenizer = kept_or_trained(
        folder, config.tokenizer, [read(text, config) for each in splits.train for text in each.captions]
    )
    for each in (*splits.train, *splits.valid, *splits.test):
        pixels_of(each, config)
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
    )


def about(trunk: VitTrunk | None) -> str:
    """What becomes of a trunk, and what is not the run file's then."""
    if trunk is None:
        return ""
    return f"; images as {trunk.vit} prepares them, whose weights {'stay' if trunk.frozen else 'learn with the rest'}"


def line(each: Captioned) -> str:
    """A digest of an image and its captions."""
    return "\0".join((contents(each.image), *each.captions)) + "\n"

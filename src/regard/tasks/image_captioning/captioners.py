"""The models of this task by their names."""

from regard.models.captioner import Captioner
from regard.models.grid_transformer import GridTransformer
from regard.models.show_and_tell import ShowAndTell
from regard.models.show_attend_and_tell import ShowAttendAndTell
from regard.tasks.image_captioning.run_file import CaptionerConfig

CAPTIONERS = {
    "show-and-tell": ShowAndTell,
    "show-attend-and-tell": ShowAttendAndTell,
    "grid-transformer": GridTransformer,
}


def build_captioner(config: CaptionerConfig, vocabulary: int) -> Captioner:
    """The model of a configuration, with fresh weights."""
    return CAPTIONERS[config.name](vocabulary, config)

"""Image captioning, with the attention of each word to places of the image."""

from regard.tasks.run import LazyTask

TASK = LazyTask(
    __name__,
    "config:ImageCaptioning",
    "training:setup",
    "run:ImageCaptioningRun",
    command="regard predict {} IMAGE",
)

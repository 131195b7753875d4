"""Captions of images, with the place that each word looks at."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__, "config:ImageCaptioning", "setup:setup", "run:ImageCaptioningRun", command="regard predict {} IMAGE"
)

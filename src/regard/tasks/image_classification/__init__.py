"""Classes of images."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__,
    "config:ImageClassification",
    "setup:setup",
    "run:ImageClassificationRun",
    command="regard predict {} IMAGE",
)

"""Classes of images."""

from regard.tasks.run import LazyTask

TASK = LazyTask(
    __name__,
    "config:ImageClassification",
    "training:setup",
    "run:ImageClassificationRun",
    command="regard predict {} IMAGE",
)

"""Classes of texts and of pairs of texts."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__, "config:Classification", "setup:setup", "run:ClassificationRun", command="regard predict {} TEXT"
)

"""Classes of texts and of pairs of texts."""

from regard.tasks.run import LazyTask

TASK = LazyTask(
    __name__, "config:Classification", "run:setup", "run:ClassificationRun", command=""
)

"""A number for each text or pair of texts."""

from regard.tasks.classification import command
from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__, "config:Regression", "setup:setup", "run:RegressionRun", command=command
)

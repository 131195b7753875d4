"""A number for each text or pair of texts."""

from regard.tasks.task import LazyTask

TASK = LazyTask(__name__, "config:Regression", "setup:setup", "run:RegressionRun", command="regard predict {} TEXT")

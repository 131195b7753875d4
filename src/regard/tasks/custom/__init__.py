"""Models and objectives of a user's own, which `regard.fit` trains."""

from regard.tasks.task import LazyTask

TASK = LazyTask(__name__, "config:Custom", "run:setup", "run:CustomRun")

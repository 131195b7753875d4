"""Actions in environments that are new each time, learned on the way: bandits, decision processes."""

from regard.tasks.task import LazyTask

TASK = LazyTask(__name__, "config:MetaRL", "setup:setup", "run:MetaRLRun")

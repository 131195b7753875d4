"""Meta-reinforcement learning: agents that adapt to new bandits and decision processes."""

from regard.tasks.task import LazyTask

TASK = LazyTask(__name__, "config:MetaRL", "setup:setup", "run:MetaRLRun")

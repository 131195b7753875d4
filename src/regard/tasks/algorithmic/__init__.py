"""Sequences of bits copied, repeated and recalled: machines with a tape."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__,
    "config:Algorithmic",
    "setup:setup",
    "run:AlgorithmicRun",
    command="regard predict {} 'BITS BITS ...'",
)

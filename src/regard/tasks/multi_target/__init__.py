"""Translation into several languages: one encoder, and a decoder for each language."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__,
    "config:MultiTarget",
    "setup:setup",
    "run:MultiTargetRun",
    command="regard predict {} TEXT",
)

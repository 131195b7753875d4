"""Translation into several languages: one encoder, and a decoder for each language."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__,
    "data:MultiTarget",
    "run:setup",
    "run:MultiTargetRun",
    command="regard predict {} TEXT",
)

"""A tag for each word of a text, and the entities that tags form."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__,
    "config:Tagging",
    "setup:setup",
    "run:TaggingRun",
    command="regard predict {} TEXT",
)

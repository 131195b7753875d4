"""A tag for each word of a text, and the entities that tags form."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__,
    "data:Tagging",
    "training:setup",
    "run:TaggingRun",
    command="regard predict {} TEXT",
)

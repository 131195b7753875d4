"""A tag for each word of a text, and the entities that tags form."""

from regard.tasks.run import LazyTask

TASK = LazyTask(
    __name__,
    "data:Tagging",
    "run:setup",
    "run:TaggingRun",
    command="regard predict {} TEXT",
)

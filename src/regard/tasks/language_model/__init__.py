"""Language models: continuations of texts."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__,
    "config:LanguageModelling",
    "setup:setup",
    "run:LanguageModelRun",
    command="regard generate {} PROMPT",
)

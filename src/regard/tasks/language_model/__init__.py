"""Language models: continuations of texts."""

from regard.tasks.run import LazyTask

TASK = LazyTask(
    __name__,
    "config:LanguageModelling",
    "run:setup",
    "run:LanguageModelRun",
    command="regard generate {} PROMPT",
)

"""Masked language models: they fill the blanks of texts, and embed words and texts."""

from regard.tasks.run import LazyTask

TASK = LazyTask(
    __name__,
    "config:MaskedLanguageModelling",
    "run:setup",
    "run:MaskedLanguageModelRun",
    command="regard fill {} 'TEXT WITH A [MASK]', or regard embed {} TEXT",
)

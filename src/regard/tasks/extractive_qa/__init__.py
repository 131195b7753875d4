"""Answers to questions that are spans of their context."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__,
    "data:ExtractiveQA",
    "training:setup",
    "run:ExtractiveQARun",
    command="""regard predict {} '{"question": "...", "context": "..."}'""",
)

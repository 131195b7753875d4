"""Answers to questions that are spans of their context."""

from regard.tasks.run import LazyTask

TASK = LazyTask(
    __name__,
    "data:ExtractiveQA",
    "run:setup",
    "run:ExtractiveQARun",
    command="""regard predict {} '{"question": "...", "context": "..."}'""",
)

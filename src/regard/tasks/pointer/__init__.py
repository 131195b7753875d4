"""Orders and choices of the elements of a set: pointer networks."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__,
    "config:Pointer",
    "setup:setup",
    "run:PointerRun",
    command="regard predict {} 'NUMBER NUMBER ...'",
)

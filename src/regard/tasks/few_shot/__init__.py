"""Classes learned from a few examples of each: episodes."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__,
    "data:FewShot",
    "run:setup",
    "run:FewShotRun",
    command="""regard predict {} '{"examples": {"a": ["a1.png"], ...}, "image": "x.png"}'""",
)

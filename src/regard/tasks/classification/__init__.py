"""Classes of texts and of pairs of texts."""

from typing import Any

from regard.tasks.run import LazyTask


def command(config: Any) -> str:
    """Return the use of a run: a tab separates the texts of a pair."""
    return (
        "regard predict {} TEXT"
        if config.data.second is None
        else r"regard predict {} $'TEXT\tTEXT'"
    )


TASK = LazyTask(
    __name__,
    "config:Classification",
    "training:setup",
    "run:ClassificationRun",
    command=command,
)

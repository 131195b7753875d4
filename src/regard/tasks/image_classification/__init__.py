"""Classes of images."""

import shlex
from typing import Any

from regard.tasks.task import LazyTask


def command(config: Any) -> str:
    """The use of a run: of a file of many images the first one is named."""
    return f"regard predict {{}} {shlex.quote(config.first_image) if config.first_image else 'IMAGE'}"


TASK = LazyTask(
    __name__,
    "config:ImageClassification",
    "setup:setup",
    "run:ImageClassificationRun",
    command=command,
)

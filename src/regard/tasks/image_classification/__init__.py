"""Classes of images."""

import shlex
from typing import Any

from regard.tasks.run import LazyTask


def command(config: Any) -> str:
    """Return the use of a run, which names the first of many images in a file."""
    return f"regard predict {{}} {shlex.quote(config.first_image) if config.first_image else 'IMAGE'}"


TASK = LazyTask(
    __name__,
    "config:ImageClassification",
    "training:setup",
    "run:ImageClassificationRun",
    command=command,
)

"""Sequence-to-sequence on texts: dates, translation, summaries."""

from typing import Any

from regard.tasks.run import LazyTask


def command(config: Any) -> str:
    """How a run is used: one of dialogue replies to what was said before."""
    return (
        "regard chat {}" if config.data.kind == "dialogue" else "regard predict {} TEXT"
    )


TASK = LazyTask(
    __name__, "config:Seq2Seq", "training:setup", "run:Seq2SeqRun", command=command
)

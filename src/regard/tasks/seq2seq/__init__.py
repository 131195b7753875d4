"""Sequence-to-sequence on texts: dates, translation, summaries."""

from regard.tasks.run import LazyTask

TASK = LazyTask(
    __name__, "config:Seq2Seq", "training:setup", "run:Seq2SeqRun", command=""
)

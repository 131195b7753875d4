"""Texts that become other texts: dates, translation, summaries."""

from regard.tasks.task import LazyTask

TASK = LazyTask(__name__, "config:Seq2Seq", "setup:setup", "run:Seq2SeqRun")

"""The attention of runs that write a text for a text, until they attribute by the shared verb."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from regard.data.pair import Pair
from regard.pictures.payload import payload
from regard.serve.legacy import Looked
from regard.serve.operation import Operation, at_once
from regard.tasks.seq2seq.run import Seq2SeqRun


def attention_of_texts(run: Seq2SeqRun) -> Operation:
    """The attention of a forced target."""
    return Operation(Looked, at_once(partial(_attention, run)))


def _attention(run: Seq2SeqRun, requests: Sequence[Looked]) -> list[dict[str, Any]]:
    pairs = [Pair(each.text, each.target, "the text") for each in requests]
    found = [
        run.lookups_of(pair, each.kinds, finished=each.finished) for pair, each in zip(pairs, requests, strict=True)
    ]
    return [payload([each]) for each in found]

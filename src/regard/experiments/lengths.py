"""Accuracy of a run by source length."""

from collections.abc import Sequence
from random import Random
from typing import Any

from regard.data.generated.letters import Order, make
from regard.tasks.run import Run

SEED = "lengths"


def right_by_length(
    run: Run[Any, Any], order: Order, lengths: Sequence[int], count: int
) -> list[float]:
    """For each length, the per cent of correct letters at their positions in the greedy outputs for `count` rows."""
    return [right(run, order, length, count) for length in lengths]


def right(run: Run[Any, Any], order: Order, length: int, count: int) -> float:
    """`right_by_length` for one length."""
    random = Random(f"{SEED}/{length}")
    rows = [make(length, order, random) for _ in range(count)]
    found = run.predict([row.text for row in rows], beam=1, attention=False)
    answers = [
        (row.answer.split(), each.text.split())
        for row, each in zip(rows, found, strict=True)
    ]
    hits = sum(
        expected == found
        for row in answers
        for expected, found in zip(*row, strict=False)
    )
    return 100 * hits / (length * count)

"""Parts of attention that were made for other sizes say so when they are joined or first read a memory."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.attention import Attend
from regard.attention.align import LocalPredictive
from regard.attention.heads import MultiHead
from regard.attention.history import Coverage, SequentialAttend
from regard.attention.masks import as_mask
from regard.attention.memory import Memory
from regard.attention.positions import Alibi, BucketedBias, RelativeKeys, Rotary
from regard.attention.scores import Additive, Dot, General, ScaledDot

WIDTH = 12
ADDITIVE = Additive(WIDTH, WIDTH, 5)


def memory(width: int = WIDTH) -> Memory:
    return Memory.of(torch.randn(2, 5, width), torch.tensor([5, 3]), torch.randn(2, width))


def heads(**parts: Any) -> MultiHead:
    return MultiHead(WIDTH, 2, attend=Attend(parts.pop("score", ScaledDot())), **parts)


def alone(attend: Attend, width: int = WIDTH) -> Any:
    return attend(torch.randn(2, 3, WIDTH), memory(width))


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "keys of a score": (
        lambda: Attend(Additive(12, 11, 5)).prepare(memory()),
        "the width of the memory's key is 12, but the score Additive expects 11; make both the same",
    ),
    "keys of a product": (
        lambda: Attend(General(12, 11)).prepare(memory()),
        "the width of the memory's key is 12, but the score General expects 11",
    ),
    "keys of another width than queries": (lambda: alone(Attend(Dot()), 10), "query and key need one width"),
    "the model's width in place of a head's": (
        lambda: heads(score=Additive(12, 12, 5, heads=2)),
        "the width of the query is 6, but the score Additive expects 12",
    ),
    "a score of other heads": (
        lambda: heads(score=Additive(6, 6, 5, heads=3)),
        "the number of heads of the attention is 2, but the score Additive expects 3",
    ),
    "rotary positions": (lambda: heads(positions=Rotary(12)), "is 6, but the positions Rotary expects 12"),
    "relative keys": (lambda: heads(positions=RelativeKeys(12)), "is 6, but the positions RelativeKeys expects 12"),
    "slopes": (lambda: heads(positions=Alibi(3)), "is 2, but the positions Alibi expects 3"),
    "buckets": (lambda: heads(positions=BucketedBias(3)), "is 2, but the positions BucketedBias expects 3"),
    "a history": (
        lambda: SequentialAttend(ADDITIVE, Coverage(7)),
        "the width of the score Additive is 5, but the history Coverage expects 7",
    ),
    "an alignment and a score": (
        lambda: Attend(ADDITIVE, LocalPredictive(10, 5, 1)),
        "the width of the query is 12, but the alignment LocalPredictive expects 10",
    ),
    "an alignment": (lambda: alone(Attend(ScaledDot(), LocalPredictive(10, 5, 1))), "need widths 10, any, any"),
    "a source of heads": (
        lambda: heads().prepare(memory(10)),
        "the width of the memory's key is 10, but the map of MultiHead to keys expects 12",
    ),
    "a mask": (
        lambda: Memory(torch.randn(2, 5, 3), torch.randn(2, 5, 3), as_mask(torch.ones(2, 1, 4) > 0)),
        "the mask covers 4 keys, but the memory has 5",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_part_of_another_size_says_so(name: str):
    build, message = MISTAKES[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


def test_parts_that_fit():
    assert alone(Attend(ADDITIVE, LocalPredictive(WIDTH, 5, 1))).shape == (2, 3, WIDTH)
    assert heads(score=Additive(6, 6, 5, heads=2))(torch.randn(2, 3, WIDTH), memory()).shape == (2, 3, WIDTH)
    assert heads(positions=Rotary(6))(torch.randn(2, 3, WIDTH), memory()).shape == (2, 3, WIDTH)

"""Every gradient against differences, in float64: each score with each alignment that has one, alone and in heads."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.align import Align
from regard.attention.heads import MultiHead
from regard.attention.history import SequentialAttend
from regard.attention.masks import padding
from regard.attention.memory import Memory
from regard.attention.scores import Additive
from tests.laws import cases
from tests.laws.cases import DRAWN, InTraining, ReadAndDrawn

SMOOTH: dict[str, Callable[[int], Align]] = {
    "softmax": lambda width: cases.align("softmax", width),
    "sparsemax": lambda width: cases.align("sparsemax", width),
    "entmax": lambda width: cases.align("entmax", width),
    "local-m": lambda width: cases.align("local-m", width),
    "local-p": lambda width: cases.align("local-p", width),
    "monotonic": lambda width: InTraining(DRAWN["monotonic"]()),
}
"""Straight-through weights have a gradient that is not theirs, on purpose: see `tests/attention/test_alignments.py`."""
COMBINATIONS = [(score, align) for score in cases.SCORES for align in SMOOTH]


def check(module: nn.Module, widths: tuple[int, int, int], *, fast: bool) -> None:
    """To query, key, value and every parameter, over a padded memory; `fast` compares in a random direction."""
    parameters: dict[str, Tensor] = dict(module.double().named_parameters())
    shapes = zip((3, 5, 5), widths, strict=True)
    inputs = [torch.randn(2, *shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    mask = padding(torch.tensor([5, 3]), 5)

    def read(query: Tensor, key: Tensor, value: Tensor, *given: Tensor) -> Tensor:
        replaced = dict(zip(parameters, given, strict=True))
        return torch.func.functional_call(module, replaced, (query, Memory(key, value, mask)))

    assert torch.autograd.gradcheck(read, (*inputs, *parameters.values()), fast_mode=fast)


@pytest.mark.parametrize(("score", "align"), COMBINATIONS)
def test_alone(score: str, align: str):
    compare, widths = cases.score(score)
    check(Attend(compare, SMOOTH[align](widths[0])), widths, fast=True)


@pytest.mark.parametrize(("score", "align"), COMBINATIONS)
def test_in_heads(score: str, align: str):
    attend = Attend(cases.score(score, heads=2)[0], SMOOTH[align](5))
    heads = MultiHead(7, 2, attend=attend, head_width=5, memory_width=3)
    check(heads, heads.widths, fast=True)


@pytest.mark.parametrize("align", ["local-m", "local-p", "monotonic"])
def test_in_heads_number_by_number(align: str):
    attend = Attend(Additive(2, 2, 3, heads=2), SMOOTH[align](2))
    heads = MultiHead(3, 2, attend=attend, head_width=2)
    check(heads, heads.widths, fast=False)


@pytest.mark.parametrize("history", cases.PASTS)
@pytest.mark.parametrize("align", SMOOTH)
def test_with_a_history(history: str, align: str):
    """The weights of each query go into the scores of those that follow."""
    number_by_number = align in ("softmax", "monotonic")
    check(
        SequentialAttend(Additive(2, 3, 3), cases.PASTS[history](), SMOOTH[align](2)),
        (2, 3, 2),
        fast=not number_by_number,
    )
    attend = SequentialAttend(Additive(5, 5, 3, heads=2), cases.PASTS[history](), SMOOTH[align](5))
    heads = MultiHead(7, 2, attend=attend, head_width=5, memory_width=3)
    check(heads, heads.widths, fast=True)


@pytest.mark.parametrize("score", cases.SCORES)
def test_of_what_training_gets_of_a_hard_draw(score: str):
    compare, widths = cases.score(score)
    check(ReadAndDrawn(Attend(compare, InTraining(DRAWN["hard"]()))), widths, fast=True)

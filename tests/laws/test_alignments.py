"""Every alignment with every score and every history, alone and in heads, at inference and in training."""

from functools import partial
from itertools import product

import pytest
import torch

from regard.attention import Attend
from regard.attention.heads import MultiHead
from regard.attention.history import SequentialAttend
from regard.attention.masks import as_mask
from regard.attention.memory import Memory
from regard.attention.scores import Additive
from regard.models.attention import ALIGNS, AlignName
from regard.testing import check_attention
from tests.laws import cases
from tests.laws.cases import DRAWN, InTraining, ReadAndDrawn

PLACES, SUMS, ALONE = (
    "the_order_of_keys_changes_nothing",
    "rows_of_weights_sum_to_one",
    "a_key_hidden_from_one_query_is_inert_for_it",
)
check = partial(check_attention, queries=3, keys=7)
"""No fused kernel serves anything but softmax, of which `test_attention` has the laws."""
OTHERS = [name for name in ALIGNS if name != "softmax"]


def broken(align: str, score: str = "", history: str = "") -> list[str]:
    """The laws that such a read breaks on purpose."""
    laws = {
        PLACES: align in cases.PLACED or "location" in score or history == "location-aware",
        # a window may hold nothing but the tail, which the score ignores
        SUMS: align not in cases.STOCHASTIC or (align, score) == ("local-m", "location-tail"),
        ALONE: align == "monotonic" or history != "",
    }
    return [law for law in laws if laws[law]]


@pytest.mark.parametrize(("score", "align"), [*product(cases.SCORES, OTHERS)])
def test_alone(score: str, align: AlignName):
    compare, widths = cases.score(score)
    attend = Attend(compare, cases.align(align, widths[0]))
    check(attend, widths=widths, without=broken(align, score))


@pytest.mark.parametrize(("score", "align"), [*product(cases.SCORES, OTHERS)])
def test_in_heads(score: str, align: AlignName):
    attend = Attend(cases.score(score, heads=2)[0], cases.align(align, 5))
    heads = MultiHead(7, 2, attend=attend, head_width=5, memory_width=3)
    check(heads, without=broken(align, score))


@pytest.mark.parametrize(("history", "align"), [*product(cases.PASTS, ALIGNS)])
def test_with_a_history(history: str, align: AlignName):
    without = broken(align, history=history)
    one = SequentialAttend(Additive(5, 7, 3), cases.PASTS[history](), cases.align(align, 5))
    check(one, widths=(5, 7, 2), without=without)
    attend = SequentialAttend(Additive(5, 5, 3, heads=2), cases.PASTS[history](), cases.align(align, 5))
    check(MultiHead(7, 2, attend=attend, head_width=5, memory_width=3), without=without)


@pytest.mark.parametrize("align", [name for name in ALIGNS if not name.startswith("local")] + ["expected"])
def test_a_key_hidden_from_all_is_as_if_it_were_not_there(align: str):
    """Also between two others, for what goes from key to key; a window counts places, and so is not asked."""
    for score in (name for name in cases.SCORES if "location" not in name):
        compare, (query_width, key_width, value_width) = cases.score(score)
        made = InTraining(DRAWN["monotonic"]()) if align == "expected" else ALIGNS[align](query_width, 2)  # type: ignore
        attend = Attend(compare, made).double().eval()
        query = torch.randn(2, 3, query_width, dtype=torch.float64)
        key, value = (torch.randn(2, 7, width, dtype=torch.float64) for width in (key_width, value_width))
        left = torch.arange(7) != 3
        hidden = attend(query, Memory(key, value, as_mask(left.expand(2, 3, 7))))
        without = attend(query, Memory(key[:, left], value[:, left]))
        torch.testing.assert_close(hidden, without, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("align", ALIGNS)
def test_in_float32(align: AlignName):
    """Where additive scores have a kernel of their own."""
    attend = Attend(Additive(5, 5, 3, heads=2), cases.align(align, 5))
    heads = MultiHead(7, 2, attend=attend, head_width=5, memory_width=3)
    check(heads, without=broken(align), dtype=torch.float32)


@pytest.mark.parametrize(("score", "align"), [*product(cases.SCORES, DRAWN)])
def test_in_training(score: str, align: str):
    """With the same draws; what a key gets depends on its place."""
    without = [PLACES, *([SUMS, ALONE] if align == "monotonic" else [])]
    compare, widths = cases.score(score)
    check(Attend(compare, InTraining(DRAWN[align]())), widths=widths, without=without)
    attend = Attend(cases.score(score, heads=2)[0], InTraining(DRAWN[align]()))
    heads = MultiHead(7, 2, attend=attend, head_width=5, memory_width=3)
    check(heads, without=without)


@pytest.mark.parametrize("score", cases.SCORES)
def test_what_training_gets_of_a_hard_draw(score: str):
    """Its log-probability and entropy, with their gradients, obey the laws too."""
    compare, widths = cases.score(score)
    drawn = ReadAndDrawn(Attend(compare, InTraining(DRAWN["hard"]())))
    check(drawn, widths=widths, without=[PLACES, SUMS])


@pytest.mark.parametrize("score", [name for name in cases.SCORES if name not in ("additive", "normalized")])
def test_a_history_is_for_additive_scores_alone(score: str):
    with pytest.raises(ValueError, match="a history adds to the sum in an additive score"):
        SequentialAttend(cases.score(score)[0], cases.PASTS["coverage"]())

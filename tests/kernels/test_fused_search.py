"""Whole searches by the kernel: the hypotheses and scores of the search in steps, and when only steps serve."""

from collections.abc import Callable, Sequence

import pytest
import torch

from regard.attention.memory import Memory
from regard.attention.record import record
from regard.data.batching import collate
from regard.decoding import Beam, greedy
from regard.decoding.hypothesis import Hypothesis, LengthPenalty, NoTokenError
from regard.decoding.logits_processors import LogitsProcessor, MinimumLength, NoRepeat
from regard.decoding.whole_search import Searcher, whole_search
from regard.kernels import fused_search
from regard.models.fused import fuse
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn import fused_transformer
from regard.nn.fast_linear import with_int8
from regard.text.special import END, SpecialTokens
from regard.work import Cancelled, cancellable
from tests.kernels.searches import Both, check

pytestmark = pytest.mark.skipif(fused_search.library() is None, reason="no kernel")
PENALTY = LengthPenalty(0.7)


def model(
    vocabulary: int = 70, *, width: int = 12, heads: int = 2, layers: int = 2, int8: bool = False, **more
) -> Transformer:
    """A fused model with weights so large that its texts differ."""
    config = TransformerConfig(layers=layers, width=width, hidden=3 * width, heads=heads, **more)
    made = Transformer(vocabulary, vocabulary, config).eval()
    with torch.no_grad():
        made.decoder.output.weight.mul_(3)
        made.decoder.output.bias.normal_()
        made.decoder.output.bias[END] += 1
    if int8:
        with_int8(made)
    fuse(made)
    return made


@torch.no_grad()
def memory(made: Transformer, lengths: Sequence[int] = (5, 1, 8)) -> Memory:
    rows = collate([(torch.randint(4, 9, (length,)).tolist(), []) for length in lengths])
    return made.encoder(rows.source, rows.source_lengths)


SIZES = {
    "two layers": {},
    "odd widths": {"width": 15, "heads": 3, "vocabulary": 131},
    "one layer, few tokens": {"layers": 1, "vocabulary": 9},
    "wide": {"width": 48, "heads": 4, "vocabulary": 300},
    "shared heads": {"width": 24, "heads": 6, "key_value_heads": 2},
}


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("least", [0, 4])
def test_greedy_texts_and_scores(both: Both, size: str, least: int):
    made = model(**SIZES[size])
    processors = (MinimumLength(least),) if least else ()
    limit = torch.tensor([9, 1, 14])
    check(*both(greedy, made, memory(made), max_length=limit, penalty=PENALTY, processors=processors))


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("early", [False, True])
def test_hypotheses_of_a_beam(both: Both, size: str, early: bool):
    made = model(**SIZES[size])
    search = Beam(5, PENALTY, processors=(MinimumLength(2),) if early else (), early=early)
    check(*both(search, made, memory(made), max_length=torch.tensor([9, 1, 14]), n_best=5))


def test_bytes_as_weights(both: Both):
    made = model(int8=True)
    found, expected = both(greedy, made, memory(made), max_length=9)
    assert [each.tokens for [each] in found] == [each.tokens for [each] in expected]


def test_other_special_tokens(both: Both):
    made = model()
    made.decoder.special = SpecialTokens(pad=7, start=3, end=5, more_ends=(11, 12), unused=4)
    check(*both(Beam(3), made, memory(made), max_length=12, n_best=3))
    check(*both(greedy, made, memory(made), max_length=12))


def test_a_source_has_the_same_hypotheses_beside_others():
    made = model()
    source = memory(made, (5, 1, 8))
    together = Beam(4)(made.decoder, source, max_length=12, n_best=4)
    alone = Beam(4)(made.decoder, source.select(torch.tensor([0])), max_length=12, n_best=4)
    check(together[:1], alone)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("search", [greedy, Beam(2)], ids=["greedy", "beam"])
def test_no_token_is_possible(search: Callable[..., list[list[Hypothesis]]], value: float):
    made = model()
    with torch.no_grad():
        made.decoder.output.bias.fill_(value)
    with pytest.raises(NoTokenError, match="no token is possible"):
        search(made.decoder, memory(made), max_length=5)


def test_nobody_waits_any_more():
    made = model()
    waiting = iter([True, False])
    with cancellable(lambda: next(waiting)), pytest.raises(Cancelled):
        greedy(made.decoder, memory(made), max_length=200, processors=(MinimumLength(201),))


def served(made: Transformer, processors: Sequence[LogitsProcessor] = (), limit: int = 5) -> bool:
    source = memory(made)
    assert isinstance(made.decoder, Searcher)
    with torch.no_grad():
        found = whole_search(made.decoder, source, torch.full((3,), limit), 2, PENALTY, processors)
    return found is not None


def test_only_steps_serve_what_is_observed_or_changed(monkeypatch: pytest.MonkeyPatch):
    assert served(model())
    assert not served(model(), [NoRepeat(2)])
    assert not served(model(), [MinimumLength(2, begins=(1, 1, 1))])
    made = model()
    with record(made.decoder):
        assert not served(made)
    for name in ("", "embedding", "positions", "layers.0.feedforward", "norm", "output"):
        hooked = model()
        hooked.decoder.get_submodule(name).register_forward_hook(lambda *_: None)
        assert not served(hooked), name
    assert not served(model().train())
    assert not served(model().double())
    made, source = model(), memory(model())
    assert isinstance(made.decoder, Searcher)
    assert whole_search(made.decoder, source, torch.full((3,), 5), 2, PENALTY, ()) is None  # gradients are enabled
    monkeypatch.setattr(fused_transformer, "LARGEST_STORE", 1000)
    assert not served(model())

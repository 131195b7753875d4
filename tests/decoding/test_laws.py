"""The laws of search, for every decoder: in odd small sizes, with weights that make it certain."""

import pytest
import torch
from torch import nn

from regard.attention.memory import Memory
from regard.decoding.beam import Beam
from regard.decoding.hypothesis import Hypothesis, LengthPenalty
from regard.decoding.sampling import greedy
from regard.nn.decoders import Decoder
from regard.text.kinds import END
from tests.laws import cases

LIMIT = 7
ALIKE = {f"luong-{score}" for score in ("dot", "concat", "scaled-dot", "cosine", "distance")}
ALIKE |= {f"transformer-{kind}" for kind in ("after", "cosine", "grouped")}
ALIKE |= {"bahdanau-gru", "one-pass-apart", "pointer-closed", "pointer-matching"}
"""Models that keep for the next step what another keeps; `test_decoders` steps and reorders each of them."""
NAMES = [
    *(f"{name}-decoder" for name in cases.DECODERS),
    *(pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE)) for name in cases.MODELS),
]


def prepared(name: str) -> tuple[nn.Module, Decoder]:
    """An encoder and a decoder in float64. END has chances at every step, so that texts are of many lengths."""
    if name.endswith("-decoder"):
        encoder = cases.ENCODERS["gru-both"]().double()
        decoder = cases.DECODERS[name.removesuffix("-decoder")](encoder, "summary").double()
    else:
        model = cases.MODELS[name]().double()
        encoder, decoder = model.encoder, model.decoder
    for each in (encoder, decoder):
        each.eval()
    with torch.no_grad():
        cases.written(decoder.output).weight *= 5
        cases.written(decoder.output).bias[END] += 1.5
    return encoder, decoder


def encoded(encoder: nn.Module) -> Memory:
    batch = cases.sentences()
    return encoder(batch.tokens, batch.lengths)


def assert_same(found: list[Hypothesis], wanted: list[Hypothesis]) -> None:
    assert [(each.tokens, each.finished) for each in found] == [(each.tokens, each.finished) for each in wanted]
    assert [each.score for each in found] == pytest.approx([each.score for each in wanted], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_beam_one_is_greedy(name: str):
    encoder, decoder = prepared(name)
    memory = encoded(encoder)
    found, wanted = Beam(1)(decoder, memory, max_length=LIMIT), greedy(decoder, memory, max_length=LIMIT)
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("name", NAMES)
def test_n_best_is_sorted_and_leaves_the_best_unchanged(name: str):
    encoder, decoder = prepared(name)
    memory, penalty = encoded(encoder), LengthPenalty(0.7)
    found = [Beam(5, penalty)(decoder, memory, max_length=LIMIT, n_best=n_best) for n_best in (1, 3, 5)]
    for best, some, every in zip(*found, strict=True):
        assert best == some[:1]
        assert some == every[:3]
        assert every == sorted(every, key=lambda one: (not one.finished, -one.score))
        assert len({each.tokens for each in every}) == len(every) == 5


@pytest.mark.parametrize("name", NAMES)
def test_batch_size_and_padding_never_matter(name: str):
    encoder, decoder = prepared(name)
    batch, memory = cases.sentences(), None
    memory = encoder(batch.tokens, batch.lengths)
    together = Beam(3)(decoder, memory, max_length=LIMIT, n_best=3)
    quick = greedy(decoder, memory, max_length=LIMIT)
    for row, length in enumerate(batch.lengths.tolist()):
        one = slice(row, row + 1)
        alone = encoder(batch.tokens[one, :length], batch.lengths[one])
        assert_same(together[row], Beam(3)(decoder, alone, max_length=LIMIT, n_best=3)[0])
        assert_same(quick[row], greedy(decoder, alone, max_length=LIMIT)[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_score_is_what_teacher_forcing_gives(name: str):
    """The log-probability of a hypothesis, END included if it ended, from one pass over its tokens."""
    encoder, decoder = prepared(name)
    memory = encoded(encoder)
    for row, hypotheses in enumerate(Beam(3)(decoder, memory, max_length=LIMIT, n_best=3)):
        for each in hypotheses:
            tokens = [*each.tokens, END] if each.finished else list(each.tokens)
            given = torch.tensor([[2, *tokens[:-1]]])
            features = decoder.features(given, decoder.start(memory.select(torch.tensor([row]))))
            chosen = decoder.output(features).log_softmax(-1)[0].gather(1, torch.tensor(tokens)[:, None])
            assert each.score == pytest.approx(chosen.sum().item(), rel=1e-5, abs=1e-5)

"""Losses of the source attention, and REINFORCE against the exact expectation."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention.align import Hard
from regard.attention.align.losses import coverage, diagonal, doubly_stochastic, entropy, guidance
from regard.attention.record import record
from regard.data.generated.pairs import Dates
from regard.data.pairs import Pair
from regard.data.splits import Splits
from regard.data.tokens import Tokenizers
from regard.errors import InputError
from regard.models.bottleneck import Bottleneck, BottleneckConfig
from regard.models.luong import Luong, LuongConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.decoders import EncoderDecoder
from regard.tasks.seq2seq.run import Seq2Seq, TokenizerPair
from regard.tasks.seq2seq.training import Seq2SeqObjective, link_pieces
from regard.text import Tokenizer, TokenizerSettings
from regard.training.objectives import AttentionLosses
from regard.training.settings import Training

PAIRS = [
    Pair("ab c", "x yy", "here:1", links=frozenset({(0, 1), (1, 0), (1, 1)})),
    Pair("c", "y", "here:2"),
    Pair("a b", "yx x", "here:3", links=frozenset({(1, 0)})),
]
CHARACTERS = TokenizerSettings("character")


def tokenizers(settings: TokenizerSettings = CHARACTERS) -> Tokenizers:
    source = Tokenizer.train(settings, [pair.source for pair in PAIRS])
    return Tokenizers(source, Tokenizer.train(settings, [pair.target for pair in PAIRS]))


def luong(both: Tokenizers, **settings) -> EncoderDecoder:
    config = LuongConfig(**{"embedding": 3, "width": 4, "layers": 1, "dropout": 0.0, **settings})
    return Luong(both.source.size, both.target.size, config).double()


def transformer(both: Tokenizers) -> EncoderDecoder:
    config = TransformerConfig(width=8, layers=2, heads=2, hidden=8, dropout=0.0, shared=False)
    return Transformer(both.source.size, both.target.size, config).double()


def task(
    both: Tokenizers, model: EncoderDecoder, losses: AttentionLosses, pairs: list[Pair] = PAIRS
) -> Seq2SeqObjective:
    splits, training = Splits(pairs, pairs), Training(batch_tokens=5, label_smoothing=0.1)
    sides = TokenizerPair(both.source.settings, both.target.settings)
    config = Seq2Seq(
        data=Dates(), tokenizers=sides, model=LuongConfig(), metrics=("exact-match",), training=training,
        attention_losses=losses,
    )  # fmt: skip
    return Seq2SeqObjective(config, splits, both, model)


def penalty(name: str, weights: Tensor, known: Tensor) -> Tensor:
    """The formula of a penalty, for the weights of one pair, `(head, query, key)`."""
    if name == "guided":
        return guidance(weights.mean(0), known)
    if name == "guided_input":  # the row that reads a word, after the one that predicts it
        return guidance(weights.mean(0)[1:], known[:-1])
    if name == "diagonal":
        targets, sources = map(torch.tensor, weights.shape[1:])
        return diagonal(weights.mean(0), targets, sources)
    return {"doubly_stochastic": doubly_stochastic, "entropy": entropy, "coverage": coverage}[name](weights).mean()


@pytest.mark.parametrize("name", ["doubly_stochastic", "entropy", "coverage", "guided", "guided_input", "diagonal"])
@pytest.mark.parametrize("build", [luong, transformer])
def test_a_penalty_is_added_for_real_positions(build, name: str):
    """A half of what the formula gives for each pair alone, where nothing is padded; and its gradient counts."""
    both = tokenizers()
    model = build(both)
    shares: list[dict[str, Any]] = [{name: share} for share in (0.0, 0.5)]
    if name == "guided_input":
        shares = [{"guided": share, name: True} for share in (0.0, 0.5)]
    plain, one = (task(both, model, AttentionLosses(**settings)) for settings in shares)
    rows = [0, 1, 2]
    added = one.loss(model, one.batch(0, rows), 1).total - plain.loss(model, plain.batch(0, rows), 1).total
    expected = torch.zeros((), dtype=torch.float64)
    for row in rows:
        batch = plain.batch(0, [row])
        targets, sources = int(batch.target_lengths), int(batch.source_lengths)
        with record(model.decoder, model.decoder.source_attention, differentiable=True) as maps:
            model(batch.source, batch.source_lengths, batch.target_in)
        found = [each[0, None] if each.ndim == 3 else each[0] for each in maps.values()]
        weights = torch.cat(found)[:, :targets, :sources]
        known = link_pieces([PAIRS[row]], both, targets, sources)[0].double()
        expected = expected + 0.5 * penalty(name, weights, known)
    torch.testing.assert_close(added, expected, rtol=1e-9, atol=1e-9)
    parameters = [each for each in model.parameters() if each.requires_grad]
    gradients = [
        torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True) for total in (added, expected)
    ]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("baseline", [0.0, 1.3])
def test_reinforce_is_the_gradient_of_the_expected_loss(baseline: float, monkeypatch: pytest.MonkeyPatch):
    """Of a target of 2 positions and a source of 3, by enumerating all 9 ways to read; a baseline changes nothing."""
    both, pairs = tokenizers(), 2 * [Pair("ab", "y", "here:1")]
    model = luong(both, align="hard")
    align = model.get_submodule("decoder.attend.align")
    assert isinstance(align, Hard)
    prescribed: list[int] = []

    def sample_keys(probabilities: Tensor) -> Tensor:
        """Return the next prescribed key of the only sequence; the first key after them."""
        return torch.full(probabilities.shape[:-1], prescribed.pop(0) if prescribed else 0)

    monkeypatch.setattr("regard.attention.align.hard.sample_keys", sample_keys)
    learning, alone = (task(both, model, AttentionLosses(reinforce=share), pairs) for share in (1.0, 0.0))
    batch, parameters = learning.batch(0, [0]), list(model.parameters())
    expected = torch.zeros((), dtype=torch.float64)
    found = [torch.zeros_like(parameter) for parameter in parameters]
    for keys in itertools.product(range(3), repeat=2):
        prescribed[:] = keys
        with record(model.decoder, "attend") as maps:
            model(batch.source, batch.source_lengths, batch.target_in)
        probability = torch.cat([draw.log_probability for draw in maps.draws["attend"][:2]]).sum().exp()
        prescribed[:] = keys
        align.baseline.fill_(baseline)
        surrogate = learning.loss(model, batch, 1).total
        prescribed[:] = keys
        loss = alone.loss(model, batch, 1).total
        assert surrogate.item() == pytest.approx(loss.item())
        gradients = torch.autograd.grad(surrogate, parameters, materialize_grads=True, allow_unused=True)
        for total, gradient in zip(found, gradients, strict=True):
            total += probability.detach() * gradient
        expected = expected + probability * loss
    exact = torch.autograd.grad(expected, parameters, materialize_grads=True, allow_unused=True)
    torch.testing.assert_close(found, list(exact), rtol=1e-9, atol=1e-11)


def test_entropy_of_what_is_drawn_from_is_wanted():
    both = tokenizers()
    model = luong(both, align="hard")
    batch = task(both, model, AttentionLosses()).batch(0, [0, 2])
    totals = []
    for share in (0.0, 0.5):
        torch.manual_seed(3)
        totals.append(task(both, model, AttentionLosses(draw_entropy=share)).loss(model, batch, 1).total)
    torch.manual_seed(3)
    with record(model.decoder, "attend") as maps:
        model(batch.source, batch.source_lengths, batch.target_in)
    entropies = torch.cat([draw.entropy for draw in maps.draws["attend"]], -1)
    real = torch.arange(entropies.shape[1]) < batch.target_lengths[:, None]
    torch.testing.assert_close(totals[1] - totals[0], -0.5 * entropies[real].sum())


def test_links_of_words_become_rows_of_pieces():
    """Source "ab c" is a, b, blank, c and END, target "x yy" is x, blank, y, y and END; blanks go with what comes."""
    found = link_pieces(PAIRS[:2], tokenizers(), 5, 5)
    assert found[0].tolist() == [
        [0, 0, 0.5, 0.5, 0],
        [0.25, 0.25, 0.25, 0.25, 0],
        [0.25, 0.25, 0.25, 0.25, 0],
        [0.25, 0.25, 0.25, 0.25, 0],
        [0, 0, 0, 0, 0],
    ]
    assert not found[1].any()


def test_what_model_and_data_do_not_allow():
    both = tokenizers()
    config = BottleneckConfig(embedding=3, width=4)
    bottleneck = Bottleneck(both.source.size, both.target.size, config)
    with pytest.raises(InputError, match="attention_losses need a model that attends to its source"):
        task(both, bottleneck, AttentionLosses(coverage=1.0))
    without = [replace(pair, links=None) for pair in PAIRS]
    with pytest.raises(InputError, match=r"guided needs word links, whose file data\.links names"):
        task(both, luong(both), AttentionLosses(guided=1.0), without)
    changing = tokenizers(TokenizerSettings("bpe", size=262, dropout=0.1))
    with pytest.raises(InputError, match=r"guided needs word links, .* tokenizers without dropout"):
        task(changing, luong(changing), AttentionLosses(guided=1.0))


def test_nothing_is_recorded_where_nothing_is_added():
    both = tokenizers()
    one = task(both, luong(both), AttentionLosses())
    with one.attention_loss.recording(luong(both)) as maps:
        assert maps is None

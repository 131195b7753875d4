"""ELMo in place of a token embedding: what it gives, what is learned, and an encoder that takes it."""

import pytest
import torch
from torch import nn

from regard.attention.heads import MultiHead
from regard.data.batches import spell_vocabulary
from regard.models.elmo import Elmo, ElmoConfig, ElmoEmbedding, ScalarMix, word_states
from regard.nn.decoders import Encoder
from regard.nn.layers import EncoderLayer, FeedForward, PreNorm, Sinusoidal
from regard.nn.recurrent import RecurrentEncoder, SequenceReader
from regard.nn.transformer import TransformerEncoder
from regard.text import Tokenizer, TokenizerSettings

TOKENIZER = Tokenizer.train(TokenizerSettings("word"), ["a b c d e f g"])
SIZE = 7
TOKENS, LENGTHS = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 0, 0, 0], [0, 0, 0, 0, 0]]), torch.tensor([5, 2, 0])


def embedding() -> ElmoEmbedding:
    config = ElmoConfig(characters=SIZE, character_width=2, filters=((2, 3),), projection=5, cell=11, dropout=0.5)
    return ElmoEmbedding(Elmo(TOKENIZER.size, config), spell_vocabulary(TOKENIZER, SIZE))


def test_the_mix():
    """gamma sum_j softmax(w)_j h_j."""
    layers, mix = torch.randn(3, 2, 5, dtype=torch.float64), ScalarMix(3).double()
    torch.testing.assert_close(mix(layers), layers.mean(0))
    weights = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    mix.load_state_dict({"weights": weights, "gamma": torch.tensor(0.7, dtype=torch.float64)})
    shares = weights.exp() / weights.exp().sum()
    wanted = 0.7 * sum(share * layer for share, layer in zip(shares, layers, strict=True))
    torch.testing.assert_close(mix(layers), wanted, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_padding_and_the_rest_of_the_batch_change_nothing():
    one = embedding().double().eval()
    together = one(TOKENS)
    assert together.shape == (3, 5, one.width) == (3, 5, 10)
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(together[row : row + 1, :length], one(TOKENS[row : row + 1, :length]))
        assert not together[row, length:].any()


def test_gradients_reach_the_mix_alone():
    one = embedding().train()
    assert torch.equal(one(TOKENS), one(TOKENS))  # the language models have no dropout, though the model trains
    (one(TOKENS) ** 2).sum().backward()
    found = {name for name, parameter in one.named_parameters() if parameter.grad is not None}
    assert found == {"mix.weights", "mix.gamma"}
    assert one.mix.weights.grad is not None
    assert one.mix.weights.grad.abs().min() > 0


def recurrent(one: ElmoEmbedding) -> Encoder:
    return RecurrentEncoder(one, SequenceReader("gru", one.width, 3))


def transformer(one: ElmoEmbedding) -> Encoder:
    layer = EncoderLayer(MultiHead(one.width, 2), FeedForward(one.width, 7), (PreNorm(one.width), PreNorm(one.width)))
    return TransformerEncoder(one, Sinusoidal(), [layer], nn.LayerNorm(one.width), 0.0)


@pytest.mark.parametrize("make", [recurrent, transformer])
def test_an_encoder_takes_it_and_its_mix_learns(make):
    """To tell whether a stands first or second."""
    one = embedding()
    encoder = make(one)
    readout = nn.Linear(encoder.summary_width, 2)
    kept = {name: tensor.clone() for name, tensor in one.elmo.state_dict().items()}
    learned = [parameter for parameter in (*encoder.parameters(), *readout.parameters()) if parameter.requires_grad]
    optimizer = torch.optim.Adam(learned, 0.01)
    tokens = torch.tensor([[4, 5], [5, 4], [4, 6], [6, 4], [4, 7], [7, 4]])
    answers = torch.tensor([0, 1] * 3)
    losses = []
    for _ in range(100):
        summary = encoder(tokens, torch.full((6,), 2)).summary
        loss = nn.functional.cross_entropy(readout(summary), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 < losses[0]
    assert one.mix.weights.softmax(0).max() > 0.35
    assert all(torch.equal(tensor, kept[name]) for name, tensor in one.elmo.state_dict().items())


def test_words_beyond_the_vocabulary_by_their_characters():
    one = embedding()
    characters = spell_vocabulary(TOKENIZER, SIZE)[TOKENS]
    assert torch.equal(one.read(characters, LENGTHS), one(TOKENS))
    changed = characters.clone()
    changed[0, 0, 1] = 100
    assert not torch.equal(one.read(changed, LENGTHS)[0], one(TOKENS)[0])


@torch.no_grad()
def test_marks_are_added_and_left_out():
    """A word alone is read between the marks of a text."""
    one = embedding()
    spelled = spell_vocabulary(TOKENIZER, SIZE)
    whole = one.elmo(spelled[torch.tensor([[2, 4, 5, 3]])], torch.tensor([4]))
    found = word_states(one.elmo, spelled[torch.tensor([[4, 5]])], torch.tensor([2]))
    torch.testing.assert_close(found, whole[:, :, 1:-1])

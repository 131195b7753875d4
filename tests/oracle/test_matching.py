"""The encoder that compares words of one text, in NumPy float64 with loops, one word at a time."""

import numpy as np
import torch
from torch import nn

from regard.attention.record import record
from regard.nn.embeddings import TokenEmbedding
from regard.nn.encoders import MatchingEncoder
from tests.oracle import reference
from tests.oracle.reference import Array, Parameters

TEXTS = [[5, 7, 6, 5], [8, 4, 9], [6]]


def drawn() -> MatchingEncoder:
    torch.manual_seed(3)
    encoder = MatchingEncoder(TokenEmbedding(11, 3), 2).double().eval()
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.7)
    return encoder


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = nn.utils.rnn.pad_sequence([torch.tensor(each) for each in TEXTS], batch_first=True)
    return tokens, torch.tensor([len(each) for each in TEXTS])


def states_of(p: Parameters, text: list[int]) -> list[Array]:
    words = [p["embedding.table.weight"][token] * 3**0.5 for token in text]
    keys = [np.maximum(0, p["alike.0.weight"] @ word + p["alike.0.bias"]) for word in words]
    rows = []
    for place, word in enumerate(words):
        others = [other for other in range(len(words)) if other != place]
        chosen = np.array([keys[other] for other in others]), np.array([words[other] for other in others])
        matched = reference.lookup(reference.dot, keys[place], *chosen)[0] if others else 0 * word
        rows.append(np.concatenate([word, matched]))
    return reference.both_ways(p, "reader", rows)


def test_states_are_those_of_loops():
    encoder = drawn()
    memory, p = encoder(*batch()), reference.parameters(encoder)
    for row, text in enumerate(TEXTS):
        found = memory.value[row, : len(text)].detach().numpy()
        np.testing.assert_allclose(found, np.array(states_of(p, text)), rtol=1e-10, atol=1e-12)
    assert memory.summary is not None
    ahead, back = memory.value[0, 3, :2], memory.value[0, 0, 2:]
    torch.testing.assert_close(memory.summary[0], torch.cat([ahead, back]))


def test_a_rare_word_finds_itself():
    """With one map for queries and keys a word is more like itself than like others."""
    encoder = MatchingEncoder(TokenEmbedding(11, 16), 2).eval()
    with record(encoder) as maps:
        encoder(torch.tensor([[5, 7, 6, 4, 8, 5]]), torch.tensor([6]))
    weights = maps["attend"][0]
    assert weights[0].argmax() == 5
    assert weights[5].argmax() == 0
    assert not weights.diagonal().any()


def test_gradients():
    encoder = drawn()
    tokens, lengths = batch()
    table = encoder.embedding
    assert isinstance(table, TokenEmbedding)

    def read(weight: torch.Tensor) -> torch.Tensor:
        memory = torch.func.functional_call(encoder, {"embedding.table.weight": weight}, (tokens, lengths))
        return memory.value

    assert torch.autograd.gradcheck(read, table.table.weight.detach().clone().requires_grad_())

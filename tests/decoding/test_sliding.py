"""A decoder that slides gives each token at least half a context, however the tokens come."""

import pytest
import torch

from regard.attention.memory import Memory
from regard.models.catalog import build_language_model
from regard.models.gpt2 import GPT2Config
from regard.nn.decoders import Sliding


def model(context: int):
    torch.manual_seed(3)
    return build_language_model(GPT2Config(layers=2, width=6, heads=3, context=context), 11).double().eval()


def nothing(batch: int) -> Memory:
    empty = torch.zeros(batch, 0, 1, dtype=torch.float64)
    return Memory(empty, empty)


@torch.no_grad()
@pytest.mark.parametrize("context", [1, 2, 5, 8])
def test_steps_read_what_still_fits(context: int):
    one = model(context)
    sliding = Sliding(one, context).eval()
    tokens = torch.randint(4, 11, (3, 23), generator=torch.Generator().manual_seed(2))
    state = sliding.start(nothing(3))
    first = 0  # of what is in the context
    for place in range(tokens.shape[1]):
        features, state = sliding.advance(tokens[:, place], state)
        if place + 1 - first > context:
            first = place - context // 2
        expected, _ = one.run(tokens[:, first : place + 1], one.begin(3))
        torch.testing.assert_close(features, expected[:, -1], rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_short_texts_are_read_as_without_it():
    one = model(8)
    sliding = Sliding(one, 8).eval()
    tokens = torch.randint(4, 11, (2, 8), generator=torch.Generator().manual_seed(2))
    features, _ = sliding.run(tokens, sliding.start(nothing(2)))
    torch.testing.assert_close(features, one.run(tokens, one.begin(2))[0], rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_a_text_in_one_pass_is_given_half_a_context():
    one = model(8)
    sliding = Sliding(one, 8).eval()
    tokens = torch.randint(4, 11, (2, 30), generator=torch.Generator().manual_seed(2))
    features, _ = sliding.run(tokens, sliding.start(nothing(2)))
    assert features.shape == (2, 30, 6)
    for place in range(8, 30):
        changed = tokens.clone()
        changed[:, place - 4] = 4 + (tokens[:, place - 4] - 3) % 7  # another token, within half a context
        other, _ = sliding.run(changed, sliding.start(nothing(2)))
        assert not torch.equal(other[:, place], features[:, place])

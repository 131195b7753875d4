"""`training.recompute`: activations computed again in the backward pass."""

import pytest
import torch

from regard.training.layers import recompute_layers
from tests.training.sharded import LENGTH, ROWS, WORDS, Next, models
from tests.training.toy import ToyBatch


@pytest.mark.parametrize("kind", [*models()])
def test_gradients_are_those_of_kept_activations(kind: str):
    """Equal bit for bit, because the same operations are repeated."""
    words = torch.randint(4, WORDS, (ROWS, LENGTH), generator=torch.Generator().manual_seed(5))
    batch, found = ToyBatch(words, words), []
    for again in (False, True):
        model = models()[kind]
        if again:
            with recompute_layers(model):
                Next().loss(model, batch, 1, None).total.backward()
        else:
            Next().loss(model, batch, 1, None).total.backward()
        found.append([each.grad for each in model.parameters()])
    kept, recomputed = found
    assert any(each.abs().max() > 0 for each in kept)
    assert all(torch.equal(one, other) for one, other in zip(kept, recomputed, strict=True))

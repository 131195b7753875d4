"""Gradient x input against finite differences: how much an output changes when one input's vector is scaled."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.attribution.cross_attention import compute_input_gradient
from regard.attribution.gradients import compute_contributions, find_embeddings, select_log_probabilities
from regard.data.batches import collate
from regard.errors import InputError
from regard.text.special import END
from tests.attribution.outputs import attribute_outputs
from tests.laws import cases

WRITTEN = [([5, 7, 4], [6, 4, 9, END]), ([], [7, END]), ([10, 9, 8, 7, 6], [12, 5])]
"""The last one was not finished."""
STEP = 1e-5
KINDS = ["bahdanau-location-aware", "luong-local-p", "one-pass", "pointer", "bottleneck", "transformer"]
"""The last one's two sides share an embedding, which is differentiated on one side alone."""


@contextmanager
def scaled(modules: list[nn.Module], call: int, place: tuple[int, ...], factor: float) -> Iterator[None]:
    """While the block runs, what a call of the modules gives for one position is multiplied."""
    count = 0

    def change(module: nn.Module, arguments: tuple, output: Tensor) -> Tensor:
        nonlocal count
        count += 1
        if count - 1 != call:
            return output
        factors = torch.ones(output.shape[:-1], dtype=output.dtype)
        factors[place] = factor
        return output * factors[..., None]

    hooks = [module.register_forward_hook(change) for module in modules]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def difference(modules: list[nn.Module], call: int, place: tuple[int, ...], scores: Callable[[], Tensor]) -> np.ndarray:
    """d score / d log(scale) of what one position is given: gradient x input, without a gradient."""
    found = []
    for factor in (1 + STEP, 1 - STEP):
        with scaled(modules, call, place, factor):
            found.append(scores())
    return ((found[0] - found[1]) / (2 * STEP)).numpy()


@pytest.mark.parametrize("name", KINDS)
def test_encoder_decoders_against_finite_differences(name: str):
    model = cases.MODELS[name]().double().eval()
    for source, written in WRITTEN:
        batch = collate([(source, written[:-1])])

        def scores(batch=batch, written=written) -> Tensor:
            logits = model(batch.source, batch.source_lengths, batch.target_in)
            return select_log_probabilities(logits[0], written)

        found = compute_input_gradient(model, source, written).numpy()
        assert found.shape == (len(written), len(source) + 1)
        wanted = [difference(find_embeddings(model.encoder), 0, (0, place), scores) for place in range(len(source) + 1)]
        np.testing.assert_allclose(found, np.stack(wanted, 1), rtol=1e-5, atol=1e-9)
        assert np.abs(found).max() > 1e-7  # so that this can fail


def test_shares_are_of_absolute_values():
    model = cases.MODELS["bottleneck"]().double().eval()
    (found,) = attribute_outputs(model, WRITTEN[:1], "gradient")
    amounts = compute_input_gradient(model, *WRITTEN[0]).abs().numpy()
    np.testing.assert_allclose(found, amounts / amounts.sum(-1, keepdims=True), rtol=1e-12)


def test_of_a_linear_score_all_is_accounted_for():
    """Completeness: amounts add up to the score less that of inputs that are zero."""
    torch.manual_seed(5)
    table, weights = nn.Embedding(11, 5).double(), torch.randn(3, 7, 5, dtype=torch.float64)
    tokens, offset = torch.randint(11, (1, 7)), torch.randn(3, dtype=torch.float64)
    (found,) = compute_contributions([table], lambda: torch.einsum("tsd,sd->t", weights, table(tokens)[0]) + offset)
    score = torch.einsum("tsd,sd->t", weights, table(tokens)[0])
    assert found.embedded is tokens
    torch.testing.assert_close(found.amounts[:, 0].sum(-1), score, rtol=1e-12, atol=1e-12)
    by_hand = (weights * table(tokens)).sum(-1)
    torch.testing.assert_close(found.amounts[:, 0], by_hand.detach(), rtol=1e-12, atol=1e-12)


def test_nothing_of_the_model_changes():
    model = cases.MODELS["transformer"]().double().eval()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with torch.no_grad():
        first = compute_input_gradient(model, *WRITTEN[0])
    assert torch.equal(compute_input_gradient(model, *WRITTEN[0]), first)
    assert not first.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
    assert not any(module._forward_hooks for module in model.modules())


def test_an_input_that_a_score_does_not_see_owes_nothing():
    table = nn.Embedding(11, 5).double()
    seen, unseen = torch.tensor([[3, 4]]), torch.tensor([[5]])

    def scores() -> Tensor:
        table(unseen)
        return table(seen).sum((0, 2))[:1]

    first, second = compute_contributions([table], scores)
    assert first.amounts.tolist() == [[[0.0]]]
    assert second.amounts[0, 0, 1] == 0.0
    assert second.amounts[0, 0, 0] != 0.0


def test_no_map_is_chosen():
    model = cases.MODELS["transformer"]()
    with pytest.raises(InputError, match="a gradient is of the whole model; choose no map"):
        attribute_outputs(model, WRITTEN, "gradient", [0])

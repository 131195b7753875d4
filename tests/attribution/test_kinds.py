"""Gradients against finite differences, norms against NumPy in float64, and rollouts, of outputs without labels."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.heads import MultiHead, self_attention
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import Additive
from regard.attribution.attention import (
    ValueNorms,
    attribute_by_weights,
    attribute_cross_attention,
    compute_input_gradient,
    record_source_attention,
)
from regard.attribution.gradients import compute_contributions, find_embeddings, select_log_probabilities
from regard.attribution.kinds import GRADIENTS, Kind
from regard.data.batches import collate
from regard.errors import InputError
from regard.maps.alignment import Side
from regard.models.show_attend_and_tell import Gate
from regard.nn.decoders import EncoderDecoder
from regard.text.kinds import END
from tests.laws import cases


def attribute_outputs(
    model: EncoderDecoder, outputs: Sequence[tuple[list[int], list[int]]], kind: Kind, maps: list[int] | None = None
) -> list[np.ndarray]:
    """The one map of each output."""
    found = []
    for source, target in outputs:
        sides = Side.of(["s"] * (len(source) + 1)), Side.of(["t"] * len(target))
        _, attention = attribute_cross_attention(model, (source, target), sides, kind, maps)
        found.append(attention.weights)
    return found


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


@pytest.mark.parametrize(
    ("name", "most"), [("bahdanau", 100), pytest.param("transformer", 300, marks=pytest.mark.slow)]
)
def test_integrated_gradients_add_up(name: str, most: int):
    """Their sum is what the source adds to each log-probability, and fewer steps come near."""
    model = cases.MODELS[name]().double().eval()
    source, written = WRITTEN[0]
    batch = collate([(source, written[:-1])])

    def drop(_: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        return torch.zeros_like(output) if inputs[0] is batch.source else output

    empty = [table.register_forward_hook(drop) for table in find_embeddings(model.encoder)]
    scores = []
    with torch.no_grad():
        for hooks in (empty, []):
            logits = model(batch.source, batch.source_lengths, batch.target_in)
            scores.append(select_log_probabilities(logits[0], written))
            for hook in hooks:
                hook.remove()
    gain = scores[1] - scores[0]
    assert gain.abs().max() > 1e-3
    for steps, error in ((GRADIENTS["integrated"], 1e-2), (most, 1e-3)):
        found = compute_input_gradient(model, source, written, steps).sum(-1)
        torch.testing.assert_close(found, gain, rtol=0, atol=error)


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
    with pytest.raises(InputError, match="a gradient is of the whole model, not of a layer or head"):
        attribute_outputs(model, WRITTEN, "gradient", [0])


HEADS = {
    "plain": lambda: MultiHead(6, 3),
    "grouped": lambda: MultiHead(8, 4, key_value_heads=2),
    "shared": lambda: MultiHead(6, 2, shared_key_value=True),
    "wide": lambda: MultiHead(6, 3, head_width=5),
}


M = TypeVar("M", bound=nn.Module)


def drawn(module: M) -> M:
    """With offsets too, which start at zero."""
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module.double().eval()


def by_hand(heads: MultiHead, states: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """a f(v) of each head, `(head, query, key, width)`, equation by equation."""
    value, output = heads.value, heads.output
    every = states @ value.weight.detach().numpy().T + value.bias.detach().numpy()
    width = output.weight.shape[1] // heads.heads
    shared = heads.heads // heads.key_value_heads
    found = []
    for head in range(heads.heads):
        own = every[:, (head // shared) * width :][:, :width]
        written = own @ output.weight.detach().numpy()[:, head * width :][:, :width].T
        found.append(weights[head][:, :, None] * written[None])
    return np.stack(found)


@pytest.mark.parametrize("name", HEADS)
def test_of_heads(name: str):
    heads = drawn(HEADS[name]())
    states = torch.randn(1, 5, heads.query.in_features, dtype=torch.float64)
    model = nn.ModuleDict({"read": heads})
    with torch.no_grad(), record(model) as plain:
        read = self_attention(heads, states)
    with torch.no_grad(), record(model, measure=ValueNorms(model)) as found:
        self_attention(heads, states)
    vectors = by_hand(heads, states[0].numpy(), plain["read"][0].numpy())
    np.testing.assert_allclose(found["read"][0].numpy(), np.linalg.norm(vectors, axis=-1), rtol=1e-12)
    total = vectors.sum((0, 2)) + heads.output.bias.detach().numpy()
    np.testing.assert_allclose(total, read[0].numpy(), rtol=1e-10)  # what is measured is all that is written


def test_of_one_lookup():
    attend = drawn(Attend(Additive(5, 3, 7)))
    query, key, value = (torch.randn(2, size, width, dtype=torch.float64) for size, width in ((3, 5), (7, 3), (7, 11)))
    model = nn.ModuleDict({"attend": attend})
    with record(model) as plain:
        attend(query, Memory(key, value))
    with record(model, measure=ValueNorms(model)) as found:
        attend(query, Memory(key, value))
    wanted = plain["attend"].numpy()[..., None] * value.numpy()[:, None]
    np.testing.assert_allclose(found["attend"].numpy(), np.linalg.norm(wanted, axis=-1), rtol=1e-12)


def test_chosen_heads_and_rows_are_those_of_the_norms():
    model = drawn(cases.MODELS["transformer"]())
    batch = cases.sentences()
    inputs = batch.tokens, batch.lengths, batch.target
    measure = ValueNorms(model)
    with record(model, measure=measure) as every:
        model(*inputs)
    with record(model, heads=[2, 0], rows=[1, 3], measure=measure) as some:
        model(*inputs)
    for name in every:
        assert torch.equal(some[name], every[name][:, [2, 0]][..., [1, 3], :])


@pytest.mark.parametrize("name", ["bahdanau-coverage", "luong-general", "one-pass-local-m", "pointer", "transformer"])
def test_of_outputs_rows_are_shares_of_the_mean(name: str):
    model = drawn(cases.MODELS[name]())
    (found,) = attribute_outputs(model, [([5, 7, 4], [6, 4])], "norms")
    (raw,) = record_source_attention(model, [([5, 7, 4], [6])], ValueNorms(model))
    mean = raw.numpy().mean(0)
    np.testing.assert_allclose(found, mean / mean.sum(-1, keepdims=True), rtol=1e-12)
    (weights,) = record_source_attention(model, [([5, 7, 4], [6])])
    assert np.abs(found - weights.numpy().mean(0)).max() > 1e-3


def test_weights_without_values_are_refused():
    model = nn.ModuleDict({"gate": Gate(3)})
    with (
        pytest.raises(ValueError, match="'gate' reports weights without values; leave measure out"),
        record(model, measure=ValueNorms(model)),
    ):
        model["gate"](torch.zeros(2, 3))


def test_of_an_encoder_decoder():
    model = cases.MODELS["transformer-after"]().double().eval()
    results = attribute_by_weights(model, WRITTEN), attribute_outputs(model, WRITTEN, "rollout")
    for (source, written), cross, found in zip(WRITTEN, *results, strict=True):
        tokens = torch.tensor([[*source, 3]])
        with torch.no_grad(), record(model.encoder) as maps:
            model.encoder(tokens, torch.tensor([len(source) + 1]))
        one, two = (maps[f"layers.{layer}.self_attention"][0].mean(0).numpy() for layer in (0, 1))
        identity = np.eye(len(source) + 1)
        wanted = cross @ ((0.5 * two + 0.5 * identity) @ (0.5 * one + 0.5 * identity))
        assert found.shape == (len(written), len(source) + 1)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-12)


def test_of_some_maps_of_the_cross_attention():
    model = cases.MODELS["transformer"]().double().eval()
    (all_of_them,), (one,) = (attribute_outputs(model, WRITTEN[:1], "rollout", maps) for maps in (None, [5]))
    assert np.abs(all_of_them - one).max() > 1e-6
    with pytest.raises(InputError, match="map 6 is not there"):
        attribute_outputs(model, WRITTEN[:1], "rollout", [6])


@pytest.mark.parametrize("name", ["bahdanau", "one-pass", "pointer"])
def test_an_encoder_that_is_recurrent_has_none(name: str):
    with pytest.raises(InputError, match="which this run's model lacks; use weights, norms or gradient"):
        attribute_outputs(cases.MODELS[name](), WRITTEN, "rollout")

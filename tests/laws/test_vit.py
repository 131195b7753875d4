"""Laws of a Vision Transformer, for any weights."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from einops import rearrange
from torch.nn import functional

from regard.attention.record import record
from regard.models.vit import SIZES, Patches, Vit, VitConfig
from regard.nn.embeddings import AxialRotary, LearnedGrid, SinusoidalGrid, places, sinusoids
from regard.tasks.image_classification.training import distillation

SMALL: dict[str, Any] = {"image": 6, "patch": 2, "channels": 1, "layers": 2, "width": 15, "heads": 3, "hidden": 11}
VARIANTS = {
    "first": VitConfig(**SMALL),
    "mean": VitConfig(**SMALL, pooling="mean"),
    "sinusoidal": VitConfig(**SMALL, positions="sinusoidal"),
    "distilled": VitConfig(**SMALL, distilled=True),
    "rotary": replace(VitConfig(**SMALL), width=12, positions="rotary"),
}
variants = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)


def drawn(config: VitConfig, classes: int = 7) -> Vit:
    model = Vit(classes, config).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@variants
def test_the_rest_of_the_batch_changes_nothing(config: VitConfig):
    model, pixels = drawn(config), torch.randn(5, 1, 6, 6, dtype=torch.float64)
    whole = model(pixels)
    assert whole.shape == (5, 7)
    for one, expected in zip(pixels, whole, strict=True):
        torch.testing.assert_close(model(one[None])[0], expected, rtol=1e-12, atol=1e-12)


@variants
def test_recorded_equals_unrecorded_and_rows_sum_to_one(config: VitConfig):
    model, pixels = drawn(config), torch.randn(2, 1, 6, 6, dtype=torch.float64)
    with record(model, only=model.self_attention) as maps:
        found = model(pixels)
    torch.testing.assert_close(found, model(pixels), rtol=1e-12, atol=1e-12)
    positions = config.marks + 9
    for each in maps.values():
        assert each.shape == (2, 3, positions, positions)
        torch.testing.assert_close(each.sum(-1), torch.ones_like(each.sum(-1)), rtol=0, atol=1e-12)


def test_without_positions_the_order_of_patches_is_lost():
    model, pixels = drawn(VARIANTS["mean"]), torch.randn(2, 1, 6, 6, dtype=torch.float64)
    patches = rearrange(pixels, "b c (h p) (w q) -> b c h p w q", p=2, q=2)[:, :, [2, 0, 1]]
    moved = rearrange(patches, "b c h p w q -> b c (h p) (w q)")
    assert not torch.allclose(model(pixels), model(moved))
    torch.nn.init.zeros_(model.encoder.positions.table)  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(model(pixels), model(moved), rtol=1e-12, atol=1e-12)


def test_patches_are_a_convolution():
    patches, pixels = Patches(2, 3, 5), torch.randn(2, 3, 4, 6)
    expected = functional.conv2d(pixels, patches.weight.view(5, 3, 2, 2), patches.bias, stride=2)
    torch.testing.assert_close(patches(pixels), rearrange(expected, "b d h w -> b (h w) d"), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="expected 3 channels and sides of whole numbers of 2 pixels"):
        patches(torch.zeros(1, 3, 4, 5))


@variants
def test_loss_is_the_cross_entropy_of_the_logits(config: VitConfig):
    model, pixels = drawn(config), torch.randn(5, 1, 6, 6, dtype=torch.float64)
    classes = torch.tensor([1, 5, 0, 6, 2])
    found = distillation(model.both(pixels), classes, classes)
    if not config.distilled:
        torch.testing.assert_close(found, functional.cross_entropy(model(pixels), classes, reduction="sum"))
        return
    assert model.taught is not None
    states, told = model.encoder(pixels), torch.tensor([3, 5, 0, 1, 2])
    first = functional.cross_entropy(model.output(states[:, 0]), classes, reduction="sum")
    second = [functional.cross_entropy(model.taught(states[:, 1]), each, reduction="sum") for each in (classes, told)]
    torch.testing.assert_close(found, (first + second[0]) / 2)
    torch.testing.assert_close(distillation(model.both(pixels), classes, told), (first + second[1]) / 2)


def test_positions_of_a_grid_by_hand():
    found = SinusoidalGrid()(torch.zeros(1, 1 + 2 * 3, 7), 2, 3)[0]
    assert (found[0] == 0).all()
    for row in range(2):
        for column in range(3):
            expected = torch.cat([sinusoids(2, 3)[row], sinusoids(3, 4)[column]]).float()
            torch.testing.assert_close(found[1 + 3 * row + column], expected)


def test_rotary_positions_of_a_grid_by_hand():
    """Products of cells, by rows in the first half of the dimensions and by columns in the second, as complex
    numbers."""
    part, cells = AxialRotary(8).double(), [(row, column) for row in range(3) for column in range(5)]
    query, key = torch.randn(2, 1, 16, 8, dtype=torch.float64)
    turned = [part.rotate(each, places(1, 3, 5, each.device))[0] for each in (query, key)]
    found = turned[0] @ turned[1].mT
    frequencies = 100.0 ** -torch.tensor([0.0, 0.5], dtype=torch.float64)
    for one, (row, column) in enumerate([(0, 0), *cells]):  # the mark stands at the first cell
        for other, (down, along) in enumerate([(0, 0), *cells]):
            expected = 0.0
            for half, distance in ((slice(0, 4), row - down), (slice(4, 8), column - along)):
                a, b = (torch.complex(*each[0, at, half].view(2, 2)) for each, at in ((query, one), (key, other)))
                expected += (a * b.conj() * torch.exp(1j * distance * frequencies)).real.sum()
            torch.testing.assert_close(found[one, other], expected, rtol=1e-6, atol=1e-6)
    model, pixels = drawn(VARIANTS["rotary"]), torch.randn(1, 1, 6, 6, dtype=torch.float64)
    assert not torch.allclose(model(pixels), model(pixels.flip(-1)))
    assert model(torch.randn(2, 1, 4, 10, dtype=torch.float64)).shape == (2, 7)  # of any grid
    inputs = torch.randn(1, 3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda states: part.rotate(states, places(1, 1, 2, states.device)), inputs)


def test_a_width_that_rows_and_columns_cannot_turn():
    with pytest.raises(ValueError, match=r"a head is 5 wide; .* choose a multiple of 4"):
        VitConfig(**SMALL, positions="rotary")


def test_learned_positions_of_a_flat_grid_stay_flat():
    grid = LearnedGrid(2, 3, 5)
    grid.table.data[2:] = torch.arange(5.0)
    found = grid.encoding(7, 11)
    assert found.shape == (2 + 77, 5)
    torch.testing.assert_close(found[:2], grid.table[:2])
    torch.testing.assert_close(found[2:], torch.arange(5.0).expand(77, -1))


@pytest.mark.parametrize(
    ("name", "millions"),
    [("tiny-16", 5.7), ("small-16", 22.1), ("base-16", 86.6), ("base-32", 88.2), ("large-16", 304.3)],
)
def test_released_sizes(name: str, millions: float):
    with torch.device("meta"):
        model = Vit(1000, SIZES[name])
    assert sum(each.numel() for each in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.06)

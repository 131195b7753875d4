"""Laws of a Vision Transformer, for any weights."""

from typing import Any

import pytest
import torch
from einops import rearrange
from torch.nn import functional

from regard.attention.record import record
from regard.data.images import ImageFolders, LabelledImage
from regard.data.splits import Splits
from regard.models.vit import Vit, VitConfig
from regard.nn.layers import LearnedGrid
from regard.tasks.image_classification import ImageBatch, ImageClassification, ImageClassificationObjective

SMALL: dict[str, Any] = {"image": 6, "patch": 2, "channels": 1, "layers": 2, "width": 15, "heads": 3, "hidden": 11}
VARIANTS = {
    "first": VitConfig(**SMALL),
    "mean": VitConfig(**SMALL, pooling="mean"),
    "convolutional": VitConfig(**SMALL, stem="convolutional"),
}
variants = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)


def drawn(config: VitConfig, classes: int = 7) -> Vit:
    model = Vit(classes, config).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@variants
def test_neither_the_rest_of_the_batch_nor_recording_changes_anything(config: VitConfig):
    model, pixels = drawn(config), torch.randn(5, 1, 6, 6, dtype=torch.float64)
    whole = model(pixels)
    assert whole.shape == (5, 7)
    for one, expected in zip(pixels, whole, strict=True):
        torch.testing.assert_close(model(one[None])[0], expected, rtol=1e-12, atol=1e-12)
    with record(model, only=model.self_attention) as maps:
        found = model(pixels)
    torch.testing.assert_close(found, whole, rtol=1e-12, atol=1e-12)
    positions = config.marks + 9
    for each in maps.values():
        assert each.shape == (5, 3, positions, positions)
        torch.testing.assert_close(each.sum(-1), torch.ones_like(each.sum(-1)), rtol=0, atol=1e-12)


def test_without_positions_the_order_of_patches_is_lost():
    model, pixels = drawn(VARIANTS["mean"]), torch.randn(2, 1, 6, 6, dtype=torch.float64)
    patches = rearrange(pixels, "b c (h p) (w q) -> b c h p w q", p=2, q=2)[:, :, [2, 0, 1]]
    moved = rearrange(patches, "b c h p w q -> b c (h p) (w q)")
    assert not torch.allclose(model(pixels), model(moved))
    torch.nn.init.zeros_(model.encoder.positions.table)  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(model(pixels), model(moved), rtol=1e-12, atol=1e-12)


def test_images_that_do_not_fit():
    with pytest.raises(ValueError, match="expected 1 channels and sides of whole numbers of 2 pixels"):
        drawn(VARIANTS["mean"])(torch.zeros(1, 1, 4, 5))


@variants
def test_loss_is_the_cross_entropy_of_the_logits(config: VitConfig):
    model, pixels = drawn(config), torch.randn(5, 1, 6, 6, dtype=torch.float64)
    classes = torch.tensor([1, 5, 0, 6, 2])
    run_file = ImageClassification(data=ImageFolders(train="none"), model=config)
    objective = ImageClassificationObjective(Splits([LabelledImage(b"", "a", "x")], [], []), run_file, ["a"])
    found = objective.loss(model, ImageBatch(pixels, classes), 1).total
    torch.testing.assert_close(found, functional.cross_entropy(model(pixels), classes, reduction="sum"))


def test_learned_positions_of_a_flat_grid_stay_flat():
    grid = LearnedGrid(2, 3, 5)
    grid.table.data[2:] = torch.arange(5.0)
    found = grid.encoding(7, 11)
    assert found.shape == (2 + 77, 5)
    torch.testing.assert_close(found[:2], grid.table[:2])
    torch.testing.assert_close(found[2:], torch.arange(5.0).expand(77, -1))


@pytest.mark.parametrize(
    ("width", "layers", "patch", "millions"), [(192, 12, 16, 5.7), (768, 12, 32, 88.2), (1024, 24, 16, 304.3)]
)
def test_released_sizes(width: int, layers: int, patch: int, millions: float):
    config = VitConfig(layers=layers, width=width, heads=width // 64, hidden=4 * width, patch=patch)
    with torch.device("meta"):
        model = Vit(1000, config)
    assert sum(each.numel() for each in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.06)

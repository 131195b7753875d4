"""Vision Transformers, equations 1 to 4 of Dosovitskiy 2021; the cells that captioners read, and the Transformer over
them."""

from math import erf
from typing import Any

import numpy as np
import pytest
import torch

from regard.models.captioner import GridTransformer, GridTransformerConfig
from regard.models.vit import Vit, VitConfig
from regard.nn.encoders import GridEncoder
from tests.oracle import reference
from tests.oracle.reference import Array, Parameters

SMALL: dict[str, Any] = {"image": 6, "patch": 2, "channels": 3, "layers": 2, "width": 10, "heads": 2, "hidden": 7}
VARIANTS = {
    "first": VitConfig(**SMALL),
    "mean": VitConfig(**SMALL, pooling="mean"),
    "epsilon": VitConfig(**SMALL, epsilon=0.1),
    "convolutional": VitConfig(**{**SMALL, "image": 12, "patch": 4}, stem="convolutional"),
}


def layer_norm(p: Parameters, name: str, x: Array, epsilon: float) -> Array:
    apart = x - sum(x) / len(x)
    return p[f"{name}.weight"] * apart / np.sqrt(sum(apart**2) / len(x) + epsilon) + p[f"{name}.bias"]


def gelu(x: Array) -> Array:
    """x times how likely a standard normal number is below it."""
    return np.array([each * (1 + erf(each / np.sqrt(2))) / 2 for each in x])


def sinusoid(position: int, width: int) -> Array:
    """Vaswani 2017, section 3.5."""
    angles = [position / 10_000 ** (2 * (k // 2) / width) for k in range(width)]
    return np.array([np.cos(angle) if k % 2 else np.sin(angle) for k, angle in enumerate(angles)])


def encoder_layer(p: Parameters, name: str, config: VitConfig, z: Array) -> Array:
    """z' = MSA(LN(z)) + z, MLP(LN(z')) + z' (equations 2 and 3)."""
    normed = np.array([layer_norm(p, f"{name}.residuals.0.norm", each, config.epsilon) for each in z])
    z = z + [reference.multi_head(p, f"{name}.self_attention", config.heads, each, normed) for each in normed]
    after = []
    for each in z:
        inner = layer_norm(p, f"{name}.residuals.1.norm", each, config.epsilon)
        hidden = gelu(reference.linear(p, f"{name}.feedforward.0", inner))
        after.append(each + reference.linear(p, f"{name}.feedforward.2", hidden))
    return np.array(after)


def grid_position(p: Parameters, config: VitConfig, row: int, column: int) -> Array:
    if config.positions == "learned":
        return p["encoder.positions.table"][config.marks + row * config.side + column]
    return np.concatenate([sinusoid(row, config.width // 2), sinusoid(column, config.width - config.width // 2)])


def embedded(p: Parameters, config: VitConfig, pixels: Array) -> Array:
    """z_0 = [x_class; x_1 E; x_2 E; ...] + E_pos (equation 1), patches row by row."""
    cells = convolved(p, pixels) if config.stem == "convolutional" else None
    z = list(p["encoder.marks"]) if config.marks else []
    if config.marks and config.positions == "learned":
        z = [mark + place for mark, place in zip(z, p["encoder.positions.table"], strict=False)]
    for row in range(config.side):
        for column in range(config.side):
            seen = patch_of(p, config, pixels, row, column) if cells is None else cells[:, row, column]
            z.append(seen + grid_position(p, config, row, column))
    return np.array(z)


def patch_of(p: Parameters, config: VitConfig, pixels: Array, row: int, column: int) -> Array:
    top, left = row * config.patch, column * config.patch
    square = [
        pixels[channel, top + y, left + x]
        for channel in range(config.channels)
        for y in range(config.patch)
        for x in range(config.patch)
    ]
    return reference.linear(p, "encoder.patches", np.array(square))


def convolved(p: Parameters, pixels: Array) -> Array:
    """Two stages of convolutions, and a linear map of each cell."""
    cells = stage(p, "encoder.patches.stages.1", stage(p, "encoder.patches.stages.0", pixels))
    return np.apply_along_axis(lambda cell: reference.linear(p, "encoder.patches.output", cell), 0, cells)


@pytest.mark.parametrize("name", VARIANTS)
def test_vit(name: str):
    """The whole model, to the class: of [CLS] or of the mean over patches."""
    config = VARIANTS[name]
    model, images = reference.drawn(Vit(5, config)), torch.randn(2, 3, config.image, config.image).double()
    p = reference.parameters(model)
    for image, found in zip(images.numpy(), model(images).detach().numpy(), strict=True):
        z = embedded(p, config, image)
        for layer in range(config.layers):
            z = encoder_layer(p, f"encoder.layers.{layer}", config, z)
        y = np.array([layer_norm(p, "encoder.norm", each, config.epsilon) for each in z])  # equation 4
        assert len(y) == config.marks + 9
        wanted = reference.linear(p, "output", y.mean(0) if config.pooling == "mean" else y[0])
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def stage(p: Parameters, name: str, cells: Array) -> Array:
    """A convolution of 3 x 3 over every other cell `(channel, row, column)`, zeros around; a norm and what is positive
    of each; then the same of each cell alone."""
    size, kernel = (cells.shape[1] + 1) // 2, p[f"{name}.0.weight"]
    found = np.zeros((len(kernel), size, size))
    for row in range(size):
        for column in range(size):
            total = np.zeros(len(kernel))
            for y in range(3):
                for x in range(3):
                    at = 2 * row + y - 1, 2 * column + x - 1
                    if min(at) >= 0 and max(at) < cells.shape[1]:
                        total += kernel[:, :, y, x] @ cells[:, at[0], at[1]]
            inner = np.maximum(layer_norm(p, f"{name}.1", total, 1e-5), 0)
            alone = p[f"{name}.3.weight"][:, :, 0, 0] @ inner
            found[:, row, column] = np.maximum(layer_norm(p, f"{name}.4", alone, 1e-5), 0)
    return found


def test_a_grid_of_cells():
    """Both stages, the cells row by row, each with the vector of its place; their mean is the summary."""
    encoder, images = reference.drawn(GridEncoder(2, (3, 5), 3)), torch.randn(2, 2, 11, 11).double()
    p = reference.parameters(encoder)
    memory = encoder(images)
    assert memory.summary is not None
    for row, image in enumerate(images.numpy()):
        cells = stage(p, "stages.1", stage(p, "stages.0", image))
        wanted = cells.reshape(5, 9).T + p["positions.table"]
        np.testing.assert_allclose(memory.value[row].detach(), wanted, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(memory.key[row].detach(), wanted, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(memory.summary[row].detach(), sum(wanted) / 9, rtol=1e-12, atol=1e-12)


def decoder_layer(p: Parameters, name: str, heads: int, x: Array, cells: Array) -> Array:
    """Words so far, then the image, then each by itself; a norm before each of the three (Xiong 2020)."""

    def normed(part: int) -> Array:
        return np.array([layer_norm(p, f"{name}.residuals.{part}.norm", each, 1e-5) for each in x])

    own = normed(0)
    x = x + [
        reference.multi_head(p, f"{name}.self_attention", heads, each, own[: at + 1]) for at, each in enumerate(own)
    ]
    x = x + [reference.multi_head(p, f"{name}.cross_attention", heads, each, cells) for each in normed(1)]
    hidden = [np.maximum(reference.linear(p, f"{name}.feedforward.0", each), 0) for each in normed(2)]
    return x + [reference.linear(p, f"{name}.feedforward.2", each) for each in hidden]


def test_grid_transformer():
    """Words with sinusoids over the cells; the output's weight is the embedding's table."""
    config = GridTransformerConfig(image=11, channels=1, stages=(2, 5), layers=2, width=6, hidden=7, heads=3)
    model = reference.drawn(GridTransformer(13, config))
    p = reference.parameters(model)
    image, target = torch.randn(1, 1, 11, 11).double(), [2, 8, 6, 11]
    cells = model.encoder(image).value[0].detach().numpy()
    x = np.array([reference.embed(p, "decoder", token) + sinusoid(at, 6) for at, token in enumerate(target)])
    for layer in range(config.layers):
        x = decoder_layer(p, f"decoder.layers.{layer}", config.heads, x, cells)
    for step, found in enumerate(model(image, torch.tensor([target]))[0].detach().numpy()):
        last = layer_norm(p, "decoder.norm", x[step], 1e-5)
        wanted = p["decoder.embedding.table.weight"] @ last + p["decoder.output.bias"]
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)

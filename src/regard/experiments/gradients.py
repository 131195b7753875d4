"""Attention as a shortcut for gradients: the gradient at distant source positions, with and without it."""

from typing import Any

import torch
from torch import Tensor

from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.models.bottleneck import BottleneckConfig
from regard.models.catalog import build
from regard.models.luong import LuongConfig
from regard.nn.encoder_decoder import EncoderDecoder
from regard.pictures.chart import Chart
from regard.text.special import SPECIAL

WORDS = 50
CLAIM = (
    "Without attention, the gradient of a loss at a source position passes through every recurrent step between them "
    "and shrinks with the distance. Attention connects each output step directly to each position, so that all "
    "positions learn."
)


def gradients(setting: Setting) -> Finding:
    """The gradient norm of the first output token's loss at each source embedding, by distance from the source's end,
    in untrained models. Norms are means over models and sentences."""
    length, seeds = (200, 10) if setting.full else (50, 5)
    lines = {
        name: by_distance(config, length, seeds) for name, config in CONFIGS.items()
    }
    places = sorted({round(length * share / 10) for share in range(10)})
    rows = [
        (place, *(float(norms[place]) for norms in lines.values())) for place in places
    ]
    points = {
        name: [(float(place), float(norms[place])) for place in range(length)]
        for name, norms in lines.items()
    }
    chart = Chart(
        "gradient at a source position",
        "steps before the end",
        "norm",
        points,
        ("linear", "log"),
    )
    return Finding(CLAIM, ("steps before the end", *lines), rows, [chart])


CONFIGS: dict[str, Any] = {
    "tanh, no attention": BottleneckConfig(cell="tanh", embedding=64, width=64),
    "GRU, no attention": BottleneckConfig(cell="gru", embedding=64, width=64),
    "tanh, attention": LuongConfig(
        cell="tanh", embedding=64, width=64, layers=1, score="scaled-dot", dropout=0.0
    ),
    "GRU, attention": LuongConfig(
        cell="gru", embedding=64, width=64, layers=1, score="scaled-dot", dropout=0.0
    ),
}


def by_distance(config: Any, length: int, seeds: int) -> Tensor:
    """The norms `(distance,)`, the last source position first."""
    found = []
    for seed in range(seeds):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            found.append(norms(build(config, WORDS, WORDS), length))
    return torch.stack(found).mean(0).flip(0)


def norms(model: EncoderDecoder, length: int, batch: int = 16) -> Tensor:
    """The gradient norm `(position,)` of the first target token's loss at each source embedding."""
    embedded: list[Tensor] = []

    def keep(module: Any, inputs: Any, output: Tensor) -> None:
        output.retain_grad()
        embedded.append(output)

    source, target = (
        torch.randint(4, WORDS, (batch, length)),
        torch.full((batch, 1), SPECIAL.start),
    )
    handle = model.encoder.get_submodule("embedding").register_forward_hook(keep)
    expected = torch.randint(4, WORDS, (batch, 1))
    total, _ = model.decoder.output.loss(
        model.features(source, torch.full((batch,), length), target), expected
    )
    total.backward()
    handle.remove()
    gradient = embedded[0].grad
    assert gradient is not None
    return gradient.norm(dim=-1).mean(0)

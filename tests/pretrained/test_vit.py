"""Published ViTs and DeiTs: the same as transformers in every number."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.models.vit import Vit
from regard.pretrained import families
from regard.pretrained.folder import Folder
from regard.pretrained.opened import OpenedImages
from regard.recording import record
from regard.training.tensors import load_into
from tests.pretrained.published_images import CLASSES, VITS, classifier

KINDS = ("vit", "deit")
cases = pytest.mark.parametrize(
    ("kind", "sizes"), [(kind, sizes) for kind in KINDS for sizes in VITS], ids=lambda value: str(value)[:20]
)


def opened(folder: Path, kind: str, sizes: dict[str, Any]) -> tuple[Vit, OpenedImages, Any]:
    theirs = classifier(folder, kind, **sizes)
    found = families.read(Folder(folder))
    assert isinstance(found, OpenedImages)
    model = Vit(len(found.labels), found.config)
    load_into(model, found.tensors)
    return model.eval(), found, theirs


def pixels(sizes: dict[str, Any], *shape: int) -> Tensor:
    return torch.randn(2, sizes["num_channels"], *shape, generator=torch.Generator().manual_seed(7))


@cases
@torch.no_grad()
def test_states_maps_and_logits_are_those_of_transformers(kind: str, sizes: dict[str, Any], tmp_path: Path):
    model, _, theirs = opened(tmp_path, kind, sizes)
    given = pixels(sizes, sizes["image_size"], sizes["image_size"])
    wanted = theirs(given, output_attentions=True, output_hidden_states=True)
    states: list[Tensor] = []
    model.encoder.layers[0].register_forward_pre_hook(lambda *found: states.append(found[1][0]))
    for each in model.encoder.layers:
        each.register_forward_hook(lambda *found: states.append(found[2]))
    with record(model, only=model.self_attention) as maps:
        logits = model(given)
    assert len(states) == len(wanted.hidden_states) == len(maps) + 1 == sizes["num_hidden_layers"] + 1
    for ours, expected in zip(states, wanted.hidden_states, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    for ours, expected in zip(maps.values(), wanted.attentions, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits, wanted.logits, rtol=1e-5, atol=1e-5)
    assert logits.shape == (2, len(CLASSES))


@cases
@pytest.mark.parametrize("grid", [(2, 3), (7, 7), (5, 11)])
@torch.no_grad()
def test_positions_of_another_grid(kind: str, sizes: dict[str, Any], grid: tuple[int, int], tmp_path: Path):
    model, _, theirs = opened(tmp_path, kind, sizes)
    height, width = (side * sizes["patch_size"] for side in grid)
    embeddings = getattr(theirs, kind).embeddings
    tokens = torch.zeros(1, model.config.marks + grid[0] * grid[1], sizes["hidden_size"])
    expected = embeddings.interpolate_pos_encoding(tokens, height, width)[0]
    torch.testing.assert_close(model.encoder.positions.encoding(*grid), expected, rtol=0, atol=0)
    given = pixels(sizes, height, width)
    wanted = theirs(given, interpolate_pos_encoding=True).logits
    torch.testing.assert_close(model(given), wanted, rtol=1e-5, atol=1e-5)

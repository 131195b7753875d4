"""A published network of images replaces the convolutions of a captioner."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from regard import load
from regard.errors import InputError
from regard.models.published_images import find_cells, read_tower
from regard.models.vit import TrunkGrid
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.runs.train import train
from regard.storage.published_folder import PublishedFolder
from tests.hub.published_folders import TEXTUAL, make_folder, make_vision_folder

KINDS = {
    "vit": (4, 1),
    "clip": (4, 1),
    "dinov2": (4, 1),
    "registers": (4, 4),
    "swin": (4, 0),
    "convnext": (4, 0),
    "resnet": (2, 0),
    "efficientnet": (1, 0),
}
"""Cells along a side, and positions before them, of images as published."""


def open_tower(path: Path, image: int | None = None) -> Any:
    source = read_tower(str(path), image)
    tower = source.model.encoder()
    tower.load_published(PublishedFolder(path))
    return source, tower.double().eval()


@pytest.mark.parametrize("kind", KINDS)
def test_cells_are_the_states_of_the_published_network(kind: str, tmp_path: Path):
    """Of images of the published side, and of others where the network takes them."""
    folder = make_vision_folder(tmp_path, kind)
    library = transformers.CLIPVisionModel if kind == "clip" else transformers.AutoModel
    published: Any = library.from_pretrained(folder, dtype=torch.float64).eval()
    for image in (None, 64):
        source, tower = open_tower(folder, image)
        cells, marks = KINDS[kind]
        side = source.size // (32 if kind == "efficientnet" else 16) * cells
        assert (source.model.cells, source.model.marks) == (side, marks)
        pixels = torch.randn(2, 3, source.size, source.size).double()
        resizes = kind in ("vit", "clip", "swin")
        options = {"interpolate_pos_encoding": True} if resizes else {}
        with torch.no_grad():
            memory = TrunkGrid(tower, frozen=True)(pixels)
            states = published(pixel_values=pixels, **options).last_hidden_state
        if states.ndim == 4:
            states = torch.stack([states[..., row, column] for row in range(side) for column in range(side)], 1)
        torch.testing.assert_close(memory.value, states[:, marks:], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(memory.summary, states[:, 0] if marks else states.mean(1), rtol=1e-12, atol=1e-12)
        assert memory.value.shape == (2, side**2, source.model.width)


@pytest.mark.parametrize("kind", ["vit", "clip", "convnext", "efficientnet"])
def test_images_are_prepared_as_published(kind: str, tmp_path: Path):
    folder = make_vision_folder(tmp_path, kind)
    source = read_tower(str(folder), None)
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    image = np.random.default_rng(1).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    expected = processor(images=image, return_tensors="np")["pixel_values"]
    found = source.images.tensor(source.images.pixels(image, source.size, 3))[None]
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-4)
    double = read_tower(str(folder), 2 * source.size).images
    assert (double.size, double.shape) == (2 * source.size, source.images.shape)
    assert double.resize == (source.images.resize and 2 * source.images.resize)


def write_run_file(folder: Path, kind: str, *more: str) -> run_file.RunConfig:
    """Return a run file that trains twice with a published trunk on light and dark images."""
    published = make_vision_folder(folder / "published", kind)
    rows = []
    for number in range(12):
        word = ("dark", "light")[number % 2]
        pixels = np.random.default_rng(number).integers(0, 90, (20, 24, 3)) + 150 * (number % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
        split = ("train", "train", "valid", "test")[number % 4]
        rows.append(json.dumps({"image": f"{number}.png", "captions": [f"a {word} image"], "split": split}))
    (folder / "captions.jsonl").write_text("\n".join(rows) + "\n")
    settings = {
        "data.train": folder / "captions.jsonl",
        "data.split": "split",
        "tokenizer.minimum_count": 1,
        "augmentation": "{}",
        "model": "{name: show-attend-and-tell, embedding: 8, width: 12, attention: 6}",
        "model.trunk.path": published,
        "training.steps": 2,
        "training.warmup": 1,
        "training.threads": 1,
        "training.precision": "fp32",
        "training.batch_tokens": 64,
        "training.validate_every": 1,
    }
    return run_file.read(path_of("captions"), [*(f"{key}={value}" for key, value in settings.items()), *more])


OTHERS = [pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "resnet"]


@pytest.mark.parametrize("kind", ["resnet", *OTHERS])
def test_a_run_needs_the_published_folder_no_more(kind: str, tmp_path: Path):
    """Statistics of batches stay too, and the states that training keeps change no weight."""
    train(write_run_file(tmp_path, kind), tmp_path / "run")
    _, tower = open_tower(tmp_path / "published")
    shutil.rmtree(tmp_path / "published")
    run: Any = load(tmp_path / "run", "cpu")
    learned = run.model.encoder.vit.state_dict()
    assert all(torch.equal(learned[name].double(), tensor.double()) for name, tensor in tower.state_dict().items())
    example = str(tmp_path / "0.png")
    [first], [again] = run.predict([example]), load(tmp_path / "run", "cpu").predict([example])
    assert str(first) == str(again)
    side = KINDS[kind][0]
    assert run.attribute(example).lookups[0].weights.shape[-1] == side**2
    config = run_file.read(tmp_path / "run/config.yaml", ["training.steps=3"])
    train(config, tmp_path / "run", resume=True, allow_change=True)
    resumed: Any = load(tmp_path / "run", "cpu")
    assert all(torch.equal(tensor, learned[name]) for name, tensor in resumed.model.encoder.vit.state_dict().items())


@pytest.mark.slow
def test_a_trunk_may_learn(tmp_path: Path):
    train(write_run_file(tmp_path, "vit", "model.trunk.frozen=false", "model.trunk.image=32"), tmp_path / "run")
    _, tower = open_tower(tmp_path / "published")
    run: Any = load(tmp_path / "run", "cpu")
    learned = run.model.encoder.vit.state_dict()
    assert not all(torch.equal(learned[name].double(), tensor) for name, tensor in tower.state_dict().items())
    assert run.config.cells == 64


def test_what_is_no_trunk_is_refused(tmp_path: Path):
    text = make_folder(tmp_path / "text", TEXTUAL["roberta"])
    with pytest.raises(InputError, match="is a model of type roberta, which has no states of the parts of an image"):
        read_tower(str(text), None)
    with pytest.raises(InputError, match="is a model of type vit_mae, which has no states"):
        read_tower(str(make_vision_folder(tmp_path / "vit_mae", "vit_mae")), None)
    with pytest.raises(InputError, match="reads images of 4 channels; expected 1 or 3"):
        read_tower(str(make_vision_folder(tmp_path / "deep", "deep")), None)
    weightless = make_vision_folder(tmp_path / "vit", "vit")
    (weightless / "model.safetensors").unlink()
    with pytest.raises(InputError, match="safetensors"):
        read_tower(str(weightless), None)
    with pytest.raises(InputError, match="transformers cannot read images of 1 pixels"):
        read_tower(str(make_vision_folder(tmp_path / "swin", "swin")), 1)
    with pytest.raises(InputError, match=r"returns states \(1, 8, 3, 4\) for an image, which are no square of cells"):
        find_cells(torch.Size((1, 8, 3, 4)), 3, "it")


def test_a_former_name_of_the_trunk_is_read(tmp_path: Path):
    config = write_run_file(tmp_path, "vit")
    former = [f"data.train={tmp_path / 'captions.jsonl'}", "model.trunk={vit: runs/vit}"]
    renamed = run_file.read(path_of("captions"), former)
    assert renamed.model.trunk.path == "runs/vit"
    assert config.model.trunk.path == str(tmp_path / "published")

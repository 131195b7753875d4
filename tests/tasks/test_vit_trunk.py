"""Captioners that read the patches of a trained Vision Transformer."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard import load
from regard.errors import InputError
from regard.hub import import_run
from regard.images import Preparation
from regard.models.vit import VitGrid
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.tasks.image_captioning.data import Captioned
from regard.tasks.image_captioning.run import ImageCaptioningRun
from regard.tasks.image_classification.run import ImageClassificationRun
from tests.hub.published_images import VITS, classifier
from tests.tasks.test_image_captioning import settings, squares

VIT = "{name: vit, image: 12, patch: 4, channels: 1, layers: 1, width: 24, heads: 2, hidden: 48, dropout: 0.1}"
QUICK = ["training.warmup=1", "training.threads=1", "training.precision=fp32", "training.validate_every=0"]
QUICK += ["training.keep_best=0", "augmentation={}"]
SIZES = "embedding: 12, width: 24, attention: 12, dropout: 0.0"
IMAGES = Preparation(size=16, mean=(0.25,), deviation=(0.4,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images with captions, and a ViT that tells the classes of a few of them, at a size that it was not made for."""
    folder = tmp_path_factory.mktemp("trunk")
    table = squares(folder / "images", 120, 1)
    for line in table.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        place = folder / "classes" / row["captions"][0].replace(" ", "-")
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "images" / row["image"], place)
    given = [f"data={{kind: image-folders, train: {folder / 'classes'}}}", f"model={VIT}", *QUICK]
    given += ["images={size: 16, mean: [0.25], deviation: [0.4]}", "training.steps=100", "training.batch_tokens=272"]
    given += ["training.learning_rate=1e-2"]
    launch.train(run_file.read(path_of("vit"), given), folder / "vit")
    return folder


def config(folder: Path, *more: str, trunk: str = "{vit: VIT}") -> run_file.RunConfig:
    named = trunk.replace("VIT", str(folder / "vit"))
    model = f"model={{name: show-attend-and-tell, {SIZES}, trunk: {named}}}"
    images = folder / "images" / "captions.jsonl"
    return run_file.read(path_of("captions"), [*settings(images), "tokenizer.minimum_count=1", *QUICK, model, *more])


def opened(path: Path) -> ImageCaptioningRun:
    return load(path, "cpu", task=ImageCaptioningRun)


def weights(run: ImageCaptioningRun) -> dict[str, torch.Tensor]:
    assert isinstance(run.model.encoder, VitGrid)
    return run.model.encoder.vit.state_dict()


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose trunk's folder is gone."""
    place = tmp_path_factory.mktemp("whole")
    shutil.copytree(folder / "vit", place / "vit")
    trunk = f"{{vit: {place / 'vit'}}}"
    launch.train(config(folder, "training.steps=100", "training.average_decay=0.9", trunk=trunk), place / "run")
    shutil.rmtree(place / "vit")
    return place / "run"


def test_it_learns_and_its_trunk_stays_bit_for_bit(folder: Path, whole: Path):
    run, vit = opened(whole), load(folder / "vit", "cpu", task=ImageClassificationRun).model.get_submodule("encoder")
    assert run.evaluate(run.config.data.load().train)["rouge-l"] > 80
    assert weights(run).keys() == vit.state_dict().keys()
    assert all(torch.equal(weights(run)[name], tensor) for name, tensor in vit.state_dict().items())


def test_its_cells_are_the_states_of_the_run_itself(folder: Path, whole: Path):
    """Of images prepared as that run prepares them: 16 x 16 pixels are 4 x 4 patches, though the ViT was made for 3."""
    run, vit = opened(whole), load(folder / "vit", "cpu", task=ImageClassificationRun)
    assert run.config.images == IMAGES
    assert (run.config.model.image, run.config.model.channels, run.config.model.stages) == (16, 1, ())
    image = np.random.default_rng(2).integers(0, 255, (20, 31), dtype=np.uint8)
    pixels = vit.config.images.pixels(image, vit.config.size, 1)
    images = run.config.images.tensor(run.config.read_pixels(Captioned(image, (), "x")))[None]
    torch.testing.assert_close(images, vit.config.images.tensor(pixels)[None], rtol=0, atol=0)
    with torch.no_grad():
        states, memory = vit.model.encoder(images), run.model.encoder(images)
    assert torch.equal(memory.value, states[:, 1:])
    assert torch.equal(memory.summary, states[:, 0])


def test_the_commands(regard, folder: Path, whole: Path, tmp_path: Path):
    image = str(folder / "images" / "0.png")
    code, output, _ = regard("predict", str(whole), image, "--json")
    found = json.loads(output)
    assert (code, len(found["tokens"])) == (0, 3)
    code, output, _ = regard("show", str(whole), image, "--out", f"{tmp_path}/a.png")
    assert (code, output) == (0, f"{found['text']}\nThe picture is {tmp_path}/a.png.\n")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.width > 1.5 * picture.height  # the words beside each other, below some lines of text
    code, output, _ = regard("evaluate", str(whole), "--json")
    assert (code, set(json.loads(output))) == (0, {"cider", "bleu", "rouge-l"})
    attribution = opened(whole).attribute(image)
    looked, (lookups,) = attribution.weights, attribution.lookups
    assert looked.weights.shape == (3, 4, 4)
    np.testing.assert_allclose(looked.weights.sum((1, 2)), 1, atol=1e-5)
    assert lookups.patches is not None
    assert (lookups.patches.rows, lookups.patches.columns) == (4, 4)


def test_it_goes_on_without_the_run_it_read_and_may_learn_the_trunk_then(regard, whole: Path, tmp_path: Path):
    """First what reads, then all of it: a run whose trunk is frozen is one to start from."""
    before, changes = weights(opened(whole)), ["--set", "training.steps=103", "--allow-change"]
    shutil.copytree(whole, tmp_path / "run")
    code, _, errors = regard("train", "--resume", "--out", str(tmp_path / "run"), *changes)
    assert code == 0, errors
    after = opened(tmp_path / "run")
    assert all(torch.equal(weights(after)[name], tensor) for name, tensor in before.items())
    name = "decoder.output.weight"
    assert not torch.equal(after.model.state_dict()[name], opened(whole).model.state_dict()[name])
    given = ["--set", "model.trunk.frozen=false", "--set", "training.steps=3", "--out", str(tmp_path / "next")]
    code, _, errors = regard("train", str(whole), *given)
    assert code == 0, errors
    learned = weights(opened(tmp_path / "next"))
    assert all(0 < (learned[name] - before[name]).abs().max() < 0.1 for name in before if name.endswith(".weight"))


def test_a_published_vit(folder: Path, tmp_path: Path):
    """Of three channels: grey images are read as it wants them."""
    classifier(tmp_path / "published", "vit", **VITS[0])
    import_run(str(tmp_path / "published"), tmp_path / "vit")
    launch.train(config(folder, "training.steps=2", trunk=f"{{vit: {tmp_path / 'vit'}}}"), tmp_path / "run")
    run, vit = opened(tmp_path / "run"), load(tmp_path / "vit", "cpu", task=ImageClassificationRun)
    assert run.config.images.mean == (0.4, 0.5, 0.6)
    assert (run.config.model.image, run.config.model.channels, run.config.cells) == (6, 3, 9)
    assert all(
        torch.equal(weights(run)[name], each) for name, each in vit.model.get_submodule("encoder").state_dict().items()
    )
    assert run.attribute(folder / "images" / "0.png").weights.weights.shape[1:] == (3, 3)
    with torch.no_grad():
        run.model.get_parameter("decoder.output.bias")[run.tokenizer.special.end] = 99
    empty = run.attribute(folder / "images" / "0.png")
    assert (empty.prediction.text, empty.lookups[0].weights.shape) == ("", (1, 1, 0, 9))
    empty.figure()


def test_what_is_refused(folder: Path, whole: Path, tmp_path: Path):
    out = tmp_path / "run"
    with pytest.raises(InputError, match="nowhere: no such folder; expected the folder of a run"):
        launch.train(config(folder, trunk=f"{{vit: {tmp_path / 'nowhere'}}}"), out)
    with pytest.raises(InputError) as raised:
        launch.train(config(folder, trunk=f"{{vit: {whole}}}"), out)
    assert str(raised.value) == (
        f"model.trunk.vit: {whole} is a run of the task image-captioning; expected one of image-classification, as "
        "`regard train vit` or `regard import` makes"
    )
    assert not out.exists()
    with pytest.raises(InputError, match=r"model\.trunk"):
        config(folder, trunk="{vitt: x}")
    with pytest.raises(InputError, match=r"images.size is 32, but model.image is 16; remove images.size"):
        run_file.read(whole / "config.yaml", ["images.size=32"])

"""Captioning: it learns, its runs predict and attribute, and it refuses what does not fit."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard import load
from regard.attention.record import record
from regard.errors import InputError
from regard.hub.importing import import_run
from regard.images import Preparation
from regard.models.captioner import GridTransformerConfig
from regard.models.catalog import CAPTIONERS
from regard.models.show_attend_and_tell import ShowAttendAndTellConfig
from regard.models.vit import TrunkGrid
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.tasks.image_captioning.data import Captioned, Scenes
from regard.tasks.image_captioning.run import ImageCaptioning, ImageCaptioningRun, overlap
from regard.tasks.image_classification import ImageClassificationRun
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import START
from tests.hub.published import VITS, classifier

QUICK = [
    "training.steps=200",
    "training.batch_tokens=512",
    "training.learning_rate=5e-3",
    "training.warmup=10",
    "training.threads=1",
    "training.precision=fp32",
    "images={mean: [0.5], deviation: [0.5]}",
    "attention_losses={}",
]
EYE = "image: 16, channels: 1, stages: [8, 12], dropout: 0.0"
MODEL = f"{{name: show-attend-and-tell, {EYE}, embedding: 12, width: 24, attention: 12}}"


def squares(folder: Path, count: int, seed: int) -> Path:
    """A light square in one of four corners, told by where it is."""
    generator = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    lines = []
    for number in range(count):
        down, across = (int(each) for each in generator.integers(0, 2, 2))
        pixels = generator.integers(0, 60, (16, 16), dtype=np.uint8)
        pixels[8 * down + 1 : 8 * down + 7, 8 * across + 1 : 8 * across + 7] = 250
        Image.fromarray(pixels).save(folder / f"{number}.png")
        said = f"{('Top', 'Bottom')[down]} {('left', 'right')[across]} light"
        split = "train" if number % 10 else ("valid" if number % 20 else "test")
        lines.append(json.dumps({"image": f"{number}.png", "captions": [said, said], "split": split}))
    table = folder / "captions.jsonl"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table


def settings(table: Path) -> list[str]:
    return [*QUICK, f"data.train={table}", f"data.images={table.parent}", "data.split=split", "tokenizer.size=20"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("squares")
    given = settings(squares(folder / "images", 120, 1))
    more = [
        f"model={MODEL}",
        "augmentation={shift: 1}",
        "search={beam: 2, length_extra: 6}",
        "tokenizer.minimum_count=1",
    ]
    launch.train(run_file.read(path_of("captions"), [*given, *more]), folder / "run")
    return folder


def test_it_learns(folder: Path):
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["valid/bleu"] > 90 or result["valid/rouge-l"] > 90
    assert set(result) >= {"test/cider", "test/bleu", "test/rouge-l"}
    assert "test/pointing" not in result  # nobody says where it should look


def test_captions_and_where_each_word_looks(folder: Path, tmp_path: Path):
    run = load(folder / "run", "cpu", task=ImageCaptioningRun)
    pixels = np.full((16, 16), 30, dtype=np.uint8)
    pixels[9:15, 1:7] = 250
    (caption, again) = run.predict([pixels, pixels])
    assert caption == again
    assert caption.text == "bottom left light"
    attribution: Any = run.attribute(pixels)
    looked = attribution.weights
    assert attribution.prediction.text == caption.text
    assert attribution.prediction.score == pytest.approx(caption.score, abs=1e-5)  # of a batch of one
    assert looked.shape == (3, 4, 4)
    np.testing.assert_allclose(looked.sum((1, 2)), 1, atol=1e-5)
    (lookups,) = attribution.lookups
    assert all(0 < float(note.removeprefix("gate ")) < 1 for note in lookups.notes)
    assert len(lookups.notes) == 3
    attribution.write(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.width > 2 * picture.height


@pytest.mark.parametrize("name", ["soft", "transformer"])
def test_weights_and_gates_are_of_one_pass(name: str):
    sizes: Any = {"image": 11, "channels": 1, "stages": (2, 5), "dropout": 0.0}
    sizes |= {"embedding": 3, "width": 7, "attention": 4} if name == "soft" else {"layers": 2, "width": 6, "heads": 3}
    model = ShowAttendAndTellConfig(**sizes) if name == "soft" else GridTransformerConfig(**sizes)
    config = ImageCaptioning(data=Scenes(), tokenizer=TokenizerSettings("word"), model=model)
    tokenizer = Tokenizer.train(TokenizerSettings("word"), ["a b c d e f g h i"])
    captioner, passes = CAPTIONERS.build(config.model, 13).eval(), []
    captioner.encoder.register_forward_hook(lambda *call: passes.append(call))
    image = Captioned(np.full((11, 11, 1), 30, dtype=np.uint8), (), "x")
    run = ImageCaptioningRun(config, captioner, tokenizer)
    with torch.no_grad():
        weights, gates, _ = run.record_output(image, [5, 7, 9])
    assert len(passes) == 1
    assert weights.shape[2:] == (4, 9)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert (gates is None) == (name == "transformer")
    if gates is not None:
        with record(captioner.decoder, only="gate") as alone:
            captioner(passes[0][1][0], torch.tensor([[START, 5, 7, 9]]))
        assert gates == pytest.approx(alone["gate"][0, :3, 0].tolist())


def test_pointing_by_hand(folder: Path):
    """A box of the lower left quarter holds 4 of 16 cells; half a cell more holds half of it."""
    np.testing.assert_array_equal(overlap((0.5, 0.0, 1.0, 0.5), 2), [[0, 0], [1, 0]])
    np.testing.assert_allclose(overlap((0.0, 0.0, 0.75, 1.0), 2), [[1, 1], [0.5, 0.5]])
    run = load(folder / "run", "cpu", task=ImageCaptioningRun)
    pixels = np.full((16, 16), 30, dtype=np.uint8)
    pixels[9:15, 1:7] = 250
    said, box = "bottom left light", (0.5, 0.0, 1.0, 0.5)
    here, elsewhere = Captioned(pixels, (said,), "x", {"light": box}), Captioned(pixels, (said,), "y", {"left": box})
    ids = run.tokenizer.encode(said)
    share = 100 * run.attribute(pixels, beam=1).weights[:, 2:, :2].sum((1, 2))
    assert run.measure_pointing([here], [ids]) == pytest.approx(share[2], rel=1e-4)
    both = run.measure_pointing([here, elsewhere], [ids, ids])
    assert both == pytest.approx((share[2] + share[1]) / 4, rel=1e-4)  # each names what only the other image has
    assert run.measure_pointing([Captioned(pixels, (said,), "x")], [ids]) is None


@pytest.mark.parametrize("model", ["show-and-tell", "grid-transformer", "hard"])
@pytest.mark.slow
def test_the_others_train_too(folder: Path, tmp_path: Path, model: str):
    sizes = {
        "show-and-tell": f"{{name: show-and-tell, {EYE}, embedding: 12, width: 24}}",
        "grid-transformer": f"{{name: grid-transformer, {EYE}, layers: 1, width: 12, hidden: 24, heads: 2}}",
        "hard": f"{MODEL[:-1]}, align: hard}}",
    }
    losses = "{draw_entropy: 0.02}" if model == "hard" else "{}"
    given = [*settings(folder / "images" / "captions.jsonl"), f"model={sizes[model]}", f"attention_losses={losses}"]
    launch.train(run_file.read(path_of("captions"), given), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=ImageCaptioningRun)
    assert run.evaluate()["rouge-l"] > 50
    if model == "show-and-tell":
        with pytest.raises(InputError, match="reads its image once and has no attention"):
            run.attribute(folder / "images" / "0.png")
    else:
        assert not run.attribute(folder / "images" / "0.png").lookups[0].notes or model == "hard"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("images={size: 32}", "images.size is 32, but model.image is 16; remove images.size"),
        ("images={mean: [0.5, 0.5, 0.5]}", "images.mean has 3 numbers; expected 1, or 1"),
        ("attention_losses={guided: 1.0}", "attention_losses.guided needs word links, and images and sounds have none"),
    ],
)
def test_settings_that_do_not_fit(folder: Path, setting: str, message: str):
    given = [*settings(folder / "images" / "captions.jsonl"), f"model={MODEL}", setting]
    with pytest.raises(InputError) as raised:
        run_file.read(path_of("captions"), given)
    assert message in str(raised.value)


def test_scenes_are_not_turned_round():
    with pytest.raises(
        InputError, match=r"augmentation.flip turns left into right, which the captions of scenes describe"
    ):
        run_file.read(path_of("scenes"), ["augmentation={flip: true}"])


def test_a_broken_image_is_named(folder: Path, tmp_path: Path):
    (tmp_path / "images").mkdir()
    lines = []
    for number in range(4):
        (tmp_path / "images" / f"{number}.png").write_bytes(b"<html>")
        split = "valid" if number else "train"
        lines.append(json.dumps({"image": f"{number}.png", "captions": ["a b c"], "split": split}))
    table = tmp_path / "images" / "captions.jsonl"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = run_file.read(path_of("captions"), [*settings(table), f"model={MODEL}", "tokenizer.minimum_count=1"])
    assert isinstance(config, ImageCaptioning)
    with pytest.raises(InputError, match=r"0.png: is no image of a supported format"):
        launch.train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert torch.is_grad_enabled()


VIT = "{name: vit, image: 12, patch: 4, channels: 1, layers: 1, width: 24, heads: 2, hidden: 48, dropout: 0.1}"
FEW = ["training.warmup=1", "training.threads=1", "training.precision=fp32", "training.validate_every=0"]
FEW += ["training.keep_best=0", "augmentation={}"]
SIZES = "embedding: 12, width: 24, attention: 12, dropout: 0.0"
IMAGES = Preparation(size=16, mean=(0.25,), deviation=(0.4,))


@pytest.fixture(scope="module")
def trunks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images with captions, and a ViT that tells the classes of a few of them, at a size that it was not made for."""
    trunks = tmp_path_factory.mktemp("trunk")
    table = squares(trunks / "images", 120, 1)
    for line in table.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        place = trunks / "classes" / row["captions"][0].replace(" ", "-")
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(trunks / "images" / row["image"], place)
    given = [f"data={{kind: image-folders, train: {trunks / 'classes'}}}", f"model={VIT}", *FEW]
    given += ["images={size: 16, mean: [0.25], deviation: [0.4]}", "training.steps=100", "training.batch_tokens=272"]
    given += ["training.learning_rate=1e-2"]
    launch.train(run_file.read(path_of("vit"), given), trunks / "vit")
    return trunks


def config(trunks: Path, *more: str, trunk: str = "{vit: VIT}") -> run_file.RunConfig:
    named = trunk.replace("VIT", str(trunks / "vit"))
    model = f"model={{name: show-attend-and-tell, {SIZES}, trunk: {named}}}"
    images = trunks / "images" / "captions.jsonl"
    return run_file.read(path_of("captions"), [*settings(images), "tokenizer.minimum_count=1", *FEW, model, *more])


def open_captioner(path: Path) -> ImageCaptioningRun:
    return load(path, "cpu", task=ImageCaptioningRun)


def trunk_weights(run: ImageCaptioningRun) -> dict[str, torch.Tensor]:
    assert isinstance(run.model.encoder, TrunkGrid)
    return run.model.encoder.vit.state_dict()


@pytest.fixture(scope="module")
def whole(trunks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose trunk's trunks is gone."""
    place = tmp_path_factory.mktemp("whole")
    shutil.copytree(trunks / "vit", place / "vit")
    trunk = f"{{vit: {place / 'vit'}}}"
    launch.train(config(trunks, "training.steps=100", "training.average_decay=0.9", trunk=trunk), place / "run")
    shutil.rmtree(place / "vit")
    return place / "run"


def test_it_learns_and_its_trunk_stays_bit_for_bit(trunks: Path, whole: Path):
    run, vit = (
        open_captioner(whole),
        load(trunks / "vit", "cpu", task=ImageClassificationRun).model.get_submodule("encoder"),
    )
    assert run.evaluate(run.config.data.load().train)["rouge-l"] > 80
    assert trunk_weights(run).keys() == vit.state_dict().keys()
    assert all(torch.equal(trunk_weights(run)[name], tensor) for name, tensor in vit.state_dict().items())


def test_its_cells_are_the_states_of_the_run_itself(trunks: Path, whole: Path):
    """Of images prepared as that run prepares them: 16 x 16 pixels are 4 x 4 patches, though the ViT was made for 3."""
    run, vit = open_captioner(whole), load(trunks / "vit", "cpu", task=ImageClassificationRun)
    assert run.config.images == IMAGES
    assert (run.config.model.image, run.config.model.channels, run.config.model.stages) == (16, 1, ())
    image = np.random.default_rng(2).integers(0, 255, (20, 31), dtype=np.uint8)
    (lookups,) = run.attribute(image).lookups
    assert lookups.patches is not None
    assert (lookups.patches.rows, lookups.patches.columns) == (4, 4)
    pixels = vit.config.images.pixels(image, vit.config.size, 1)
    images = run.config.images.tensor(run.config.read_pixels(Captioned(image, (), "x")))[None]
    torch.testing.assert_close(images, vit.config.images.tensor(pixels)[None], rtol=0, atol=0)
    with torch.no_grad():
        states, memory = vit.model.encoder(images), run.model.encoder(images)
    assert torch.equal(memory.value, states[:, 1:])
    assert torch.equal(memory.summary, states[:, 0])


def test_it_goes_on_without_the_run_it_read_and_may_learn_the_trunk_then(regard, whole: Path, tmp_path: Path):
    """First what reads, then all of it: a run whose trunk is frozen is one to start from."""
    before, changes = trunk_weights(open_captioner(whole)), ["--set", "training.steps=103", "--allow-change"]
    shutil.copytree(whole, tmp_path / "run")
    code, _, errors = regard("train", "--resume", "--out", str(tmp_path / "run"), *changes)
    assert code == 0, errors
    after = open_captioner(tmp_path / "run")
    assert all(torch.equal(trunk_weights(after)[name], tensor) for name, tensor in before.items())
    name = "decoder.output.weight"
    assert not torch.equal(after.model.state_dict()[name], open_captioner(whole).model.state_dict()[name])
    given = ["--set", "model.trunk.frozen=false", "--set", "training.steps=3", "--out", str(tmp_path / "next")]
    code, _, errors = regard("train", str(whole), *given)
    assert code == 0, errors
    learned = trunk_weights(open_captioner(tmp_path / "next"))
    assert all(0 < (learned[name] - before[name]).abs().max() < 0.1 for name in before if name.endswith(".weight"))


def test_a_published_vit(trunks: Path, tmp_path: Path):
    """Of three channels: grey images are read as it wants them."""
    classifier(tmp_path / "published", "vit", **VITS[0])
    import_run(str(tmp_path / "published"), tmp_path / "vit")
    launch.train(config(trunks, "training.steps=2", trunk=f"{{vit: {tmp_path / 'vit'}}}"), tmp_path / "run")
    run, vit = open_captioner(tmp_path / "run"), load(tmp_path / "vit", "cpu", task=ImageClassificationRun)
    assert run.config.images.mean == (0.4, 0.5, 0.6)
    assert (run.config.model.image, run.config.model.channels, run.config.cells) == (6, 3, 9)
    assert all(
        torch.equal(trunk_weights(run)[name], each)
        for name, each in vit.model.get_submodule("encoder").state_dict().items()
    )
    assert run.attribute(trunks / "images" / "0.png").weights.shape[1:] == (3, 3)
    with torch.no_grad():
        run.model.get_parameter("decoder.output.bias")[run.tokenizer.special.end] = 99
    empty = run.attribute(trunks / "images" / "0.png")
    assert (empty.prediction.text, empty.lookups[0].weights.shape) == ("", (1, 1, 0, 9))
    empty.figure()


def test_what_is_refused(trunks: Path, whole: Path, tmp_path: Path):
    out = tmp_path / "run"
    with pytest.raises(InputError, match=r"model\.trunk\.path: .* task image-captioning; expected one of image-class"):
        launch.train(config(trunks, trunk=f"{{vit: {whole}}}"), out)
    assert not out.exists()
    with pytest.raises(InputError, match=r"model\.trunk"):
        config(trunks, trunk="{vitt: x}")

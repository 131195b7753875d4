"""Captioning: it learns, its runs predict and attribute, and it refuses what does not fit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard import load
from regard.attention.record import record
from regard.errors import InputError
from regard.models.captioner import GridTransformerConfig
from regard.models.catalog import build_captioner
from regard.models.show_attend_and_tell import ShowAttendAndTellConfig
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.tasks.image_captioning.config import ImageCaptioning
from regard.tasks.image_captioning.data import Captioned, Scenes
from regard.tasks.image_captioning.run import ImageCaptioningRun, overlap
from regard.text import Tokenizer, TokenizerSettings
from regard.text.special import START

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


def opened(folder: Path) -> ImageCaptioningRun:
    return load(folder / "run", "cpu", task=ImageCaptioningRun)


def test_it_learns(folder: Path):
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["valid/bleu"] > 90 or result["valid/rouge-l"] > 90
    assert set(result) >= {"test/cider", "test/bleu", "test/rouge-l"}
    assert "test/pointing" not in result  # nobody says where it should look


def test_captions_and_where_each_word_looks(folder: Path):
    run = opened(folder)
    pixels = np.full((16, 16), 30, dtype=np.uint8)
    pixels[9:15, 1:7] = 250
    (caption, again) = run.predict([pixels, pixels])
    assert caption == again
    assert caption.text == "bottom left light"
    attribution: Any = run.attribute(pixels)
    looked = attribution.weights
    assert attribution.prediction.text == caption.text
    assert attribution.prediction.score == pytest.approx(caption.score, abs=1e-5)  # of a batch of one
    assert looked.weights.shape == (3, 4, 4)
    np.testing.assert_allclose(looked.weights.sum((1, 2)), 1, atol=1e-5)
    assert looked.gates is not None
    assert all(0 < gate < 1 for gate in looked.gates)
    assert run.predict([]) == []
    with pytest.raises(TypeError, match="examples is one str; put it in a list"):
        run.predict("a.png")


@pytest.mark.parametrize("name", ["soft", "transformer"])
def test_weights_and_gates_are_of_one_pass(name: str):
    sizes: Any = {"image": 11, "channels": 1, "stages": (2, 5), "dropout": 0.0}
    sizes |= {"embedding": 3, "width": 7, "attention": 4} if name == "soft" else {"layers": 2, "width": 6, "heads": 3}
    model = ShowAttendAndTellConfig(**sizes) if name == "soft" else GridTransformerConfig(**sizes)
    config = ImageCaptioning(data=Scenes(), tokenizer=TokenizerSettings("word"), model=model)
    tokenizer = Tokenizer.train(TokenizerSettings("word"), ["a b c d e f g h i"])
    captioner, passes = build_captioner(config.model, 13).eval(), []
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
    run = opened(folder)
    pixels = np.full((16, 16), 30, dtype=np.uint8)
    pixels[9:15, 1:7] = 250
    said, box = "bottom left light", (0.5, 0.0, 1.0, 0.5)
    here, elsewhere = Captioned(pixels, (said,), "x", {"light": box}), Captioned(pixels, (said,), "y", {"left": box})
    ids = run.tokenizer.encode(said)
    share = 100 * run.attribute(pixels, beam=1).weights.weights[:, 2:, :2].sum((1, 2))
    assert run.measure_pointing([here], [ids]) == pytest.approx(share[2], rel=1e-4)
    both = run.measure_pointing([here, elsewhere], [ids, ids])
    assert both == pytest.approx((share[2] + share[1]) / 4, rel=1e-4)  # each names what only the other image has
    assert run.measure_pointing([Captioned(pixels, (said,), "x")], [ids]) is None


def test_the_commands(regard, folder: Path, tmp_path: Path):
    image = str(folder / "images" / "0.png")
    code, output, _ = regard("predict", str(folder / "run"), image, "--json")
    found = json.loads(output)
    assert (code, found["image"], len(found["tokens"])) == (0, image, 3)
    assert regard("predict", str(folder / "run"), image) == (0, found["text"] + "\n", "")
    code, output, _ = regard("show", str(folder / "run"), image, "--out", f"{tmp_path}/a.png")
    assert (code, output) == (0, f"{found['text']}\nThe picture is {tmp_path}/a.png.\n")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.width > 2 * picture.height
    code, output, _ = regard("evaluate", str(folder / "run"), "--beam", "1", "--json")
    assert (code, set(json.loads(output))) == (0, {"cider", "bleu", "rouge-l"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "nowhere.png"), "nowhere.png: no such file; expected an image"),
        (("evaluate", "x.jsonl"), "x.jsonl: no such file"),
        (("show", "x.png", "--out", "x.png", "--map", "1"), "the option map is not supported where a run of the task"),
    ],
)
def test_commands_refuse(regard, folder: Path, arguments: tuple[str, ...], said: str):
    command, *rest = arguments
    code, _, errors = regard(command, str(folder / "run"), *rest)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert said in errors


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
        assert run.attribute(folder / "images" / "0.png").weights.gates is None or model == "hard"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("images={size: 32}", "images.size is 32, but model.image is 16; remove images.size"),
        ("images={mean: [0.5, 0.5, 0.5]}", "images.mean has 3 numbers; expected 1, or 1"),
        ("metrics=[]", "`metrics` is empty"),
        ("attention_losses={guided: 1.0}", "attention_losses.guided needs word links, and images have none"),
        ("model={name: show-and-tel}", "did you mean 'show-and-tell'?"),
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

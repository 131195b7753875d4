"""Image classification: it learns, from folders and IDX files, and refuses what does not fit."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard import load
from regard.errors import InputError
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.tasks.class_prediction import order_like_start
from regard.tasks.image_classification import ImageClassification, ImageClassificationRun

MODEL = "{name: vit, image: 12, patch: 3, channels: 1, layers: 1, width: 24, heads: 2, hidden: 48, dropout: 0.0}"
QUICK = [
    f"model={MODEL}",
    "training.steps=250",
    "training.batch_tokens=640",
    "training.learning_rate=3e-3",
    "training.warmup=15",
    "training.validate_every=0",
    "training.threads=1",
    "training.precision=fp32",
]
NAMES = ["across", "down", "none"]


def drawn(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Bars across, bars down, or none, at any place, in noise."""
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 60, (count, 12, 12), dtype=np.uint8)
    labels = generator.integers(0, 3, count).astype(np.uint8)
    for image, label, place in zip(images, labels, generator.integers(1, 11, count), strict=True):
        if label < 2:
            (image if label == 0 else image.T)[place] = 220
    return images, labels


def write_idx(path: Path, array: np.ndarray) -> None:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    path.write_bytes((gzip.compress if path.suffix == ".gz" else bytes)(head + array.tobytes()))


def write_folders(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = path / NAMES[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{number:03}.png")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    for name, seed, count in (("train", 1, 600), ("test", 2, 100)):
        images, labels = drawn(seed, count)
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", labels)
    write_folders(folder / "test", *drawn(2, 100))
    launch.train(config(folder), folder / "run")
    return folder


def config(folder: Path, *settings: str) -> ImageClassification:
    paths = [f"data.{name}={folder / f'{name}-images-idx3-ubyte.gz'}" for name in ("train", "test")]
    found = run_file.read(path_of("vit"), [*paths, f"data.classes=[{', '.join(NAMES)}]", *QUICK, *settings])
    assert isinstance(found, ImageClassification)
    return found


def test_it_learns(folder: Path):
    result = json.loads((folder / "run" / "result.json").read_text())
    assert min(result["test/accuracy"], result["test/macro-f1"]) > 90
    assert result["images_per_second"] > 0


def test_the_class_of_files_and_arrays(folder: Path):
    run = load(folder / "run", "cpu", task=ImageClassificationRun)
    images, labels = (each[:7] for each in drawn(2, 100))
    paths = [next((folder / "test").glob(f"*/{number:03}.png")) for number in range(7)]
    found = run.predict(list(images))
    again = run.predict([*paths[:3], *map(str, paths[3:])])
    assert [each.label for each in found] == [NAMES[label] for label in labels]
    for one, other in zip(found, again, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)
        assert sum(one.probabilities.values()) == pytest.approx(1)


def test_what_does_not_fit(folder: Path):
    run = load(folder / "run", "cpu", task=ImageClassificationRun)
    with pytest.raises(InputError, match=r"image 2: is float64 \(5, 5\); expected uint8"):
        run.predict([np.zeros((5, 5), dtype=np.uint8), np.zeros((5, 5))])
    with pytest.raises(InputError, match=r"none\.png: no such file"):
        run.predict(["none.png"])


def test_fine_tuning_for_other_classes_and_larger_images(folder: Path, tmp_path: Path):
    images, labels = drawn(3, 100)
    write_folders(tmp_path / "train", images[labels < 2], labels[labels < 2])
    sets = f"data={{kind: image-folders, train: {tmp_path / 'train'}}}"
    more = [sets, f"training.start={folder / 'run'}", "images.size=24", "training.batch_tokens=1000"]
    quick = ["training.steps=2", "training.warmup=0", "training.learning_rate=1e-9"]
    launch.train(config(folder, *more, *quick), tmp_path / "run")
    before, after = (RunDirectory.open(each).load_tensors(WEIGHTS) for each in (folder / "run", tmp_path / "run"))
    assert set(before) == set(after)
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in after if name.startswith("encoder."))
    assert after["output.weight"].shape == (2, 24)
    run = load(tmp_path / "run", "cpu", task=ImageClassificationRun)
    assert run.labels == ("across", "down")
    assert run.predict([images[0]])[0].label in run.labels


def test_training_on_keeps_the_order_of_the_classes(tmp_path: Path):
    with RunDirectory.create(tmp_path / "run") as run:
        run.write_json("labels.json", ["zebra", "ape", "newt"])
    start = str(tmp_path / "run")
    assert order_like_start(start, ["ape", "newt", "zebra"]) == ["zebra", "ape", "newt"]
    assert order_like_start(start, ["ape", "newt"]) == ["ape", "newt"]
    assert order_like_start(None, ["ape", "newt", "zebra"]) == ["ape", "newt", "zebra"]


def test_the_command_predicts_from_idx_files(regard, folder: Path, tmp_path: Path):
    labels = drawn(2, 100)[1][:5]
    run, idx = str(folder / "run"), folder / "test-images-idx3-ubyte.gz"
    expected = [NAMES[label] for label in labels]
    locations = [f"{idx}:{number}" for number in range(1, 6)]
    code, output, errors = regard("predict", run, *locations)
    assert (code, [line.split("\t")[0] for line in output.splitlines()]) == (0, expected), errors
    out = tmp_path / "predictions"
    code, _, errors = regard("predict", run, "--input", str(idx), "--output", str(out))
    rows = [json.loads(line) for line in (out / "part-000000.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["label"] for row in rows[:5]] == expected, errors
    assert all("image" not in row for row in rows)
    code, output, errors = regard("show", run, f"{idx}:2", "--out", str(tmp_path / "a.png"))
    assert (code, (tmp_path / "a.png").exists()) == (0, True), errors


def test_the_command_predicts_from_tables_that_name_images(regard, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    images, labels = drawn(1, 40)
    (tmp_path / "photos").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / "photos" / f"{number}.png")
    table, run = tmp_path / "labels.csv", str(tmp_path / "run")
    rows = [f"{number},{NAMES[label]}" for number, label in enumerate(labels)]
    table.write_text("\n".join(["id,breed", *rows]) + "\n", encoding="utf-8")
    columns = f"data.train={table}", "data.image=id", "data.label=breed"
    more = f"data.test={table}", "training.steps=20", "training.validate_every=10"
    with caplog.at_level("INFO", "regard"):
        launch.train(run_file.read(path_of("vit"), [*columns, *QUICK, *more]), Path(run))
    assert caplog.text.count("always '") == 1  # the baseline, of the test set
    image = tmp_path / "photos" / "1.png"
    expected = [regard("predict", run, str(tmp_path / "photos" / f"{number}.png"))[1] for number in range(5)]
    assert regard("predict", run, f"{table}:3")[:2] == (0, expected[1])
    code, output, errors = regard("show", run, f"{table}:3", "--out", str(tmp_path / "a.png"))
    assert (code, output.splitlines()[0]) == (0, expected[1].strip()), errors
    code, _, errors = regard("predict", run, "--input", str(table), "--output", str(tmp_path / "out"))
    assert code == 0, errors
    found = (tmp_path / "out" / "part-000000.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["label"] for line in found[:5]] == [line.split("\t")[0] for line in expected]
    image.unlink()
    code, _, errors = regard("predict", run, f"{table}:3")
    assert (code, "labels.csv:3: no image 1 beside the table, in a folder there or here" in errors) == (2, True)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.channels=2", "expected 1 or 3"),
        ("images.deviation=[0.0]", "expected numbers above 0"),
        ("model.stem=convolutional", "halves the image until a cell is a patch, and patch is 3"),
        ("images.size=14", "images.size is 14, not a whole number of patches of 3 pixels"),
        ("images.mean=[0.1, 0.2]", "images.mean has 2 numbers; expected 1, or 1"),
        ("training.batch_tokens=16", "training.batch_tokens is 16, less than one image of 17 patches"),
    ],
)
def test_a_run_file_that_does_not_fit(setting: str, message: str, folder: Path):
    with pytest.raises(InputError, match=message):
        config(folder, setting)

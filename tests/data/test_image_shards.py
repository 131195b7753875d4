"""Images in tar files and Parquet tables: the same samples as in folders, read when they are needed."""

import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from regard.data import cache
from regard.data.cache import CachedSet
from regard.data.image_shards import ImageShards
from regard.errors import InputError
from regard.images import read_image
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage import cache_folder
from regard.tasks.class_prediction import index_classes
from regard.tasks.image_classification.config import ImageClassification
from tests.data.tar_files import packed

CLASSES = ("bag", "shoe", "shirt")


@pytest.fixture(params=[False, True], ids=["in memory", "on disk"])
def large(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        pytest.importorskip("pyarrow")
        monkeypatch.setattr(cache, "SMALL", 1)
        monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "cache"))
    return request.param


def picture(number: int) -> bytes:
    image = pytest.importorskip("PIL.Image")
    content = io.BytesIO()
    pixels = np.full((9, 9), 5 * (number % 3), dtype=np.uint8) + np.arange(9, dtype=np.uint8) * (number % 7)
    image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def shards(folder: Path, count: int = 24, each: int = 10) -> str:
    """Tar files of `each` samples with their classes in turn as numbers, as names and in JSON."""
    for first in range(0, count, each):
        files = {}
        for number in range(first, min(count, first + each)):
            label = number % 3
            form = {
                "cls": str(label).encode(),
                "json": json.dumps({"label": CLASSES[label], "more": 1}).encode(),
            }
            ending = ("cls", "json")[number % 2]
            files |= {f"a/{number:04}.{ending}": form[ending], f"a/{number:04}.png": picture(number)}
        packed(folder / f"{first:04}.tar", files)
    return str(folder)


def test_tar_files(large: bool, tmp_path: Path):
    data = ImageShards(train=shards(tmp_path / "shards"), held_out=0.25, classes=CLASSES)
    found = data.load()
    assert isinstance(found.train, CachedSet) is large
    assert [len(found.train), len(found.valid)] == [18, 6]
    every = sorted((*found.train, *found.valid), key=lambda each: each.place)
    assert [each.image for each in every] == [picture(number) for number in range(24)]
    assert [each.label for each in every] == [CLASSES[number % 3] for number in range(24)]
    assert every[11].place == f"{tmp_path}/shards/0010.tar:a/0011.png"
    assert index_classes(CLASSES, found.train) == [CLASSES.index(each.label) for each in found.train]
    with pytest.raises(
        InputError, match=r"0000.tar:a/0001.png: label 'shoe' is none of the training set's: bag, shirt"
    ):
        index_classes(("bag", "shirt"), found.train)
    assert {each.label for each in found.valid} == set(CLASSES)
    assert read_image(every[0].image, 1).shape == (9, 9, 1)  # pyright: ignore[reportArgumentType]


def test_parquet(large: bool, tmp_path: Path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = {"label": {"names": list(CLASSES), "_type": "ClassLabel"}}
    metadata = {b"huggingface": json.dumps({"info": {"features": names}}).encode()}
    images = [{"bytes": picture(number), "path": None} for number in range(12)]
    table = pa.table({"image": images, "label": [number % 3 for number in range(12)]}).replace_schema_metadata(metadata)
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=5)
    path = str(tmp_path / "a.parquet")
    found = ImageShards(train=path, valid=path).load().train
    assert isinstance(found, CachedSet) is large
    assert [each.image for each in found] == [picture(number) for number in range(12)]
    assert Counter(each.label for each in found) == dict.fromkeys(CLASSES, 4)
    assert found[7].place == f"{tmp_path}/a.parquet:8"
    assert ImageShards(image="image.bytes").read(str(tmp_path / "a.parquet"))[7].image == picture(7)
    plain = pa.table({"picture": [each["bytes"] for each in images], "name": [f"{n % 2}" for n in range(12)]})
    parquet.write_table(plain, tmp_path / "b.parquet")
    found = ImageShards(image="picture", label="name").read(str(tmp_path / "b.parquet"))
    assert [(each.image, each.label) for each in found] == [(picture(n), f"{n % 2}") for n in range(12)]
    with pytest.raises(
        InputError, match=r"b.parquet: no column 'image' and 'label', .*name yours with --set data.image="
    ):
        ImageShards().read(str(tmp_path / "b.parquet"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"1.cls": b"a"}, r"x.tar: sample '1' \(.cls\): has no image; expected one, such as .jpg"),
        (
            {"1.png": b"a"},
            r"x.tar: sample '1' \(.png\): has no class; expected one under 'label'",
        ),
        ({"1.png": b"a", "1.json": b"{"}, r"x.tar: sample '1' \(.png, .json\): has no class"),
        (
            {"1.png": b"a", "1.cls": b"7"},
            r"x.tar: sample '1' \(.png, .cls\): class 7, but 3 names in data.classes; add it",
        ),
        ({}, r"x.tar: has no images"),
    ],
)
def test_samples_that_lack_something(files: dict[str, bytes], message: str, tmp_path: Path):
    with pytest.raises(InputError, match=message):
        ImageShards(classes=CLASSES).read(str(packed(tmp_path / "x.tar", files)))


def test_damaged_and_other_files(tmp_path: Path):
    folder = Path(shards(tmp_path / "shards", 4, 4))
    path = folder / "0000.tar"
    data = ImageShards(classes=CLASSES)
    sample = data.read(str(path))[3]
    whole = path.read_bytes()
    path.write_bytes(whole[:5200])
    with pytest.raises(InputError, match=r"0000.tar: is no sound tar file \(is cut off\); fetch it again"):
        data.read(str(path))
    with pytest.raises(InputError, match=r"0000.tar: ends before byte \d+; was it changed\?"):
        print(sample.image)
    packed(path, {"1.cls": b"0", "1.png": bytes(range(250)) * 40})
    path.write_bytes(path.read_bytes()[:4000] + bytes(1024))
    with pytest.raises(InputError, match=r"0000.tar: is no sound tar file \(is cut off in 1.png\); fetch it again"):
        data.read(str(path))
    path.write_bytes(b"no tar" * 200)
    with pytest.raises(InputError, match=r"0000.tar: is no sound tar file"):
        data.read(str(path))
    (folder / "a.txt").write_text("a")
    with pytest.raises(InputError, match=r"a.txt: expected shards of images, uncompressed .tar or .parquet files"):
        data.read(str(folder / "a.txt"))


def test_names_of_classes_are_those_of_one_set(tmp_path: Path):
    """The recipe's clothes are not the classes of other shards; names that an option gives are."""
    train = f"data.train={packed(tmp_path / 'x.tar', {'1.cls': b'0', '1.png': picture(1)})}"
    plain, named = (run_file.read(path_of("vit"), [train, *more]) for more in ([], ["data.classes=[bag]"]))
    assert isinstance(plain, ImageClassification)
    assert isinstance(named, ImageClassification)
    assert isinstance(plain.data, ImageShards)
    assert isinstance(named.data, ImageShards)
    assert (plain.data.classes, named.data.classes) == ((), ("bag",))
    assert [each.label for each in plain.data.read(str(tmp_path / "x.tar"))] == ["0"]


def test_training_from_shards(large: bool, tmp_path: Path):
    """The kind follows the file, and a second start has the same figures."""
    options = {
        "data.train": f"{shards(tmp_path / 'shards', 40, 20)}/*.tar",
        "data.held_out": 0.25,
        "data.classes": list(CLASSES),
        "model.image": 8,
        "model.patch": 4,
        "model.width": 16,
        "model.heads": 2,
        "model.layers": 1,
        "training.steps": 3,
        "training.warmup": 0,
        "training.batch_tokens": 64,
        "training.threads": 1,
        "training.precision": "fp32",
    }
    config = run_file.read(path_of("vit"), [f"{key}={value}" for key, value in options.items()])
    result = launch.train(config, tmp_path / "run")
    assert 0 <= result["valid/accuracy"] <= 100
    again = launch.train(config, tmp_path / "again")
    assert {name: again[name] for name in ("valid/accuracy", "valid/macro-f1")} == {
        name: result[name] for name in ("valid/accuracy", "valid/macro-f1")
    }

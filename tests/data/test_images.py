"""Sets of images: folders of classes, IDX files, faulty files, and augmentation in training."""

import gzip
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from regard.config.file_kinds import recognizes
from regard.data import cache
from regard.data.cache import CachedSet
from regard.data.image_shards import ImageShards
from regard.data.images import IdxImages, ImageFolders, ImageTables
from regard.data.inputs import RowReader, first_image, image_at
from regard.data.rows import RowCollector
from regard.errors import InputError
from regard.images import Augmentation, read_image, warp
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage import cache_folder
from regard.tasks.class_prediction import index_classes
from regard.tasks.few_shot import FolderEpisodes, TableEpisodes
from regard.tasks.image_classification import ImageClassification
from tests.data.tar_files import packed
from tests.tasks.test_image_classification import write_idx

IMAGES = np.arange(5 * 3 * 2, dtype=np.uint8).reshape(5, 3, 2)
LABELS = np.array([1, 0, 2, 1, 1], dtype=np.uint8)


def files(folder: Path, suffix: str = "") -> Path:
    write_idx(folder / f"a-images-idx3-ubyte{suffix}", IMAGES)
    write_idx(folder / f"a-labels-idx1-ubyte{suffix}", LABELS)
    return folder / f"a-images-idx3-ubyte{suffix}"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files(suffix: str, tmp_path: Path):
    path = files(tmp_path, suffix)
    found = IdxImages(classes=("x", "y", "z")).read(str(path))
    assert [each.label for each in found] == ["y", "x", "z", "y", "y"]
    assert all(np.array_equal(np.asarray(each.image), image) for each, image in zip(found, IMAGES, strict=True))
    assert found[3].place == f"{path}:4"
    assert [each.label for each in IdxImages().read(str(path))] == ["1", "0", "2", "1", "1"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("left", [3, 17, 40])
def test_an_idx_file_that_is_cut(left: int, suffix: str, tmp_path: Path):
    path = files(tmp_path, suffix)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(InputError, match=r"a-images-idx3-ubyte.*: (is cut off|is no IDX|says 5 x 3 x 2 bytes)"):
        IdxImages().read(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"\0\0\x0d\x03" + b"\0\0\0\x01" * 3 + b"1234",
            "is no IDX file of bytes with 3 axes; it begins with 00 00 0d 03",
        ),
        (b"\0\0\x08\x03" + b"\xff\xff\xff\xff" * 3 + b"1", "says 4294967295 x 4294967295 x 4294967295 bytes"),
        (b"\0\0\x08\x03" + b"\0\0\0\0" * 3, "says 0 x 0 x 0 bytes, at least one, but it has fewer"),
        (b"\0\0\x08\x03" + b"\0\0\0\x01" * 3 + b"12", "says 1 x 1 x 1 bytes, at least one, but it has more"),
        (gzip.compress(b"1", mtime=0), "is no IDX file"),
    ],
)
def test_another_kind_of_idx_file(content: bytes, message: str, tmp_path: Path):
    path = files(tmp_path)
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        IdxImages().read(str(path))


def test_idx_files_that_do_not_fit(tmp_path: Path):
    path = files(tmp_path)
    with pytest.raises(InputError, match=r"classes up to 2, and 2 have a name in data\.classes"):
        IdxImages(classes=("x", "y")).read(str(path))
    write_idx(tmp_path / "a-labels-idx1-ubyte", LABELS[:4])
    with pytest.raises(InputError, match="5 images; a-labels-idx1-ubyte has 4 classes"):
        IdxImages().read(str(path))
    (tmp_path / "a-labels-idx1-ubyte").unlink()
    with pytest.raises(InputError, match="a-labels-idx1-ubyte: no such file"):
        IdxImages().read(str(path))
    (tmp_path / "a.gz").touch()
    with pytest.raises(InputError, match="has no images-idx3 in its name"):
        IdxImages().read(str(tmp_path / "a.gz"))


def folders(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def test_folders_of_classes(tmp_path: Path):
    root = folders(tmp_path, "cat/b.PNG", "cat/a.jpg", "ant/deep/c.webp", "ant/.hidden", ".git/x", "readme.txt")
    for name in ("cat/Thumbs.db", "cat/desktop.ini"):
        (root / name).touch()
    found = ImageFolders().read(str(root))
    assert [each.label for each in found] == ["ant", "cat", "cat"]
    assert [each.image for each in found] == [root / "ant/deep/c.webp", root / "cat/a.jpg", root / "cat/b.PNG"]


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (["cat/a.png", "cat/notes.txt"], ".", r"notes\.txt: is no image by its name; expected \.bmp, \.gif"),
        (["a.png"], ".", r": has no folders with images; expected a folder a class .*, or a table with a row an image"),
        (["a.png"], "a.png", "is no folder; expected one with a folder a class"),
        ([], "b", "is no folder; expected one with a folder a class"),
    ],
)
def test_folders_that_do_not_fit(names: list[str], given: str, message: str, tmp_path: Path):
    with pytest.raises(InputError, match=message):
        ImageFolders().read(str(folders(tmp_path, *names) / given))


def test_a_table_of_images_and_classes(tmp_path: Path):
    root, table = folders(tmp_path, "train/7.png", "train/8.png"), tmp_path / "labels.csv"
    table.write_text("file_name,category\n7.png,3\n8.png,cat\n", encoding="utf-8")
    data = ImageTables(image="file_name", label="category")
    for path in (table, root):
        found = [(each.image, each.label, each.place) for each in data.read(str(path))]
        assert found == [(root / "train/7.png", "3", f"{table}:2"), (root / "train/8.png", "cat", f"{table}:3")]
    with pytest.raises(InputError, match=r"labels.csv:2: no image 7.png in a; set data.images to the folder"):
        ImageTables(image="file_name", label="category", images="a").read(str(table))
    (root / "train/7.png").unlink()
    folders(tmp_path, "train/9.png")
    with pytest.raises(InputError, match=r"no image 7.png beside the table, in a folder there or here"):
        data.read(str(table))
    assert [recognizes(ImageTables, name) for name in ("labels.csv", "labels.idx")] == [True, False]


def test_a_folder_with_a_table_of_its_images(tmp_path: Path):
    root = folders(tmp_path / "train", "7.png", "8.png", ".hidden/x")
    rows = '{"file_name": "7.png", "label": "cat"}\n{"file_name": "8.png", "label": "dog"}\n'
    (root / "metadata.jsonl").write_text(rows, encoding="utf-8")
    classes = folders(tmp_path / "classes", "cat/7.png", "dog/8.png", "labels.csv")
    for schema, other in ((ImageTables, ImageFolders), (TableEpisodes, FolderEpisodes)):
        assert [recognizes(each, str(root)) for each in (schema, other)] == [True, False]
        assert [recognizes(each, str(classes)) for each in (schema, other)] == [False, True]
    settings = f"data.train={root}", "data.image=file_name"
    config = run_file.read(path_of("vit"), list(settings))
    assert isinstance(config, ImageClassification)
    assert [each.label for each in config.data.read(str(root))] == ["cat", "dog"]


def test_what_an_epoch_sees_is_a_function_of_seed_epoch_and_index():
    image = np.random.default_rng(1).integers(1, 256, (7, 11, 3), dtype=np.uint8)
    assert (Augmentation()(image, 1, 2, 3) == image).all()
    augment = Augmentation(flip=True, shift=2)
    seen = [augment(image, 1, epoch, index) for epoch in range(5) for index in range(40)]
    assert all((one == augment(image, 1, *divmod(place, 40))).all() for place, one in enumerate(seen))
    assert len({one.tobytes() for one in seen}) == 50  # two ways to look, and 5 x 5 places
    assert all(one.shape == image.shape for one in seen)


def test_flip_and_shift_by_hand():
    image = np.arange(1, 7, dtype=np.uint8).reshape(2, 3, 1)
    assert {Augmentation(flip=True)(image, 1, 1, index)[:, :, 0].tobytes() for index in range(20)} == {
        bytes([1, 2, 3, 4, 5, 6]),
        bytes([3, 2, 1, 6, 5, 4]),
    }
    found = {Augmentation(shift=1)(image, 1, 1, index)[:, :, 0].tobytes() for index in range(200)}
    assert len(found) == 9
    assert bytes([0, 0, 0, 0, 1, 2]) in found


def test_turned_stretched_and_slanted_by_hand():
    image = np.arange(1, 10, dtype=np.uint8).reshape(3, 3, 1) * 20
    turned = warp(image, 90.0, (1.0, 1.0), 0.0, 7)
    np.testing.assert_array_equal(turned, np.rot90(image, -1))
    dot = np.zeros((7, 7, 1), np.uint8)
    dot[3, 5] = 200  # two to the right of the middle
    np.testing.assert_array_equal(np.argwhere(warp(dot, 0.0, (1.5, 1.0), 0.0, 0) > 99), [[3, 6, 0]])
    np.testing.assert_array_equal(np.argwhere(warp(dot, 0.0, (1.0, 1.0), 1.0, 0)), [[5, 5, 0]])
    small = warp(np.full((4, 4, 3), 90, np.uint8), 0.0, (0.5, 0.5), 0.0, 255)
    assert (small[1:3, 1:3] == 90).all()
    assert (small[[0, -1]] == 255).all()


def test_an_image_is_warped_by_what_its_numbers_draw():
    image = np.random.default_rng(1).integers(0, 256, (9, 9, 1), dtype=np.uint8)
    for augment in (Augmentation(turn=20.0), Augmentation(stretch=0.2), Augmentation(slant=0.2)):
        seen = {augment(image, 1, 0, index).tobytes() for index in range(5)}
        assert len(seen | {image.tobytes()}) == 6
        assert augment(image, 1, 0, 2).tobytes() in seen
    moved = Augmentation(shift=1, outside=255)(np.zeros((3, 3, 1), np.uint8), 1, 0, 0)
    assert set(np.unique(moved)) <= {0, 255}


def grouped(folder: Path, *places: str) -> str:
    for place in places:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(b"P5 1 1 255 \0")
    return str(folder)


def test_folders_of_groups(tmp_path: Path):
    path = grouped(tmp_path / "a", "thing/car/1.pgm", "animal/cat/1.pgm", "animal/dog/inner/1.pgm")
    with pytest.raises(InputError, match=r"its folders have no images of their own, .* such as animal/cat; set --set"):
        ImageFolders().read(path)
    assert [each.label for each in ImageFolders(depth=1).read(path)] == ["animal", "animal", "thing"]
    assert [each.label for each in ImageFolders(depth=2).read(path)] == ["animal/cat", "animal/dog", "thing/car"]
    few_shot = FolderEpisodes().read_images(path)
    assert [image.label for image in few_shot] == ["animal/cat", "animal/dog", "thing/car"]
    path = grouped(tmp_path / "a", "thing/2.pgm")
    assert [image.label for image in FolderEpisodes().read_images(path)] == ["animal", "animal", "thing", "thing"]
    assert [each.label for each in ImageFolders().read(path)] == ["animal", "animal", "thing", "thing"]
    with pytest.raises(InputError, match=r"thing/2.pgm: is above the folders of classes, since data.depth is 2; move"):
        ImageFolders(depth=2).read(path)


def test_an_image_of_pillow():
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(picture(1)))
    assert (read_image(image, 1) == read_image(picture(1), 1)).all()


@pytest.mark.parametrize("recipe", ["vit", "few-shot"])
def test_folders_of_sets_are_recognized(recipe: str, tmp_path: Path):
    path, lines = grouped(tmp_path / "photos", "train/cat/1.pgm", "val/cat/2.pgm"), []
    data = run_file.read(path_of(recipe), [f"data.train={path}"], is_new=True, say=lines.append).data
    assert (data.train, data.valid, data.test) == (f"{path}/train", f"{path}/val", None)
    assert lines == [f"using train/ and val/ of {path}"]
    settings = [f"data.train={path}", "data.valid=mine"]
    assert run_file.read(path_of(recipe), settings, is_new=True).data.valid == "mine"


LEVELS = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)


def idx(folder: Path) -> str:
    path = folder / "some-images-idx3-ubyte"
    path.write_bytes(bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in LEVELS.shape) + LEVELS.tobytes())
    return str(path)


def test_a_file_of_several_images_wants_a_place(tmp_path: Path):
    path = idx(tmp_path)
    with pytest.raises(InputError, match=f"{path}: has more than one image; name one, as {path}:1"):
        image_at(path)
    with pytest.raises(InputError, match=f"{path}:4: the file has no image with this number"):
        image_at(f"{path}:4")


def test_a_row_of_parquet_has_the_bytes_of_a_file(tmp_path: Path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "images.parquet")
    parquet.write_table(pa.table({"picture": [b"one", b"two"]}), path)
    assert first_image(path) == f"{path}:1"
    assert image_at(f"{path}:2", "picture") == b"two"
    images = [{"bytes": b"one", "path": "1.png"}, {"bytes": None, "path": "2.png"}]  # as datasets writes them
    parquet.write_table(pa.table({"image": images, "label": [0, 1]}), path)
    assert [image_at(f"{path}:{number}") for number in (1, 2)] == [b"one", "2.png"]
    reader = RowReader({"image": "image"})
    rows = [row.content for span in reader.spans(path, 2) for row in reader.rows(span, RowCollector(path, False))]
    assert rows == [{"image": b"one"}, {"image": "2.png"}]


def test_other_texts_are_paths(tmp_path: Path):
    (tmp_path / "a.csv:2").touch()
    assert [image_at(text) for text in ("bag.png", "none.csv:2")] == ["bag.png", "none.csv:2"]
    assert image_at(str(tmp_path / "a.csv:2")) == str(tmp_path / "a.csv:2")
    assert first_image(str(tmp_path / "none.csv")) is first_image(str(tmp_path)) is first_image(None) is None


def test_rows_in_spans(tmp_path: Path):
    reader, path = RowReader({"image": "image"}), idx(tmp_path)
    spans = list(reader.spans(path, 2))
    rows = [row for span in spans for row in reader.rows(span, RowCollector(path, skip_bad=False))]
    assert [span.rows for span in spans] == [2, 1]
    assert np.array_equal([row.content["image"] for row in rows], LEVELS)  # pyright: ignore[reportArgumentType]


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
            form = {"cls": str(label).encode(), "json": json.dumps({"label": CLASSES[label], "more": 1}).encode()}
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


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"1.cls": b"a"}, r"x.tar: sample '1' \(.cls\): has no image; expected one, such as .jpg"),
        ({"1.png": b"a"}, r"x.tar: sample '1' \(.png\): has no class; expected one under 'label'"),
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
    options = [f"data.train={shards(tmp_path / 'shards', 40, 20)}/*.tar", "data.held_out=0.25"]
    options += [f"data.classes=[{', '.join(CLASSES)}]"]
    options += ["model={name: vit, image: 8, patch: 4, width: 16, heads: 2, layers: 1}"]
    options += ["training={steps: 3, warmup: 0, batch_tokens: 64, threads: 1, precision: fp32}"]
    config = run_file.read(path_of("vit"), options)
    result = launch.train(config, tmp_path / "run")
    assert 0 <= result["valid/accuracy"] <= 100
    again = launch.train(config, tmp_path / "again")
    assert all(again[name] == result[name] for name in ("valid/accuracy", "valid/macro-f1"))

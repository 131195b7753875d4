"""Sets of images: folders of classes, IDX files, faulty files, and augmentation in training."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from regard.config.file_kinds import recognizes
from regard.data.images import IdxImages, ImageFolders, ImageTables
from regard.errors import InputError
from regard.images import Augmentation, warp
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.tasks.few_shot import FolderEpisodes, TableEpisodes
from regard.tasks.image_classification.config import ImageClassification
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
def test_row_19_an_idx_file_that_is_cut(left: int, suffix: str, tmp_path: Path):
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
    with pytest.raises(InputError, match=r"there are 'file_name', 'category'; name yours with --set data.image=COLUMN"):
        ImageTables().read(str(table))
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


@pytest.mark.parametrize("data", [ImageFolders, FolderEpisodes])
def test_folders_of_groups(data: type[ImageFolders | FolderEpisodes], tmp_path: Path):
    path = grouped(tmp_path / "a", "thing/car/1.pgm", "animal/cat/1.pgm", "animal/dog/inner/1.pgm")
    with pytest.raises(InputError, match=r"its folders have no images of their own, .* such as animal/cat; set --set"):
        data().read(path)
    assert [each.label for each in data(depth=1).read(path)] == ["animal", "animal", "thing"]
    assert [each.label for each in data(depth=2).read(path)] == ["animal/cat", "animal/dog", "thing/car"]
    path = grouped(tmp_path / "a", "thing/2.pgm")
    assert [each.label for each in data().read(path)] == ["animal", "animal", "thing", "thing"]
    with pytest.raises(InputError, match=r"thing/2.pgm: is above the folders of classes, since data.depth is 2; move"):
        data(depth=2).read(path)

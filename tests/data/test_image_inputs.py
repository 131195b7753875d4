"""Images to predict from in files of many images: rows of grey levels, IDX, Parquet."""

from pathlib import Path

import numpy as np
import pytest

from regard.data.bad_records import RowCollector
from regard.data.image_inputs import first_image, image_at, reader_of
from regard.errors import InputError

LEVELS = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
NAMES = [f"pixel{number}" for number in range(9)]


def table(folder: Path, *, label: bool = True, delimiter: str = ",") -> str:
    """A table of the three images, of classes 5, 6 and 7."""
    head = [delimiter.join(["label"] * label + NAMES)]
    rows = [[number + 5] * label + [*map(int, image.ravel())] for number, image in enumerate(LEVELS)]
    path = folder / ("digits.csv" if label else "unlabelled.csv")
    path.write_text("\n".join([*head, *(delimiter.join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return str(path)


def idx(folder: Path) -> str:
    path = folder / "some-images-idx3-ubyte"
    path.write_bytes(bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in LEVELS.shape) + LEVELS.tobytes())
    return str(path)


@pytest.mark.parametrize("label", [True, False])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_line_of_a_table_of_pixels_is_an_image(label: bool, delimiter: str, tmp_path: Path):
    path = table(tmp_path, label=label, delimiter=delimiter)
    assert first_image(path) == first_image(str(tmp_path)) == f"{path}:2"
    for number, expected in enumerate(LEVELS, 2):
        assert np.array_equal(np.asarray(image_at(f"{path}:{number}")), expected)


def test_a_file_of_several_images_wants_a_place(tmp_path: Path):
    path = table(tmp_path)
    with pytest.raises(InputError, match=f"{path}: has more than one image; name one, as {path}:2, or read all with"):
        image_at(path)


def test_images_of_idx_count_from_1(tmp_path: Path):
    path = idx(tmp_path)
    assert first_image(path) == f"{path}:1"
    assert np.array_equal(np.asarray(image_at(f"{path}:3")), LEVELS[2])


def test_a_row_of_parquet_has_the_bytes_of_a_file(tmp_path: Path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "images.parquet")
    parquet.write_table(pa.table({"picture": [b"one", b"two"]}), path)
    assert first_image(path) == f"{path}:1"
    assert image_at(f"{path}:2", "picture") == b"two"
    images = [{"bytes": b"one", "path": "1.png"}, {"bytes": None, "path": "2.png"}]  # as datasets writes them
    parquet.write_table(pa.table({"image": images, "label": [0, 1]}), path)
    assert [image_at(f"{path}:{number}") for number in (1, 2)] == [b"one", "2.png"]
    reader = reader_of({"image": "image"})
    rows = [row.content for span in reader.spans(path, 2) for row in reader.rows(span, RowCollector(path, False))]
    assert rows == [{"image": b"one"}, {"image": "2.png"}]


def test_other_texts_are_paths(tmp_path: Path):
    (tmp_path / "a.csv:2").touch()
    assert [image_at(text) for text in ("bag.png", "none.csv:2")] == ["bag.png", "none.csv:2"]
    assert image_at(str(tmp_path / "a.csv:2")) == str(tmp_path / "a.csv:2")
    assert first_image(str(tmp_path / "none.csv")) is first_image(str(tmp_path)) is first_image(None) is None


def test_a_place_without_an_image(tmp_path: Path):
    path = table(tmp_path)
    for number in (1, 5):
        with pytest.raises(InputError) as refused:
            image_at(f"{path}:{number}")
        assert str(refused.value) == f"{path}:{number}: is no image; the file has them from {path}:2 to {path}:4"


def test_a_bad_row_is_refused_and_others_are_read(tmp_path: Path):
    path = table(tmp_path)
    Path(path).write_text(Path(path).read_text(encoding="utf-8").replace("5,0,1,", "5,0,300,"), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        image_at(f"{path}:2")
    assert str(refused.value) == f"{path}:2: pixel 2 is '300'; expected a whole number from 0 to 255"
    assert np.array_equal(np.asarray(image_at(f"{path}:3")), LEVELS[1])
    reader, collector = reader_of({"image": "image"}), RowCollector(path, skip_bad=True)
    (span,) = reader.spans(path, 10)
    assert [row.number for row in reader.rows(span, collector)] == [3, 4]
    assert (span.rows, collector.skipped) == (3, 1)


def test_rows_in_spans(tmp_path: Path):
    reader = reader_of({"image": "image"})
    for path in (table(tmp_path, label=False), idx(tmp_path)):
        spans = list(reader.spans(path, 2))
        rows = [row for span in spans for row in reader.rows(span, RowCollector(path, skip_bad=False))]
        assert [span.rows for span in spans] == [2, 1]
        assert np.array_equal([row.content["image"] for row in rows], LEVELS)  # pyright: ignore[reportArgumentType]

"""Images to predict from in files of many images: IDX and Parquet."""

from pathlib import Path

import numpy as np
import pytest

from regard.data.inputs import RowReader, first_image, image_at
from regard.data.rows import RowCollector
from regard.errors import InputError

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

"""Tables with an image in each row, a column for each pixel, as Kaggle's of digits and Fashion-MNIST."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from regard.data.image_tables import ImageTables
from regard.errors import InputError

NAMES = [f"pixel{number}" for number in range(9)]
LEVELS = [[0, 17, 255, 3, 4, 5, 6, 7, 8], [9, 9, 9, 1, 1, 1, 2, 2, 2]]


def table(folder: Path, names: Sequence[str], rows: Sequence[Sequence[object]], name: str = "digits.csv") -> str:
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / name)


@pytest.mark.parametrize("names", [NAMES, [f"{row}x{column}" for row in (1, 2, 3) for column in (1, 2, 3)]])
def test_rows_of_grey_levels_are_images(names: list[str], tmp_path: Path):
    path = table(tmp_path, ["label", *names], [[5, *LEVELS[0]], [0, *LEVELS[1]]])
    for named in (path, str(tmp_path)):
        found = ImageTables().read(named)
        assert [(each.label, each.place) for each in found] == [("5", f"{path}:2"), ("0", f"{path}:3")]
        assert [np.asarray(each.image).tolist() for each in found] == [
            np.reshape(each, (3, 3)).tolist() for each in LEVELS
        ]


def test_the_column_of_the_class_may_have_another_name_and_be_the_last(tmp_path: Path):
    path = table(tmp_path, [*NAMES, "class"], [[*LEVELS[0], "shoe"]])
    assert [each.label for each in ImageTables(label="class").read(path)] == ["shoe"]
    with pytest.raises(InputError) as refused:
        ImageTables().read(path)
    assert str(refused.value) == (
        f"{path}: no column 'label' beside its 9 columns of pixels, but 'class'; name the column of the classes with "
        "--set data.label=COLUMN"
    )


def test_a_table_of_pixels_alone_has_no_classes(tmp_path: Path):
    path = table(tmp_path, NAMES, [LEVELS[0]])
    with pytest.raises(InputError, match="9 columns of pixels, and no other one; its images have no classes"):
        ImageTables().read(path)


def test_lines_of_json(tmp_path: Path):
    path = tmp_path / "digits.jsonl"
    path.write_text(json.dumps({"label": 7} | dict(zip(NAMES, LEVELS[0], strict=True))) + "\n", encoding="utf-8")
    (found,) = ImageTables().read(str(path))
    assert (found.label, np.asarray(found.image).ravel().tolist()) == ("7", LEVELS[0])


def test_an_image_that_is_not_square(tmp_path: Path):
    path = table(tmp_path, ["label", *NAMES[:8]], [[5, *LEVELS[0][:8]]])
    with pytest.raises(InputError) as refused:
        ImageTables().read(path)
    assert str(refused.value) == (
        f"{path}: 8 columns of pixels, which is no square; expected grey square images, such as 784 columns for 28 x "
        "28; write others as image files"
    )


@pytest.mark.parametrize("cell", ["256", "-1", "0.5", "x"])
def test_a_pixel_that_is_no_grey_level(cell: str, tmp_path: Path):
    path = table(tmp_path, ["label", *NAMES], [[5, *LEVELS[0]], [5, 1, 2, cell, *LEVELS[0][3:]]])
    with pytest.raises(InputError, match=rf"csv:3: pixel 3 is '{cell}'; expected a whole number from 0 to 255"):
        ImageTables().read(path)
    assert len(ImageTables(skip_bad=True).read(path)) == 1


def test_a_table_of_files_may_have_numbered_columns_beside(tmp_path: Path):
    (tmp_path / "1.png").touch()
    path = table(tmp_path, ["image", "label", *NAMES], [["1.png", "cat", *LEVELS[0]]])
    assert [each.image for each in ImageTables().read(path)] == [tmp_path / "1.png"]

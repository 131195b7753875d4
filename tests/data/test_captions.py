"""Scenes whose captions are true, and tables of images and captions."""

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.images import digest_image
from regard.errors import InputError
from regard.tasks.image_captioning.data import (
    COLORS,
    RELATIONS,
    SHAPES,
    CaptionTables,
    Scenes,
    collate_captions,
    make_scene,
)
from regard.text.special import END, IGNORED, PAD, START


def test_what_is_said_is_true():
    """Read off the pixels: what has the colour that is said lies where it is said, within its box."""
    for number in range(50):
        each = make_scene(Random(number), 48, "x")
        assert isinstance(each.image, np.ndarray)
        assert len(each.captions) in (2, 4)
        for caption in each.captions:
            _, colour, shape, _, relation, *rest = caption.split()
            other_colour, other = rest[-2:]
            found = {}
            for name, kind in ((colour, shape), (other_colour, other)):
                rows, columns = np.nonzero((each.image == COLORS[name]).all(-1))
                top, left, bottom, right = each.boxes[kind]
                assert (rows.min() / 48, columns.min() / 48) >= (top - 0.03, left - 0.03)
                assert (rows.max() + 1) / 48 <= bottom + 0.03
                assert (columns.max() + 1) / 48 <= right + 0.03
                found[kind] = {"down": (rows.min(), rows.max()), "across": (columns.min(), columns.max())}
            way = "down" if relation in ("above", "below") else "across"
            first, second = (shape, other) if relation in ("above", "left") else (other, shape)
            assert found[first][way][1] < found[second][way][0]


def test_every_shape_is_drawn_and_sets_differ():
    splits = Scenes(train=80, valid=3, test=3).load()
    said = " ".join(caption for each in splits.train for caption in each.captions)
    assert all(word in said for word in (*SHAPES, *COLORS, *sum(RELATIONS.values(), ())))
    assert [each.captions for each in splits.valid] != [each.captions for each in splits.train[:3]]
    again = Scenes(train=80, valid=3, test=3).load().train
    assert [digest_image(each.image) for each in again] == [digest_image(each.image) for each in splits.train]
    with pytest.raises(InputError, match="scenes: size is 8; expected 16 to 256 pixels"):
        Scenes(size=8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    lines = []
    for number, split in enumerate(("train", "train", "val", "test")):
        (tmp_path / "images" / f"{number}.png").write_bytes(b"an image")
        lines.append(json.dumps({"image": f"{number}.png", "captions": ["a b", "c"], "split": split, "part": "a"}))
    (tmp_path / "all.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_one_table_with_all_sets_or_one_a_set(folder: Path):
    table, images = str(folder / "all.jsonl"), str(folder / "images")
    splits = CaptionTables(train=table, images=images, split="split").load()
    assert [len(each) for each in (splits.train, splits.valid, splits.test)] == [2, 1, 1]
    assert (splits.train[1].captions, splits.train[1].place) == (("a b", "c"), f"{table}:2")
    assert splits.train[1].image == folder / "images" / "1.png"
    several = CaptionTables(train=table, valid=table, images=images)
    assert [len(each) for each in (several.load().train, several.load().valid, several.tests())] == [4, 4, 0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train": None}, "data.train is not given; expected a table of images and captions"),
        ({"split": "split", "valid": "x"}, "captions: with split all sets are in the file train"),
        ({"split": "part"}, "part is 'a'; expected one of train, valid, val, dev, test"),
        ({"split": "image"}, "data.split and data.image name one column, 'image'; expected a column for each"),
        ({"split": "split", "images": "nowhere"}, "no image 0.png in nowhere; set data.images to the folder"),
        ({"split": "splt"}, "'splt'"),
    ],
)
def test_row_19_tables_that_do_not_fit(folder: Path, settings: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        CaptionTables(**{"train": str(folder / "all.jsonl"), "images": str(folder / "images"), **settings}).load()


def test_a_batch():
    batch = collate_captions([(torch.zeros(1, 2, 2), [7, 8]), (torch.ones(1, 2, 2), [9])], cells=4)
    assert batch.images.shape == (2, 1, 2, 2)
    assert batch.source_lengths.tolist() == [4, 4]
    assert batch.target_in.tolist() == [[START, 7, 8], [START, 9, PAD]]
    assert batch.target_out.tolist() == [[7, 8, END], [9, END, IGNORED]]
    assert batch.target_tokens == 5

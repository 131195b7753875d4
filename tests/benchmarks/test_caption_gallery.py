"""The choice of a gallery's captions, and its pictures."""

from pathlib import Path

import pytest

from benchmarks import caption_gallery
from benchmarks.caption_gallery import chosen
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from tests.tasks.test_image_captioning import MODEL, settings, squares

REFERENCES = [["a dog runs", "the dog"], ["two cats"], ["a hat"], ["a red car drives by"]]


def test_right_is_what_a_reference_says():
    outputs = ["a cat", "Two cats.", "no hat", "a red car drives by"]
    assert chosen(outputs, REFERENCES, 1) == {"right": [1], "wrong": [0]}
    assert chosen(outputs, REFERENCES, 7) == {"right": [1, 3], "wrong": [0, 2]}


def test_where_none_is_right_the_nearest_are_shown_and_the_farthest():
    outputs = ["the dog runs", "x", "no car", "a red car drives"]
    assert chosen(outputs, REFERENCES, 1) == {"nearest": [3], "farthest": [2]}
    assert chosen(outputs, REFERENCES, 7) == {"nearest": [3, 0], "farthest": [2, 1]}
    assert chosen([], [], 3) == {"nearest": [], "farthest": []}


def test_a_run_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    given = settings(squares(tmp_path / "images", 60, 1))
    more = [
        f"model={MODEL}",
        "training.steps=1",
        "training.warmup=0",
        "search={beam: 1, length_extra: 4}",
        "tokenizer.minimum_count=1",
    ]
    launch.train(run_file.read(path_of("captions"), [*given, *more]), tmp_path / "run")
    caption_gallery.main(str(tmp_path / "run"), str(tmp_path / "gallery"), "1")
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 captions are drawn; the page is ")
    page = (tmp_path / "gallery" / "README.md").read_text()
    drawn = sorted(path.name for path in (tmp_path / "gallery").glob("*.png"))
    assert drawn in (["right-1.png", "wrong-1.png"], ["farthest-1.png", "nearest-1.png"])
    assert all(f"]({name})" in page for name in drawn)
    assert page.count("Wanted: ") == 2

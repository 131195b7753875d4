"""Bad records of each kind of data: refused with their place and the option, or with the option skipped and counted."""

import pickle
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from regard.data.images import ImageFolders
from regard.data.rows import BadRecord
from regard.errors import InputError

Regard = Callable[..., tuple[int, str, str]]
TINY = {
    "spans": "model.layers=1 model.width=8 model.heads=2 model.hidden=8 data.train=q.csv data.answer=answer",
    "spoken-digits": "model.reader=8 model.width=8 model.attention=8 data.train=sounds.csv masking.time=0",
    "vit": "model.layers=1 model.width=8 model.heads=2 model.hidden=8 data.train=pictures",
}
BAD = {
    "spans": ("q.csv:3: the answer 'the Cat' is not in the context; correct it", "q.csv: skipped 1 of 40 records"),
    "spoken-digits": (
        "sounds.csv:3: bad.wav: cut short, its header promises 4,000 samples but it has 978",
        "sounds.csv: skipped 1 of 40 records",
    ),
    "vit": ("pictures/c/1.png: broken, truncated or unusual image", "pictures: skipped 1 of 40 records"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """40 records of each kind, one of them bad, in the folder of the command."""
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    for label in "abcdefgh":
        (tmp_path / "pictures" / label).mkdir(parents=True)
        for number in range(5):
            pixels = np.full((16, 16), 16 * number + ord(label), np.uint8)
            image.fromarray(pixels).save(tmp_path / "pictures" / label / f"{number}.png")
    broken = (tmp_path / "pictures" / "c" / "1.png").read_bytes()[:50]
    (tmp_path / "pictures" / "c" / "1.png").write_bytes(broken)
    for number in range(40):
        with wave.open(str(tmp_path / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 4000, "NONE", ""))
            file.writeframes(np.full(4000, 99 * number, "<i2").tobytes())
    (tmp_path / "bad.wav").write_bytes((tmp_path / "1.wav").read_bytes()[:2000])
    rows = ["question,context,answer", *[f"Who won {n}?,The cat won {n}.,The cat" for n in range(40)]]
    rows[2] = "Who won 1?,The cat won 1.,the Cat"
    write("q.csv", rows)
    rows = ["audio,transcript", *[f"{number}.wav,one two" for number in range(40)]]
    rows[2] = "bad.wav,one two"
    write("sounds.csv", rows)
    return tmp_path


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def options(recipe: str, *more: str) -> list[str]:
    settings = [*TINY[recipe].split(), "training.steps=1", "training.batch_tokens=256", *more]
    return [part for each in settings for part in ("--set", each)]


@pytest.mark.parametrize("recipe", BAD)
def test_a_bad_record_is_refused_or_skipped(recipe: str, folder: Path, regard: Regard):
    said, counted = BAD[recipe]
    code, _, errors = regard("train", recipe, "--out", "run", *options(recipe))
    assert code == 2, errors
    assert said in errors.splitlines()[-1]
    assert errors.splitlines()[-1].endswith(" or leave such records out with --set data.skip_bad=true")
    code, _, errors = regard("train", recipe, "--out", "run", *options(recipe, "data.skip_bad=true"))
    assert code == 0, errors
    assert errors.count("skipped") == errors.count(f"regard: {counted} (first: ") == 1
    file = next(each.removeprefix("data.train=") for each in TINY[recipe].split() if each.startswith("data.train="))
    code, _, errors = regard("evaluate", "run", file, "--skip-bad")
    assert code == 0, errors
    assert counted in errors


def test_a_bad_record_of_an_evaluation_names_its_own_option(folder: Path, regard: Regard):
    Path("good.csv").write_text(Path("q.csv").read_text().replace("the Cat", "The cat"))
    code, _, errors = regard("train", "spans", "--out", "run", *options("spans", "data.train=good.csv"))
    assert code == 0, errors
    code, _, errors = regard("evaluate", "run", "q.csv")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert errors.rstrip().endswith("is not in the context; correct it, or leave such records out with --skip-bad")


def test_bad_records_are_skipped_before_some_are_held_out(folder: Path, regard: Regard):
    write("two.csv", ["audio,transcript", "1.wav,one", "bad.wav,two", "3.wav,three", "bad.wav,four"])
    code, _, errors = regard(
        "train",
        "spoken-digits",
        "--out",
        "run",
        *options("spoken-digits", "data.train=two.csv", "data.skip_bad=true", "training.batch_tokens=51"),
    )
    assert "two.csv: skipped 2 of 4 records" in errors
    assert code == 0, errors
    assert "1 sounds, 0.00 hours to train on, 1 to validate" in errors


def test_no_usable_record(folder: Path, regard: Regard):
    for file in folder.glob("pictures/*/*.png"):
        file.write_bytes(b"no image")
    code, _, errors = regard("train", "vit", "--out", "run", *options("vit", "data.skip_bad=true"))
    assert code == 2
    assert "pictures: no usable record" in errors.splitlines()[-1]


def test_files_that_are_no_images_by_their_names(folder: Path):
    (folder / "pictures" / "a" / "notes.txt").write_text("not an image")
    with pytest.raises(InputError, match=r"a/notes.txt: is no image by its name; .*data.skip_bad=true$"):
        ImageFolders().read("pictures")
    assert len(ImageFolders(skip_bad=True).read("pictures")) == 39  # and without the broken one


def test_a_bad_record_is_pickled():
    error = BadRecord("t.csv:3: bad")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)

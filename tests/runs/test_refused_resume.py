"""A resume that is refused leaves a finished run as it was."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import InputError
from regard.storage.manifest import sha256

SIZES = {"width": 8, "heads": 2, "layers": 1, "hidden": 8}
TRAINING = {"steps": 2, "warmup": 1, "batch_tokens": 64, "validate_every": 0, "tensorboard": False}


def write_table(path: Path, *rows: str) -> str:
    path.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return str(path)


def settings(data: str, **model: int) -> dict[str, Any]:
    return {"data": {"train": data}, "tokenizer": {"kind": "character"}, "model": {**SIZES, **model}}


def digests(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(folder)): sha256(path) for path in paths}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    rows = [f"{text} {number},{label}" for number in range(40) for text, label in (("good", "pos"), ("bad", "neg"))]
    data = write_table(folder / "rows.csv", *rows)
    regard.train("classify", folder / "run", training=TRAINING, **settings(data))
    return folder


def refuse(folder: Path, data: str, training: dict[str, Any], **model: int) -> str:
    before = digests(folder / "run")
    with pytest.raises(InputError) as error:
        regard.train(
            "classify", folder / "run", resume=True, allow_change=True, training=training, **settings(data, **model)
        )
    assert digests(folder / "run") == before
    assert regard.load(folder / "run").predict(["good 1"])
    return str(error.value)


def test_another_width_names_the_key_and_a_way_on(finished: Path, tmp_path: Path):
    shutil.copytree(finished, tmp_path / "copy")
    message = refuse(tmp_path / "copy", str(finished / "rows.csv"), {**TRAINING, "steps": 4}, width=16)
    assert "configuration.model.width: 8 in the run, 16 now" in message
    assert "training.start=" in message
    assert "Remove this folder" not in message


def test_a_new_class_is_named(finished: Path, tmp_path: Path):
    shutil.copytree(finished, tmp_path / "copy")
    rows = (finished / "rows.csv").read_text(encoding="utf-8").splitlines()[1:]
    data = write_table(tmp_path / "more.csv", *rows, *["new,third"] * 4)
    message = refuse(tmp_path / "copy", data, {**TRAINING, "steps": 4})
    assert "'third' is new" in message

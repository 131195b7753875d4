"""Images with captions in tar files and Parquet tables: the same on disk as in memory, read when they are needed."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data import cache
from regard.data.cache import CachedChunks, CachedSet
from regard.errors import InputError
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.storage import cache_folder
from regard.storage.run_folder import RunDirectory
from regard.tasks.catalog import TASKS
from regard.tasks.image_captioning.data import CaptionShards
from tests.data.tar_files import packed

CAPTIONS = ("a red bag", "a blue shoe on a table", "two shirts")


@pytest.fixture(autouse=True)
def everything_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(cache, "SMALL", 1)
    monkeypatch.setattr("regard.data.shards.ROWS", 16)
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "cache"))


def picture(number: int) -> bytes:
    image = pytest.importorskip("PIL.Image")
    content = io.BytesIO()
    image.fromarray(np.full((9, 9), 20 * number % 251, dtype=np.uint8)).save(content, "PNG")
    return content.getvalue()


def captions(number: int) -> list[str]:
    return [CAPTIONS[number % 3]] * (1 + number % 2)


def shards(folder: Path, ending: str, count: int = 24) -> str:
    for first in range(0, count, 10):
        files, numbers = {}, range(first, min(count, first + 10))
        for number in numbers:
            files[f"{number:04}.png"] = picture(number)
            text = "\n".join(captions(number)) if ending == "txt" else json.dumps({"captions": captions(number)})
            files[f"{number:04}.{ending}"] = text.encode()
        if ending != "parquet":
            packed(folder / f"{first:04}.tar", files)
            continue
        import pyarrow
        import pyarrow.parquet

        folder.mkdir(exist_ok=True)
        rows = [{"image": picture(number), "captions": captions(number)} for number in numbers]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{first:04}.parquet", row_group_size=4)
    return str(folder)


@pytest.mark.parametrize("ending", ["txt", "json", "parquet"])
@pytest.mark.parametrize("given", [True, False], ids=["valid", "held out"])
def test_captions_on_disk_are_those_in_memory(
    ending: str, given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = shards(tmp_path / "images", ending)
    data = CaptionShards(train=path, valid=path if given else None, held_out=0.25)
    disk = data.load()
    monkeypatch.setattr(cache, "SMALL", 1 << 30)
    memory = data.load()
    assert isinstance(disk.train, CachedSet)
    assert isinstance(memory.train, list)
    assert len(disk.train) == (24 if given else 18)
    for name, some in memory.named.items():
        found = [(each.image, each.captions, each.place) for each in disk.named[name]]
        assert found == [(each.image, each.captions, each.place) for each in some]
    pictures = [picture(number) for number in range(24)]
    assert all(each.image in pictures for each in disk.train)
    assert {each.captions[0] for each in disk.train} == set(CAPTIONS)


def test_a_setup_from_disk_is_one_from_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, found = shards(tmp_path / "images", "txt"), []
    sizes = ["model.stages=[4]", "model.embedding=8", "model.width=8", "model.attention=8", "tokenizer.minimum_count=1"]
    settings = [f"data.train={path}/*.tar", *sizes, "training.batch_tokens=512", "model.image=16"]
    config: Any = run_file.read(path_of("captions"), settings)
    assert isinstance(config.data, CaptionShards)
    for folder, small in (("disk", 1), ("memory", 1 << 30)):
        monkeypatch.setattr(cache, "SMALL", small)
        with RunDirectory.create(tmp_path / folder) as run:
            found.append(TASKS[config.task].setup(config, run, 1))
    disk, memory = found
    assert isinstance(disk.objective.captions.items, CachedChunks)
    assert (disk.digest, disk.summary) == (memory.digest, memory.summary)
    assert disk.data.lines() == memory.data.lines()
    batches = list(disk.objective.batches(1))
    assert batches == list(memory.objective.batches(1))
    one, other = (each.objective.batch(1, batches[0]) for each in found)
    assert one.images.equal(other.images)
    assert one.target_out.equal(other.target_out)
    assert [disk.objective.place(each) for each in batches[0]] == [memory.objective.place(each) for each in batches[0]]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.png": b"x"}, r"a.tar: sample 'a': has no caption; expected a .txt file, or a .json file with 'captions'"),
        ({"a.png": b"x", "a.txt": b" \n"}, r"sample 'a': has no caption"),
        ({"a.png": b"x", "a.json": b'{"captions": [1]}'}, r"sample 'a': has no caption"),
        ({"a.txt": b"x"}, r"sample 'a' has no image"),
    ],
)
def test_samples_without_captions(files: dict[str, bytes], message: str, tmp_path: Path):
    packed(tmp_path / "a.tar", files)
    with pytest.raises(InputError, match=message):
        CaptionShards(train=str(tmp_path / "a.tar")).load()

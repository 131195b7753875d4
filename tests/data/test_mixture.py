"""Mixtures: each file's training examples come as often as its share says; validation sets have none of them."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.data import cache
from regard.data.cache import CachedSet
from regard.data.pairs import Pair, Parallel, Table
from regard.data.texts import RunningText
from regard.errors import InputError
from regard.storage import cache_folder
from regard.tasks.classification.data import LabelledTables

SIZES = {"news": 40, "own": 7, "web": 25}


@pytest.fixture(params=[False, True], ids=["in memory", "on disk"])
def large(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        pytest.importorskip("pyarrow")
        monkeypatch.setattr(cache, "SMALL", 1)
        monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "cache"))
    return request.param


def written(folder: Path, ending: str, row: Callable[[str, int], str], header: str = "") -> str:
    folder.mkdir(parents=True)
    for name, count in SIZES.items():
        lines = ([header] if header else []) + [row(name, number) for number in range(count)]
        (folder / (name + ending)).write_text("\n".join(lines) + "\n")
    return str(folder)


def sides(folder: Path) -> tuple[str, str]:
    one, other = (written(folder / side, ".txt", lambda name, number: f"{name} {number}") for side in ("de", "en"))
    return one, other


def counts(files: list[str]) -> dict[str, int]:
    return dict(Counter(Path(file).stem for file in files))


def test_parallel_texts(large: bool, tmp_path: Path):
    train = sides(tmp_path)
    data = Parallel(train=train, valid=train, mixture={"news*": 0.5, "*/own.txt": 3.0, "*": 1.0})
    found = data.load()
    assert isinstance(found.train, CachedSet) is large
    assert counts([pair.place.split(":")[0] for pair in found.train]) == {"news": 20, "own": 21, "web": 25}
    assert len(found.valid) == sum(SIZES.values())
    assert all(pair.source == pair.target for pair in found.train)
    own = Counter(pair.source for pair in found.train if pair.source.startswith("own"))
    assert set(own.values()) == {3}
    assert len({pair.source for pair in found.train if pair.source.startswith("news")}) == 20
    assert list(data.load().train) == list(found.train)


def test_examples_held_out_are_not_repeated(large: bool, tmp_path: Path):
    train = sides(tmp_path)
    plain = Parallel(train=train, held_out=0.25).load()
    mixed = Parallel(train=train, held_out=0.25, mixture={"own*": 2.5, "web*": 0.0}).load()
    assert list(mixed.valid) == list(plain.valid)
    assert {pair.source for pair in mixed.train} <= {pair.source for pair in plain.train}
    before = counts([pair.place.split(":")[0] for pair in plain.train])
    expected = {"news": before["news"], "own": 2 * before["own"] + round(before["own"] / 2)}
    assert counts([pair.place.split(":")[0] for pair in mixed.train]) == expected


def test_tables(tmp_path: Path):
    folder = written(tmp_path / "a", ".csv", lambda name, number: f"{name} {number},{number % 2}", "text,label")
    found = LabelledTables(train=folder, held_out=0.2, mixture={"news.csv": 2.0, "web*": 0.5}).load()
    train = Counter(each.texts[0] for each in found.train)
    assert not set(train) & {each.texts[0] for each in found.valid}
    assert {count for text, count in train.items() if text.startswith("news")} == {2}
    pairs = Table(train=folder, source="text", target="label", mixture={"own*": 0.0, "web*": 0.0}).load()
    assert {pair.source.split()[0] for pair in pairs.train} == {"news"}


def test_running_text(large: bool, tmp_path: Path):
    folder = written(tmp_path / "a", ".txt", lambda name, number: f"{name} {number}")
    valid = tmp_path / "valid.txt"
    valid.write_text("valid\n")
    found = RunningText(train=folder, valid=str(valid), mixture={"own*": 2.43, "news*": 0.25}).load()
    assert list(found.train) == [
        *(f"news {number}" for number in range(10)),
        *(f"own {number}" for number in (*range(7), *range(7), *range(3))),
        *(f"web {number}" for number in range(25)),
    ]
    with pytest.raises(InputError, match=r"data.mixture needs a validation set that no file of it repeats"):
        RunningText(train=folder, mixture={"own*": 2.0})


def both(folder: str, mixture: dict[str, float]) -> list[Parallel | RunningText]:
    return [
        Parallel(train=(folder, folder), mixture=mixture),
        RunningText(train=folder, valid=folder, mixture=mixture),
    ]


def test_patterns_that_fit_nothing(tmp_path: Path):
    folder = written(tmp_path / "a", ".txt", lambda name, number: f"{name} {number}")
    files = rf"{folder}/news.txt, {folder}/own.txt, {folder}/web.txt"
    for data in both(folder, {"new": 2.0}):
        with pytest.raises(InputError, match=rf"data.mixture: 'new' fits no training file; there are {files}$"):
            data.load()
    for data in both(folder, {"*": 0.0}):
        with pytest.raises(InputError, match=r"data.mixture is \{'\*': 0.0\}: no (example|text) is left to train"):
            data.load()


@pytest.mark.parametrize("sizes", [[1], [2, 1, 1], [3, 5, 1, 700, 64, 63, 65]])
def test_every_file_is_found(sizes: list[int]):
    pairs = [Pair("a", "b", f"{number}:{row}") for number, size in enumerate(sizes) for row in range(size)]
    mixed = Table(train="a.csv", mixture={"*": 2.0}).mix(pairs)
    assert Counter(mixed) == Counter(pairs * 2)

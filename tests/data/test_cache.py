"""Sets on disk have the examples, ids and batches of sets in memory; they are built once, and again when they must."""

import json
import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from regard.data import cache
from regard.data.cache import CachedSet, Ragged, Shard, ShardTable, build_or_open
from regard.data.pairs import Parallel
from regard.data.splits import Splits
from regard.data.texts import RunningText
from regard.data.tokens import Tokenizers
from regard.errors import InputError
from regard.storage import cache_folder
from regard.tasks import base
from regard.tasks.base import train_on_examples
from regard.tasks.language_model.likelihood import token_stream
from regard.tasks.seq2seq.training import digest_pairs, encode_pairs
from regard.text import Tokenizer, TokenizerSettings

WORDS = ["ein", "Haus", "am", "Fluß", "ohne", "Dach", "日本", "🙂", "naïve"]
COUNT = 53


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Everything is large, in shards of 7 rows, and the cache is the test's own."""
    monkeypatch.setattr(cache, "SMALL", 1)
    monkeypatch.setattr(cache, "ROWS", 7)
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "cache"))


def lines(seed: int, count: int = COUNT) -> list[str]:
    dice = Random(seed)
    return [" ".join(dice.choices(WORDS, k=dice.randint(1, 9))) for _ in range(count)]


def written(path: Path, some: Sequence[str]) -> str:
    path.write_text("\n".join(some) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    return written(tmp_path / "a.de", lines(1)), written(tmp_path / "a.en", lines(2))


def both(load: Callable[[], Splits[Any]], monkeypatch: pytest.MonkeyPatch) -> tuple[Splits[Any], Splits[Any]]:
    """The sets on disk, and in memory."""
    on_the_disk = load()
    assert isinstance(on_the_disk.train, CachedSet)
    with monkeypatch.context() as patch:
        patch.setattr(cache, "SMALL", 1 << 30)
        in_the_memory = load()
    assert isinstance(in_the_memory.train, list)
    return on_the_disk, in_the_memory


@pytest.mark.parametrize("given", [True, False], ids=["valid", "held out"])
def test_pairs_on_disk_are_those_in_memory(
    given: bool, files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    valid = (written(tmp_path / "v.de", lines(3, 5)), written(tmp_path / "v.en", lines(4, 5))) if given else None
    disk, memory = both(Parallel(train=files, valid=valid).load, monkeypatch)
    assert list(disk.train) == memory.train == [disk.train[index] for index in range(len(disk.train))]
    assert list(disk.valid) == list(memory.valid)
    assert disk.train[3:11] == memory.train[3:11]
    assert disk.train[-1] == memory.train[-1]
    assert digest_pairs(disk) == digest_pairs(memory)
    again = Parallel(train=files, valid=valid).load()
    assert list(again.train) == memory.train
    assert list(pickle.loads(pickle.dumps(disk.train))) == memory.train
    with pytest.raises(IndexError):
        disk.train[len(memory.train)]


def sources(pairs: Sequence[Any]) -> Iterator[str]:
    return (pair.source for pair in pairs)


def ids_of(table: ShardTable, index: int) -> tuple[list[int], list[int]]:
    shard, row = table.at(index)
    return shard.columns["source"][row].tolist(), shard.columns["target"][row].tolist()


@pytest.mark.parametrize("kind", ["bpe", "word"])
@pytest.mark.parametrize("copying", [True, False])
def test_ids_on_disk_are_those_in_memory(
    kind: Any, copying: bool, files: tuple[str, str], monkeypatch: pytest.MonkeyPatch
):
    disk, memory = both(Parallel(train=files, held_out=0.2).load, monkeypatch)
    settings = TokenizerSettings(kind, 280 if kind == "bpe" else 9)
    tokenizers = [train_on_examples(splits.train, settings, "source", sources) for splits in (disk, memory, disk)]
    assert len({each.digest for each in tokenizers}) == 1
    pair = Tokenizers(tokenizers[0], tokenizers[0], copying)
    for limits in ((None, None), (5, 4)):
        one, other = (encode_pairs(splits.train, pair, limits, truncate=True) for splits in (disk, memory))
        assert one.folder is not None
        assert other.folder is None
        found = [ids_of(one, index) for index in range(len(one))]
        assert found == [ids_of(other, index) for index in range(len(memory.train))]
        assert one.lengths("source", "target").tolist() == [[len(source), len(target)] for source, target in found]
        assert one.count("sources") == other.count("sources")
        if limits[0] is None and not copying:
            assert found == [(pair.source_ids(each.source), pair.target_ids(each.target, "")) for each in memory.train]
    assert one.count("sources") > 0


def test_a_tokenizer_of_a_large_set_is_trained_on_examples_evenly_spaced(
    files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    disk, memory = both(Parallel(train=files, held_out=0.2).load, monkeypatch)
    monkeypatch.setattr(base, "SAMPLE", 3)
    settings, last = TokenizerSettings("word", 100), len(memory.train) - 1
    with caplog.at_level("INFO", "regard"):
        found = train_on_examples(disk.train, settings, "source", sources)
    assert f"tokenizer: trained on 3 of {last + 1} examples, evenly spaced" in caplog.text
    some = [memory.train[place] for place in (0, last // 2, last)]
    assert found.digest == train_on_examples(some, settings, "source", sources).digest
    assert found.digest != train_on_examples(memory.train, settings, "source", sources).digest


@pytest.mark.parametrize("given", [True, False], ids=["valid", "held out"])
def test_running_text_on_disk_is_that_in_memory(given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = [line if number % 6 else "" for number, line in enumerate(lines(5, 90))]
    valid = written(tmp_path / "v.txt", lines(6, 4)) if given else None
    data = RunningText(train=written(tmp_path / "t.txt", text), valid=valid, held_out=0.3)
    disk, memory = both(data.load, monkeypatch)
    assert list(disk.train) == memory.train
    assert list(disk.valid) == list(memory.valid)
    tokenizer = Tokenizer.train(TokenizerSettings("word", 30), memory.train)
    end = tokenizer.special.end
    expected = torch.tensor([end, *(token for text in memory.train for token in [*tokenizer.encode(text), end])])
    for splits in (disk, memory):
        tokens = token_stream(tokenizer, splits.train)
        assert len(tokens) == len(expected)
        for first, last in ((0, 1), (0, len(expected)), (3, 40), (39, 39), (len(expected) - 2, len(expected) + 5)):
            assert torch.equal(tokens[first:last], expected[first:last])


@pytest.mark.parametrize("kind", ["character", "word", "space", "bpe", "wordpiece-uncased"])
def test_texts_together_have_the_ids_of_texts_alone(kind: Any):
    texts = [*lines(7), "", "a\ud800b", "  zwei  "]
    tokenizer = Tokenizer.train(TokenizerSettings(kind, 280), texts)
    assert tokenizer.encode_all(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_all([]) == []


def test_a_fault_in_a_large_file_has_its_line_and_leaves_no_set(files: tuple[str, str], tmp_path: Path):
    bad = lines(2)
    bad[40] = " "
    blank = written(tmp_path / "b.en", bad)
    for _ in range(2):
        with pytest.raises(InputError, match=r"a\.de:41: its partner .*b\.en:41 is blank"):
            Parallel(train=(files[0], blank)).load()
    written(tmp_path / "b.en", lines(2))
    assert len(Parallel(train=(files[0], blank), held_out=0.1).load().train) > 40


def numbers(done: int, first: int = 0, stop: int = 6) -> Iterator[Shard]:
    """Shards of 7 rows of one number each."""
    for number in range(done, stop):
        yield Shard({"number": Ragged.of_ids([[first + 7 * number + row] for row in range(7)])}, {"shards": 1})


def rows(found: ShardTable) -> list[int]:
    return [int(shard.columns["number"][row][0]) for shard in found.shards for row in range(len(shard))]


def build(folder: Path, make: Callable[[int], Iterator[Shard]] = numbers, stamp: str = "a") -> list[int]:
    return rows(build_or_open(folder, {"source": stamp}, make, "numbers", 42))


def never(done: int) -> Iterator[Shard]:
    raise AssertionError("the table is there")


def test_a_table_is_built_once(tmp_path: Path):
    assert build(tmp_path / "set") == list(range(42))
    assert build(tmp_path / "set", never) == list(range(42))
    assert build_or_open(tmp_path / "set", {"source": "a"}, never, "numbers", 42).count("shards") == 6


def slow(folder: Path, note: Path) -> None:
    """Build a table with a rest before each shard, and note each shard that is made here."""

    def make(done: int) -> Iterator[Shard]:
        for shard in numbers(done):
            time.sleep(0.1)
            with note.open("a") as file:
                file.write("x")
            yield shard

    build(folder, make)


def test_a_killed_build_loses_one_shard(tmp_path: Path):
    process = multiprocessing.get_context("fork").Process(target=slow, args=(tmp_path / "set", tmp_path / "note"))
    process.start()
    while not (tmp_path / "set" / "000001.crc").exists():
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    values = tmp_path / "set" / "000001" / "number.values.npy"
    content = bytearray(values.read_bytes())
    values.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    made = []

    def rest(done: int) -> Iterator[Shard]:
        made.append(done)
        return numbers(done)

    assert build(tmp_path / "set", rest) == list(range(42))
    assert made[0] == 1  # the damaged shard is written again
    assert not [path for path in (tmp_path / "set").iterdir() if path.suffix == ".tmp"]


def changed_byte(folder: Path) -> None:
    path = folder / "000003" / "number.values.npy"
    content = bytearray(path.read_bytes())
    place = content.rindex(bytes([23, 0, 0, 0]))  # the number 23 of the fourth shard
    content[place] = 99
    path.write_bytes(content)


def cut(folder: Path) -> None:
    path = folder / "000005" / "number.values.npy"
    path.write_bytes(path.read_bytes()[:-9])


def older(folder: Path) -> None:
    about = json.loads((folder / "complete.json").read_text())
    (folder / "complete.json").write_text(json.dumps(about | {"version": 0}))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (changed_byte, "000003 is damaged; it is built again"),
        (cut, "000005 is damaged; it is built again"),
        (lambda folder: shutil.rmtree(folder / "000002"), "No such file"),
        (lambda folder: (folder / "complete.json").write_text("{"), "is damaged (Expecting property name"),
        (older, "is of version 0; it is built again"),
    ],
    ids=["a byte", "an end", "a shard", "the list", "the version"],
)
def test_a_damaged_table_is_built_again(harm: Callable[[Path], Any], message: str, tmp_path: Path, caplog):
    assert build(tmp_path / "set") == list(range(42))
    harm(tmp_path / "set")
    with caplog.at_level(logging.WARNING):
        assert build(tmp_path / "set") == list(range(42))
    assert message in caplog.text
    caplog.clear()
    assert build(tmp_path / "set", never) == list(range(42))
    assert caplog.text == ""


def test_a_user_without_a_home_has_a_folder_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(cache_folder.VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", str)  # which leaves ~ as it is
    monkeypatch.setattr(cache_folder.tempfile, "gettempdir", lambda: str(tmp_path))
    home = tmp_path / f"regard-{os.getuid()}"
    assert cache_folder.sets().is_relative_to(home)
    assert home.stat().st_mode & 0o777 == 0o700
    other = os.getuid() + 1
    home.rename(tmp_path / f"regard-{other}")
    monkeypatch.setattr(cache_folder.os, "getuid", lambda: other)
    with pytest.raises(InputError, match=r"belongs to another user; set REGARD_CACHE"):
        cache_folder.sets()


def test_a_changed_source_is_read_again(files: tuple[str, str], caplog):
    data = Parallel(train=files, valid=files)
    first = data.load().train
    before = list(first)
    tokenizer = Tokenizer.train(TokenizerSettings("word", 30), lines(1))
    encode_pairs(first, Tokenizers(tokenizer, tokenizer), (None, None), truncate=False)
    written(Path(files[0]), ["neu", *lines(1)[1:]])
    with caplog.at_level(logging.WARNING):
        second = data.load().train
    assert "its sources changed since it was encoded; it is built again" in caplog.text
    assert second[0].source == "neu"
    assert list(second)[1:] == before[1:]
    ids = encode_pairs(second, Tokenizers(tokenizer, tokenizer), (None, None), truncate=False)
    assert ids_of(ids, 0)[0] == tokenizer.encode("neu")
    assert list(first) == before  # a run that has it open keeps it
    assert digest_pairs(data.load()) != digest_pairs(Splits(before, before))


def test_two_starts_at_once_build_once(tmp_path: Path):
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=slow, args=(tmp_path / "set", tmp_path / "note")) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert (tmp_path / "note").read_text() == "x" * 6
    assert build(tmp_path / "set", never) == list(range(42))

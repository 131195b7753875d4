"""Files of object stores and web servers: the same rows as of files here, through stores that fail and then answer."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.data import cache, files
from regard.data.cache import CachedSet
from regard.data.files import Position, iterate_lines, list_files, read_lines
from regard.data.inputs import RowReader
from regard.data.rows import RowCollector
from regard.data.texts import RunningText
from regard.errors import InputError
from regard.storage import cache_folder
from regard.tasks.classification.data import LabelledTables

fsspec = pytest.importorskip("fsspec")
LINES = [f"line {number}, a text with some length" for number in range(40)]
DATA = ("\n".join(LINES) + "\n").encode()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The memory file system, empty, without pauses."""
    monkeypatch.setattr(files, "PAUSE", 0.0)
    found = fsspec.filesystem("memory")
    found.store.clear()
    found.pipe("/set/a.txt", DATA)
    found.pipe("/set/a.csv", b"text,label\na,b\nc,d\n")
    found.pipe("/set/b.csv", b"label,text\nf,e\n")
    found.pipe("/set/a.gz", gzip.compress(DATA))
    yield found
    found.store.clear()


def test_lines_and_tables(store: Any):
    for name in ("a.txt", "a.gz"):
        assert read_lines(f"memory://set/{name}") == LINES
    second = next(iterate_lines("memory://set/a.txt", start=Position(1, len(LINES[0]) + 1)))
    assert (second.number, second.text) == (2, LINES[1])
    found = LabelledTables().read("memory://set/a.csv")
    assert [(each.texts[0], each.label, each.place) for each in found] == [
        ("a", "b", "memory://set/a.csv:2"),
        ("c", "d", "memory://set/a.csv:3"),
    ]
    assert [each.texts[0] for each in LabelledTables().read("memory://set/*.csv")] == ["a", "c", "e"]
    assert len(list_files("memory://set/*.csv")) == 2
    reader = RowReader({"text": "text"})
    for name, expected in (("a.txt", LINES), ("a.csv", [{"text": "a"}, {"text": "c"}])):
        url = f"memory://set/{name}"
        rows = [row.content for span in reader.spans(url, 7) for row in reader.rows(span, RowCollector(url, False))]
        assert rows == expected


def test_errors_are_one_line(store: Any):
    with pytest.raises(InputError, match=r"^memory://set/none.txt: no such file; check the URL$"):
        read_lines("memory://set/none.txt")
    with pytest.raises(InputError, match=r"^nosuch://a: this kind of URL is not supported"):
        read_lines("nosuch://a")
    with pytest.raises(InputError, match=r"^memory://set/x\*: no file fits; name a file"):
        RunningText(train="memory://set/x*").load()
    store.pipe("/set/b.txt", b"a\n\xff\n")
    with pytest.raises(InputError, match=r"^memory://set/b.txt:2: byte 0xff at byte offset 2 is not UTF-8"):
        read_lines("memory://set/b.txt")


@pytest.mark.parametrize(
    "url",
    [
        "reference://a.tsv::file:///tmp/refs.json",
        "reference://a.tsv",
        "zip://a.csv::https://example.org/a.zip",
        "file:///etc/passwd",
        "local:///etc/passwd",
        "github://org:repo@main/a.csv",
        "dir://a::memory://b",
    ],
)
def test_urls_name_one_server_or_store(url: str, monkeypatch: pytest.MonkeyPatch):
    """A URL reaches fsspec only if its scheme is on the list: `reference://` executed code in older versions."""
    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda url: pytest.fail(f"{url} reached fsspec"))
    with pytest.raises(InputError, match="not supported"):
        read_lines(url)


@pytest.mark.parametrize("failures", [2, 99])
def test_a_store_that_fails_and_then_answers(
    failures: int, store: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Reads fail in the middle of the file; what was read before is not read twice, and nothing is left out."""
    left, reads = [failures], []

    class Flaky:
        def __init__(self, file: Any) -> None:
            self.file = file

        def seek(self, place: int) -> None:
            self.file.seek(place)

        def read(self, count: int) -> bytes:
            if self.file.tell() > 100 and left[0]:
                left[0] -= 1
                raise ConnectionError("reset by peer")
            reads.append(self.file.tell())
            return self.file.read(min(count, 64))

        def close(self) -> None:
            self.file.close()

    system = type(store)
    opened = system.open
    monkeypatch.setattr(system, "open", lambda self, path, mode: Flaky(opened(self, path, mode)))
    if failures == 2:
        assert read_lines("memory://set/a.txt") == LINES
        assert caplog.text.count("memory://set/a.txt: cannot be read (reset by peer); trying again") == 2
        assert reads == sorted(set(reads))
    else:
        with pytest.raises(InputError, match=r"cannot be read \(reset by peer\), tried 5 times; check"):
            read_lines("memory://set/a.txt")


def test_a_large_set_is_kept_on_disk_until_it_changes(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(cache, "SMALL", 1)
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "cache"))
    data = RunningText(train="memory://set/a.txt", valid="memory://set/a.gz")
    assert isinstance(data.load().train, CachedSet)
    assert list(data.load().train) == LINES
    assert "built again" not in caplog.text
    store.pipe("/set/a.txt", DATA + b"more\n")
    assert list(data.load().train) == [*LINES, "more"]
    assert "its sources changed since it was encoded; it is built again" in caplog.text

"""A file that is read in spans has the rows of the whole file, with their numbers."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from regard.data.inputs import RowReader
from regard.data.rows import RowCollector
from regard.errors import InputError

WORDS = ["ein", "Fluß", "日本", "🙂", "a, b", 'c "d"', "e\nf", "\u2028x"]
READER = RowReader({"text": "t", "second": "u"})


def rows(count: int, lines: bool = False) -> list[tuple[str, str]]:
    dice = Random(count)
    words = [word.replace("\n", " ") for word in WORDS] if lines else WORDS
    return [(" ".join(dice.choices(words, k=dice.randint(1, 5))), dice.choice(words)) for _ in range(count)]


def as_csv(found: list[tuple[str, str]]) -> bytes:
    stream = io.StringIO()
    csv.writer(stream).writerows([("x", "u", "t"), *((str(n), second, text) for n, (text, second) in enumerate(found))])
    return stream.getvalue().encode()


def as_jsonl(found: list[tuple[str, str]]) -> bytes:
    return "".join(json.dumps({"t": text, "u": second}) + "\n" for text, second in found).encode()


def as_parquet(found: list[tuple[str, str]]) -> bytes:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    table = pa.table({"u": [second for _, second in found], "t": [text for text, _ in found]})
    parquet.write_table(table, stream, row_group_size=5)
    return stream.getvalue()


def as_json(found: list[tuple[str, str]]) -> bytes:
    return json.dumps([{"t": text, "u": second} for text, second in found], indent=1).encode()


KINDS: dict[str, Callable[[list[tuple[str, str]]], bytes]] = {
    "a.json": as_json,
    "a.csv": as_csv,
    "a.jsonl": as_jsonl,
    "a.parquet": as_parquet,
    "a.jsonl.gz": lambda found: gzip.compress(as_jsonl(found)),
    "a.csv.gz": lambda found: gzip.compress(as_csv(found)),
}


@pytest.mark.parametrize("most", [1, 7, 100])
@pytest.mark.parametrize("name", KINDS)
def test_spans_of_tables(name: str, most: int, tmp_path: Path):
    path, expected = tmp_path / name, rows(23)
    path.write_bytes(KINDS[name](expected))
    found = list(READER.spans(str(path), most))
    assert [span.rows for span in found] == [most] * (23 // most) + ([23 % most] if 23 % most else [])
    read = [row for span in found for row in READER.rows(span, RowCollector(str(path), False))]
    assert [
        (row.content["text"], row.content["second"]) for row in read if not isinstance(row.content, str)
    ] == expected
    if not name.startswith("a.csv"):
        assert [row.number for row in read] == list(range(1, 24))


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("most", [1, 4, 12])
def test_spans_of_lines(most: int, end: str, tmp_path: Path):
    expected = [text for text, _ in rows(11, lines=True)] + ["", "last"]
    content = ("\r\n" if end == "\r\n" else "\n").join(expected) + end
    for name, data in (("a.txt", content.encode()), ("a.gz", gzip.compress(b"\xef\xbb\xbf" + content.encode()))):
        path = tmp_path / name
        path.write_bytes(data)
        read = [row for span in READER.spans(str(path), most) for row in READER.rows(span, RowCollector(path, False))]
        assert [row.content for row in read] == expected
        assert [row.number for row in read] == list(range(1, 14))


def test_numbers_of_rows_of_several_lines(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text('t,u\n"a\nb",c\nd,e\n"f\n\ng",h\ni,j\n')
    read = [row for span in READER.spans(str(path), 2) for row in READER.rows(span, RowCollector(path, False))]
    assert [(row.number, row.content) for row in read] == [
        (2, {"text": "a\nb", "second": "c"}),
        (4, {"text": "d", "second": "e"}),
        (5, {"text": "f\n\ng", "second": "h"}),
        (8, {"text": "i", "second": "j"}),
    ]


def test_bad_rows_are_named_or_counted(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"t": "a", "u": "b"}\n{"t": "a"}\nnot\n[1]\n{"t": "c", "u": "d"}\n')
    (span,) = READER.spans(str(path), 9)
    with pytest.raises(InputError, match=r"a.jsonl:2: no column 'u', there are 't'; correct it"):
        list(READER.rows(span, RowCollector(path, False)))
    collector = RowCollector(path, True)
    assert [row.number for row in READER.rows(span, collector)] == [1, 5]
    assert collector.skipped == 3
    assert collector.first.startswith(f"{path}:2: no column 'u'")
    wide = tmp_path / "a.csv"
    wide.write_text("t,u\na,b\nc\nd,e\n")
    spans_of = list(READER.spans(str(wide), 1))
    with pytest.raises(InputError, match=r"a.csv:3: 1 columns, expected 2 columns as in the first line"):
        list(READER.rows(spans_of[1], RowCollector(wide, False)))


def test_files_that_cannot_be_read_in_parts(tmp_path: Path):
    path = tmp_path / "a.arrow"
    path.write_text("[]")
    with pytest.raises(InputError, match=r"a.arrow: is not read in parts; expected .json, .jsonl, .csv, .tsv or "):
        list(READER.spans(str(path), 3))
    object_ = tmp_path / "a.json"
    object_.write_text('{"t": "x"}')
    with pytest.raises(InputError, match=r"a.json: is no list; expected a list of objects"):
        list(READER.spans(str(object_), 3))
    empty = tmp_path / "a.txt"
    empty.write_text("")
    with pytest.raises(InputError, match=r"a.txt: the file is empty"):
        list(READER.spans(str(empty), 3))
    cut = tmp_path / "a.gz"
    cut.write_bytes(gzip.compress(b"a\n" * 99999)[:60])
    with pytest.raises(InputError, match=r"a.gz: is cut off"):
        list(READER.spans(str(cut), 3))
    pytest.importorskip("pyarrow")
    broken = tmp_path / "a.parquet"
    broken.write_bytes(b"PAR1 not")
    with pytest.raises(InputError, match=r"a.parquet: is no sound Parquet file"):
        list(READER.spans(str(broken), 3))


def test_a_row_of_parquet_has_what_is_inside_a_struct(tmp_path: Path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.Table.from_pylist([{"t": {"de": "a", "en": "b"}}, {"t": None}]), path)
    reader = RowReader({"text": "t.de", "second": "t.en"})
    found = [row.content for span in reader.spans(str(path), 9) for row in reader.rows(span, RowCollector(path, False))]
    assert found == [{"text": "a", "second": "b"}, {"text": None, "second": None}]

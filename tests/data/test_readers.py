"""Readers of tables and parallel files: rows with their lines, and one line about each bad record."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from regard.data.inputs import RowReader
from regard.data.pairs import Pair, read_parallel
from regard.data.rows import RowCollector
from regard.data.tables import Tabular
from regard.errors import InputError
from tests.data.tables import read_pairs, read_table

HEADER = {"tsv": "source\ttarget\n", "csv": "source,target\n", "jsonl": ""}
MARKS = pytest.mark.parametrize(("kind", "mark"), [("tsv", "\t"), ("csv", ",")])


def joined(kind, *rows):
    """The rows as a file of this kind."""
    if kind == "jsonl":
        return "".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in rows)
    return HEADER[kind] + "".join(f"{a}{HEADER[kind][6]}{b}\n" for a, b in rows)


@pytest.fixture
def file(tmp_path):
    def write(content: str, name: str):
        path = tmp_path / name
        path.write_bytes(content.encode())
        return path

    return write


def sides(pairs):
    return [(pair.source, pair.target) for pair in pairs]


def refused(read, *arguments, **options):
    with pytest.raises(InputError) as caught:
        read(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", HEADER)
def test_tables_give_pairs_also_from_gzip(kind, file):
    content = joined(kind, ("eins", "one"), ("zwei \u2028 drei", "two"))
    path = file(content, f"a.{kind}")
    first = 1 if kind == "jsonl" else 2
    assert read_pairs(path) == [
        Pair("eins", "one", f"{path}:{first}"),
        Pair("zwei \u2028 drei", "two", f"{path}:{first + 1}"),
    ]
    packed = path.with_name(f"a.{kind}.gz")
    packed.write_bytes(gzip.compress(content.encode()))
    assert sides(read_pairs(packed)) == sides(read_pairs(path))


@MARKS
def test_columns_by_name_or_by_number(kind, mark, file):
    path = file(f"id{mark}en{mark}de\n1{mark}one{mark}eins\n", f"a.{kind}")
    assert sides(read_pairs(path, ("de", "en"))) == [("eins", "one")]
    assert "looks like a header (de, en)" in refused(read_pairs, path, (3, 2))
    message = refused(read_pairs, path, ("dee", "en"))
    assert f"{path}:1: no column 'dee'" in message
    assert "--set data.column0=de" in message
    path = file(f"1{mark}one{mark}eins\n2{mark}two{mark}zwei\n", f"b.{kind}")
    assert sides(read_pairs(path, (3, 2))) == [("eins", "one"), ("zwei", "two")]
    for column in (4, 0):
        assert f"no column {column}; columns count from 1" in refused(read_pairs, path, (column, 2))


@pytest.mark.parametrize("kind", HEADER)
def test_tables_without_a_record(kind, file):
    assert "the file is empty" in refused(read_pairs, file("", f"a.{kind}"))
    assert "3 lines, all of them blank" in refused(read_pairs, file("\n\n \n", f"b.{kind}"))
    if HEADER[kind]:
        assert "no usable record: 0 records" in refused(read_pairs, file(HEADER[kind], f"c.{kind}"))


def test_parallel_files_of_different_length(file):
    a, b = file("1\n2\n3\n4\n5\n", "a"), file("1\n\n2\n", "b")
    message = refused(list, read_parallel(a, b))
    assert f"{a} has 5 lines, {b} has 3" in message
    assert f"first blank line at {b}:2" in message
    b.write_text("1\n2\n")
    assert "none is blank" in refused(list, read_parallel(a, b))


def test_a_blank_side_names_its_line_or_is_skipped_and_counted(file, caplog):
    a, b = file("1\n\n3\n4\n", "a"), file("x\ny\n \nz\n", "b")
    assert f"{a}:2: blank line" in refused(list, read_parallel(a, b))
    assert [p.place for p in read_parallel(a, b, skip_bad=True)] == [f"{a}:1", f"{a}:4"]
    assert "skipped 2 of 4 records" in caplog.text
    a.write_text("1\n2\n3\n4\n")
    assert f"{a}:3: its partner {b}:3 is blank" in refused(list, read_parallel(a, b))


@MARKS
def test_a_wrong_number_of_columns(kind, mark, file, caplog):
    path = file(f"source{mark}target\na{mark}b\nc\nd{mark}e{mark}f\n\ng{mark}h\n", f"a.{kind}")
    assert f"{path}:3: 1 columns, expected 2" in refused(read_pairs, path)
    assert [(p.source, p.place) for p in read_pairs(path, skip_bad=True)] == [("a", f"{path}:2"), ("g", f"{path}:6")]
    assert f"skipped 3 of 5 records (first: {path}:3: 1 columns" in caplog.text
    path.write_text(f"source{mark}target\n\na{mark}b\n")
    assert f"{path}:2: a blank line, expected 2 columns" in refused(read_pairs, path)
    path.write_text(f"source{mark}target\n{mark}b\n")
    assert f"{path}:2: column 'source' is empty" in refused(read_pairs, path)


def test_tsv_knows_no_quoting(file, caplog):
    path = file('source\ttarget\n"open\tb\nc"d\t"e"\n', "a.tsv")
    assert sides(read_pairs(path)) == [('"open', "b"), ('c"d', '"e"')]
    assert "quotation marks are read as text; if quotation marks enclose cells, set data.quoting=true" in caplog.text


def test_csv_quoting(file):
    path = file('source,target\r\n"a, b","say ""hi"""\r\n"two\r\nlines",c"d\r\ne,f\r\n', "a.csv")
    pairs = read_pairs(path)
    assert sides(pairs) == [("a, b", 'say "hi"'), ("two\nlines", 'c"d'), ("e", "f")]
    assert [p.place for p in pairs] == [f"{path}:{number}" for number in (2, 3, 5)]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('s,t\na,b\n"open,c\nd,e\nf,g\n', 3),  # nothing closes it
        ('s,t\na,b\nc,"open\n"d","e"\n', 3),  # the next row's quote closes it
        ('s,t\na,"open', 2),
        ('s,t\n"open,x\n' + f"{'a' * 400},b\n" * 400, 2),
    ],
)
@pytest.mark.parametrize("skip_bad", [False, True])
def test_an_unbalanced_csv_quote_names_the_opening_line(file, content, line, skip_bad):
    path = file(content, "a.csv")
    message = refused(read_pairs, path, ("s", "t"), skip_bad=skip_bad)
    assert f"{path}:{line}: a quote opened here" in message
    assert "data.quoting=false" in message


@pytest.mark.parametrize("inside", ["\u2028", "\r", "\x0b", "\x85", "long " * 30_000])
def test_other_separators_stay_in_the_field(inside, file):
    for kind in HEADER:
        pairs = read_pairs(file(joined(kind, (f"a{inside}b", "c"), ("d", f"e{inside}f")), f"a.{kind}"))
        assert sides(pairs) == [(f"a{inside}b", "c"), ("d", f"e{inside}f")]
    without_header = list(read_pairs(file(f"a{inside}b,c\n", "b.csv"), (1, 2)))
    assert sides(without_header) == [(f"a{inside}b", "c")]
    pairs = list(read_parallel(file(f"a{inside}b\nc\n", "a"), file("A\nC\n", "b")))
    assert sides(pairs) == [(f"a{inside}b", "A"), ("c", "C")]


def test_json_cut_in_the_last_line(file):
    whole = joined("jsonl", ("a", "b"), ("c", "d"))
    path = file(whole[:-9], "a.jsonl")
    message = refused(read_pairs, path)
    assert message.startswith(f"{path}:2: character ")
    assert int(message.split("character ")[1].split(":")[0]) <= len(whole[:-9].split("\n")[1])
    assert message.endswith("; correct it, or leave such records out with --set data.skip_bad=true")
    assert [p.source for p in read_pairs(path, skip_bad=True)] == ["a"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"source": "a", "target": 3}', "character 17: column 'target' is int, expected text"),
        ('{"source": "a", "target": true}', "character 17: column 'target' is bool, expected text"),
        ('{"source": null, "target": "b"}', "character 2: column 'source' is NoneType, expected text"),
        ('{"source": "a", "targt": "b"}', "no column 'target', there are 'source', 'targt'"),
        ('{"source": " ", "target": "b"}', "character 2: column 'source' is empty"),
        ('{"source": "a", "target": []}', "character 17: column 'target' is an empty list, expected at least one text"),
        ('{"source": "a", "target": ["b", 3]}', "column 'target' is int, expected text"),
        ('{"source": ["a"], "target": "b"}', "column 'source' is list, expected text"),
        ('["a", "b"]', "character 1: expected an object with keys, found list"),
        ("", "character 1: not valid JSON"),
        ("[" * 100_000, "character 1: JSON that cannot be read"),
        ("9" * 5000, "character 1: JSON that cannot be read"),
    ],
)
def test_json_of_the_wrong_kind(file, line, expected):
    path = file(joined("jsonl", ("a", "b")) + line + "\n" + joined("jsonl", ("c", "d")), "a.jsonl")
    message = refused(read_pairs, path)
    assert message.startswith(f"{path}:2: ")
    assert expected in message
    assert len(read_pairs(path, skip_bad=True)) == 2


def test_a_list_of_targets_is_the_target_and_others(file):
    path = file('{"source": "a", "target": ["b", "c"]}\n{"source": "d", "target": "e"}\n', "a.jsonl")
    assert [pair.references for pair in read_pairs(path)] == [("b", "c"), ("e",)]


def test_an_object_in_place_of_a_text(file):
    path = file('{"source": "a", "target": {"start": 4, "text": "b"}}\n', "data.jsonl")
    assert "column 'target' is dict, expected text" in refused(read_pairs, path)
    with pytest.raises(InputError, match=r"no column 'text', .*name yours with --set data.answer=target.text"):
        list(Tabular().stream_rows(str(path), {"question": "source", "answer": "text"}))
    assert sides(read_pairs(path, ("source", "target.text"))) == [("a", "b")]


def test_annotations_of_coco_have_the_fields_of_their_image(tmp_path):
    path = tmp_path / "captions.json"
    images = [{"id": 7, "file_name": "7.jpg", "width": 3}, {"id": 9, "file_name": "9.jpg", "width": 4}]
    captions = [{"id": 1, "image_id": 9, "caption": "a dog"}, {"id": 2, "image_id": 7, "caption": "a boat"}]
    path.write_text(json.dumps({"info": {}, "images": images, "annotations": captions}))
    rows = read_table(path, ("file_name", "caption"))
    assert [row.fields for row in rows] == [("9.jpg", "a dog"), ("7.jpg", "a boat")]
    for images in ([{"id": 7, "file_name": "7.jpg"}], [{"file_name": "9.jpg"}], None):
        path.write_text(json.dumps({"images": images, "annotations": captions}))
        with pytest.raises(InputError, match=r"captions.json: has COCO's 'images' .*, but .*; expected an 'id'"):
            read_table(path, ("file_name", "caption"))


def test_files_that_are_no_tables(file, tmp_path):
    assert "rows.txt: no such file; check the path" in refused(read_table, tmp_path / "rows.txt", ("a",))
    path = file("", "a.csv")
    path.write_bytes("a,b\ncaf\u00e9,1\n".encode("cp1252"))
    assert "`iconv -f cp1252 -t utf-8 IN > OUT`" in refused(read_table, path, ("a",))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.xlsx", "", "a workbook of a spreadsheet; save its sheet as 'CSV UTF-8' in"),
        ("a.doc", "a", "unknown kind of table '.doc'; expected .arrow, .csv"),
        ("a.tsv", "source\tsource\ttarget\na\tb\tc\n", "2 times"),
        ("a.zip", "PK", "a.zip: a zip archive; unpack it and name the file inside"),
        ("a.tmx", "<tmx>", "a.tmx: has no <tu>; expected a translation memory"),
        ("a.tmx", "<tmx></tmy>", "a.tmx: is not valid XML (mismatched tag"),
        ("a.src-tgt", "a ||| b\nc\n", "a.src-tgt:2: expected one ||| between two texts"),
        ("a.tsv", 'source\ttarget\n"a\nb"\tc\n', "if quotation marks enclose cells, set data.quoting=true"),
        ("a.csv", "1\n00:00:01,500 --> 00:00:02,000\na\n", "a.csv:2: subtitles with times"),
    ],
)
def test_formats_of_other_programs_say_what_to_do(file, name: str, content: str, said: str):
    assert said in refused(read_pairs, file(content, name))


INTENTS = [{"tag": "hello", "patterns": ["hi", "good day"], "responses": ["Hi!"]}, {"tag": "bye", "patterns": []}]
MEMORY = """<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><body>
<tu><tuv xml:lang="en-US"><seg>a <bpt i="1"/>dog &amp; more</seg></tuv><tuv xml:lang="DE"><seg>ein Hund</seg></tuv></tu>
<tu><tuv lang="en"><seg>a cat</seg></tuv><tuv lang="de"><seg>eine Katze</seg></tuv></tu></body></tmx>
"""
JOINED = "the dog ||| der Hund\na|b ||| c\nx |||\n"


@pytest.mark.parametrize(
    ("name", "content", "columns", "rows"),
    [
        ("a.src-tgt", JOINED, ("source", "target"), [("the dog", "der Hund"), ("a|b", "c")]),
        ("a.de-en", "a ||| b\nc ||| d\n", ("source", "target"), [("a", "b"), ("c", "d")]),
        ("a.txt", JOINED, ("source",), [("the dog",), ("a|b",), ("x",)]),
        ("a.train", "__label__x good\n__label__y  so so\n", ("text", "label"), [("good", "x"), ("so so", "y")]),
        ("a.tmx", MEMORY, ("en", "de"), [("a dog & more", "ein Hund"), ("a cat", "eine Katze")]),
        ("a.json", json.dumps({"intents": INTENTS}), ("text", "label"), [("hi", "hello"), ("good day", "hello")]),
        ("a.json", json.dumps(INTENTS), ("patterns", "tag"), [("hi", "hello"), ("good day", "hello")]),
    ],
)
def test_formats_of_other_programs(file, name: str, content: str, columns: tuple[str, ...], rows: list):
    assert [row.fields for row in read_table(file(content, name), columns, skip_bad=True)] == rows


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


def test_files_that_cannot_be_read_in_parts(tmp_path: Path):
    object_ = tmp_path / "a.json"
    object_.write_text('{"t": "x"}')
    with pytest.raises(InputError, match=r"a.json: is no list; expected a list of objects"):
        list(READER.spans(str(object_), 3))
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

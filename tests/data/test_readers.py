import gzip
import json
import random

import pytest

from regard.data import delimited, records
from regard.data.pairs import Pair, pair_of, read_pairs, read_parallel
from regard.data.tables import Tabular, read_table
from regard.errors import InputError


def of_pairs(reader):
    """A reader of tables as one of pairs."""

    def read(path, columns=("source", "target"), **options):
        return list(map(pair_of, reader(path, columns, **options)))

    return read


read_tsv, read_csv, read_jsonl = map(of_pairs, (delimited.read_tsv, delimited.read_csv, records.read_jsonl))
HEADER = {read_tsv: "source\ttarget\n", read_csv: "source,target\n", read_jsonl: ""}


def joined(reader, *rows):
    """The rows as the reader's kind of file."""
    if reader is read_jsonl:
        return "".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in rows)
    return HEADER[reader] + "".join(f"{a}{HEADER[reader][6]}{b}\n" for a, b in rows)


@pytest.fixture
def file(tmp_path):
    def write(content: str, name: str = "data"):
        path = tmp_path / name
        path.write_bytes(content.encode())
        return path

    return write


def refused(read, *arguments, **options):
    with pytest.raises(InputError) as caught:
        read(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_parallel_pairs_know_their_line(file):
    a, b = file("eins\nzwei\n", "a"), file("one\ntwo", "b")
    assert read_parallel(a, b) == [Pair("eins", "one", f"{a}:1"), Pair("zwei", "two", f"{a}:2")]


@pytest.mark.parametrize("reader", HEADER)
def test_tables_give_pairs_also_from_gzip(reader, file):
    content = joined(reader, ("eins", "one"), ("zwei \u2028 drei", "two"))
    path = file(content)
    first = 1 if reader is read_jsonl else 2
    assert reader(path) == [
        Pair("eins", "one", f"{path}:{first}"),
        Pair("zwei \u2028 drei", "two", f"{path}:{first + 1}"),
    ]
    packed = path.with_name("data.gz")
    packed.write_bytes(gzip.compress(content.encode()))
    assert [(p.source, p.target) for p in reader(packed)] == [(p.source, p.target) for p in reader(path)]


@pytest.mark.parametrize(("reader", "mark"), [(read_tsv, "\t"), (read_csv, ",")])
def test_columns_by_name_or_by_number(reader, mark, file):
    path = file(f"id{mark}en{mark}de\n1{mark}one{mark}eins\n")
    assert [(p.source, p.target) for p in reader(path, ("de", "en"))] == [("eins", "one")]
    assert "looks like a header (de, en)" in refused(reader, path, (3, 2))
    path = file(f"1{mark}one{mark}eins\n2{mark}two{mark}zwei\n")
    assert [(p.source, p.target) for p in reader(path, (3, 2))] == [("eins", "one"), ("zwei", "two")]
    assert "no column 4; columns count from 1" in refused(reader, path, (4, 2))
    assert "no column 0" in refused(reader, path, (0, 2))
    path = file(f"id{mark}en{mark}de\n1{mark}one{mark}eins\n")
    assert f"{path}:1: no column 'dee'" in refused(reader, path, ("dee", "en"))
    assert "did you mean 'de'?" in refused(reader, path, ("dee", "en"))


def test_a_header_may_not_repeat_a_wanted_column(file):
    assert "2 times" in refused(read_tsv, file("source\tsource\ttarget\na\tb\tc\n"))


@pytest.mark.parametrize("reader", HEADER)
def test_row_06_tables_without_a_record(reader, file):
    assert "the file is empty" in refused(reader, file(""))
    assert "3 lines, all of them blank" in refused(reader, file("\n\n \n"))
    if HEADER[reader]:
        assert "0 records below the header" in refused(reader, file(HEADER[reader]))


def test_row_08_parallel_files_of_different_length(file):
    a, b = file("1\n2\n3\n4\n5\n", "a"), file("1\n\n2\n", "b")
    message = refused(read_parallel, a, b)
    assert f"{a} has 5 lines" in message
    assert f"{b} has 3" in message
    assert f"first blank line at {b}:2" in message
    b.write_text("1\n2\n")
    assert "neither has a blank line" in refused(read_parallel, a, b)


def test_row_08_a_blank_side_names_its_line_or_is_skipped_and_counted(file, caplog):
    a, b = file("1\n\n3\n4\n", "a"), file("x\ny\n \nz\n", "b")
    assert f"{a}:2: blank line" in refused(read_parallel, a, b)
    assert [p.place for p in read_parallel(a, b, skip_bad=True)] == [f"{a}:1", f"{a}:4"]
    assert "skipped 2 of 4 records" in caplog.text
    a.write_text("1\n2\n3\n4\n")
    assert f"{a}:3: its partner {b}:3 is blank" in refused(read_parallel, a, b)


@pytest.mark.parametrize(("reader", "mark"), [(read_tsv, "\t"), (read_csv, ",")])
def test_row_09_a_wrong_number_of_columns(reader, mark, file, caplog):
    path = file(f"source{mark}target\na{mark}b\nc\nd{mark}e{mark}f\n\ng{mark}h\n")
    assert f"{path}:3: 1 columns, expected 2" in refused(reader, path)
    kept = reader(path, skip_bad=True)
    assert [(p.source, p.place) for p in kept] == [("a", f"{path}:2"), ("g", f"{path}:6")]
    assert f"skipped 3 of 5 records (first: {path}:3: 1 columns" in caplog.text
    path.write_text(f"source{mark}target\n\na{mark}b\n")
    assert f"{path}:2: a blank line, expected 2 columns" in refused(reader, path)
    path.write_text(f"source{mark}target\n{mark}b\n")
    assert f"{path}:2: column source is empty" in refused(reader, path)


def test_row_09_nothing_left_after_skipping(file):
    path = file("source\ttarget\nonly one\n")
    message = refused(read_tsv, path, skip_bad=True)
    assert f"1 records, all skipped (first: {path}:2: 1 columns" in message


def test_row_10_tsv_knows_no_quoting(file):
    path = file('source\ttarget\n"open\tb\nc"d\t"e"\n')
    assert [(p.source, p.target) for p in read_tsv(path)] == [('"open', "b"), ('c"d', '"e"')]


def test_csv_quoting(file):
    path = file('source,target\r\n"a, b","say ""hi"""\r\n"two\r\nlines",c"d\r\ne,f\r\n')
    pairs = read_csv(path)
    assert [(p.source, p.target) for p in pairs] == [("a, b", 'say "hi"'), ("two\nlines", 'c"d'), ("e", "f")]
    assert [p.place for p in pairs] == [f"{path}:{number}" for number in (2, 3, 5)]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('s,t\na,b\n"open,c\nd,e\nf,g\n', 3),  # nothing closes it
        ('s,t\na,b\nc,"open\n"d","e"\n', 3),  # the next row's quote closes it
        ('s,t\n"two\nlines","open\nd,e\n', 3),  # opened in a record's second line
        ('s,t\n"a ""b"" c","""open\nd,e\n', 2),
        ('s,t\na,"open', 2),
    ],
)
def test_row_10_an_unbalanced_csv_quote_names_the_opening_line(file, content, line):
    path = file(content)
    assert f"{path}:{line}: the quote opened here" in refused(read_csv, path, ("s", "t"))
    assert f"{path}:{line}: the quote opened here" in refused(read_csv, path, ("s", "t"), skip_bad=True)


def test_row_10_a_quote_that_swallows_much(file):
    path = file('s,t\n"open,x\n' + f"{'a' * 400},b\n" * 400)
    assert f"{path}:2: the quote opened here" in refused(read_csv, path, ("s", "t"))


@pytest.mark.parametrize("inside", ["\u2028", "\r", "\x0b", "\x85"])
@pytest.mark.parametrize("reader", HEADER)
def test_row_12_other_separators_stay_in_the_field(reader, inside, file):
    pairs = reader(file(joined(reader, (f"a{inside}b", "c"), ("d", f"e{inside}f"))))
    assert [(p.source, p.target) for p in pairs] == [(f"a{inside}b", "c"), ("d", f"e{inside}f")]


@pytest.mark.parametrize("inside", ["\u2028", "\r", "\x0b"])
def test_row_12_parallel_lines_stay_aligned(file, inside):
    pairs = read_parallel(file(f"a{inside}b\nc\n", "a"), file("A\nC\n", "b"))
    assert [(p.source, p.target) for p in pairs] == [(f"a{inside}b", "A"), ("c", "C")]


def test_row_14_json_cut_in_the_last_line(file):
    whole = joined(read_jsonl, ("a", "b"), ("c", "d"))
    path = file(whole[:-9])
    column = len(whole[:-9].split("\n")[1])
    message = refused(read_jsonl, path)
    assert message.startswith(f"{path}:2: character ")
    assert int(message.split("character ")[1].split(":")[0]) <= column
    assert [p.source for p in read_jsonl(path, skip_bad=True)] == ["a"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"source": "a", "target": 3}', "character 17: 'target' is int, expected text"),
        ('{"source": null, "target": "b"}', "character 2: 'source' is NoneType, expected text"),
        ('{"source": "a", "targt": "b"}', "no key 'target' in the object, which has 'source', 'targt'; did you mean"),
        ('{"source": " ", "target": "b"}', "character 2: 'source' is empty"),
        ('["a", "b"]', "character 1: expected an object with 'source' and 'target', found list"),
        ("", "character 1: not valid JSON"),
        ("[" * 100_000, "character 1: JSON that cannot be read"),
        ("9" * 5000, "character 1: JSON that cannot be read"),
    ],
)
def test_row_14_json_of_the_wrong_kind(file, line, expected):
    path = file(joined(read_jsonl, ("a", "b")) + line + "\n" + joined(read_jsonl, ("c", "d")))
    message = refused(read_jsonl, path)
    assert message.startswith(f"{path}:2: ")
    assert expected in message
    assert len(read_jsonl(path, skip_bad=True)) == 2


def test_an_object_in_place_of_a_text_names_its_keys(file):
    path = file('{"source": "a", "target": {"start": 4, "text": "b"}}\n', "data.jsonl")
    message = refused(read_jsonl, path)
    assert message.startswith(f"{path}:1: 'target' is an object with 'text', 'start'")
    data = Tabular()
    with pytest.raises(InputError, match=r"'start'; name yours with --set data.answer=target.text$"):
        data.rows(str(path), {"question": "source", "answer": "target"})
    assert [row.fields for row in data.rows(str(path), {"q": "source", "a": "target.text"})] == [("a", "b")]


def test_files_of_excel_say_what_to_do(tmp_path):
    for name in ("a.xlsx", "a.xls"):
        with pytest.raises(InputError, match=r"a.xlsx?: a workbook of a spreadsheet; save its sheet as 'CSV UTF-8' in"):
            read_table(tmp_path / name, ("a",))
    (tmp_path / "a.csv").write_bytes("a,b\ncaf\u00e9,1\n".encode("cp1252"))
    with pytest.raises(InputError, match=r"a.csv:2: byte 0xe9 .*`iconv -f cp1252 -t utf-8 IN > OUT`, or save it as"):
        read_table(tmp_path / "a.csv", ("a",))


def test_annotations_of_coco_have_the_fields_of_their_image(tmp_path):
    path = tmp_path / "captions.json"
    images = [{"id": 7, "file_name": "7.jpg", "width": 3}, {"id": 9, "file_name": "9.jpg", "width": 4}]
    captions = [{"id": 1, "image_id": 9, "caption": "a dog"}, {"id": 2, "image_id": 7, "caption": "a boat"}]
    path.write_text(json.dumps({"info": {}, "images": images, "annotations": captions}))
    rows = read_table(path, ("file_name", "caption"))
    assert [row.fields for row in rows] == [("9.jpg", "a dog"), ("7.jpg", "a boat")]
    with pytest.raises(
        InputError, match="no key 'image' in the object, which has 'id', 'file_name', 'width', 'image_id'"
    ):
        read_table(path, ("image", "caption"))
    for images in ([{"id": 7, "file_name": "7.jpg"}], [{"file_name": "9.jpg"}], None):
        path.write_text(json.dumps({"images": images, "annotations": captions}))
        with pytest.raises(InputError, match=r"captions.json: has COCO's 'images' .*, but .*; expected an 'id'"):
            read_table(path, ("file_name", "caption"))


@pytest.mark.parametrize("reader", HEADER)
def test_cut_and_flipped_tables_are_read_or_refused(reader, file):
    whole = joined(reader, *[(f"quelle {n}", f"source {n}") for n in range(11)])
    if reader is read_csv:
        whole += '"a ""b""","c\nd"\n'
    outcomes, dice = set(), random.Random(13)
    for trial in range(150):
        broken = bytearray(whole.encode()[: dice.randint(1, len(whole))])
        broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
        path = file("", str(trial))
        path.write_bytes(broken)
        try:
            outcomes.add(type(reader(path, skip_bad=bool(trial % 2))))
        except InputError:
            outcomes.add(InputError)
    assert outcomes == {list, InputError}


def test_a_list_of_targets_is_the_target_and_others(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"source": "a", "target": ["b", "c"]}\n{"source": "d", "target": "e"}\n', encoding="utf-8")
    assert [pair.references for pair in read_jsonl(path)] == [("b", "c"), ("e",)]
    for value, said in (
        ("[]", "is an empty list, expected at least one text"),
        ('["b", 3]', "is int, expected text"),
        ('[" "]', "is empty"),
    ):
        path.write_text(f'{{"source": "a", "target": {value}}}\n', encoding="utf-8")
        with pytest.raises(InputError, match=rf"a.jsonl:1: character 17: 'target' {said}"):
            read_jsonl(path)
    path.write_text('{"source": ["a"], "target": "b"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="'source' is list, expected text"):
        read_jsonl(path)


@pytest.mark.parametrize("name", ["rows.tsv", "rows.csv", "rows.jsonl"])
def test_any_number_of_columns_by_the_kind_of_the_name(name, file):
    mark = "," if name.endswith("csv") else "\t"
    lines = [mark.join("abc"), mark.join("123")]
    path = file(json.dumps({"a": "1", "b": "2", "c": ["3", "4"]}) if name.endswith("jsonl") else "\n".join(lines), name)
    for columns, fields in [(("a",), ("1",)), (("b", "a"), ("2", "1")), (("a", "b", "c"), ("1", "2", "3"))]:
        assert [row.fields for row in read_table(path, columns)] == [fields]
    assert "no" in refused(read_table, path, ("a", "b", "d"))
    assert [(pair.source, pair.target) for pair in read_pairs(path, ("b", "a"))] == [("2", "1")]
    assert "rows.txt: no such file; check the path" in refused(read_table, path.with_suffix(".txt"), ("a",))
    cut = refused(read_table, file('{"a": "b"}\n{"a": "c', "cut.jsonl"), ("a",))
    assert cut.endswith("; is the line cut off? Correct it, or leave such records out with --set data.skip_bad=true")
    assert "unknown kind of table '.doc'; expected .tsv, .csv, .jsonl, .json, .parquet, .arrow, .txt, or" in refused(
        read_table, path.with_suffix(".doc"), ("a",)
    )

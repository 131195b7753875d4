"""Tables as people have them: delimiters, byte order marks, keys inside keys, JSON arrays; and what is held out."""

import codecs
import gzip
import json
import shlex
from pathlib import Path

import pytest

from regard.config.file_kinds import is_table
from regard.data.pairs import Pair, Parallel, Squad, Table
from regard.data.rows import MissingColumns
from regard.data.splits import HeldOut
from regard.data.tables import read_table
from regard.errors import InputError
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.tasks.classification.data import LabelledTables
from regard.tasks.extractive_qa.data import Questions
from regard.tasks.image_captioning.data import CaptionTables
from regard.tasks.summary import describe_rows

ROWS = 'text{0}label\n"good{0} very ""good"""{0}pos\nbad, really{0}neg\n'


def written(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def texts(path: str, **settings: object) -> list[tuple[str, str]]:
    found = LabelledTables(**settings).read(path)  # type: ignore[arg-type]
    return [(each.texts[0], each.label) for each in found]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_the_delimiter_with_which_the_header_has_the_columns(delimiter: str, tmp_path: Path):
    content = ROWS.format(delimiter).replace("bad, really", "bad")
    for name, data in (("a.csv", content), ("excel.csv", codecs.BOM_UTF8 + content.encode())):
        rows = [(f'good{delimiter} very "good"', "pos"), ("bad", "neg")]
        assert texts(written(tmp_path, name, data)) == rows
    stated = written(tmp_path, "b.csv", f"sep={delimiter}\n{content}")
    assert texts(stated) == rows
    assert LabelledTables().read(stated)[0].place == f"{stated}:3"


def test_a_name_in_capitals(tmp_path: Path):
    content, found = ROWS.format(","), [('good, very "good"', "pos"), ("bad, really", "neg")]
    assert texts(written(tmp_path, "A.CSV", content.replace("bad, really", '"bad, really"'))) == found
    packed = written(tmp_path, "B.CSV.GZ", gzip.compress(b"text,label\nbad,neg\n"))
    assert texts(packed) == [("bad", "neg")]
    assert is_table(packed)
    assert texts(written(tmp_path, "C.Tsv", "text\tlabel\nbad\tneg\n")) == [("bad", "neg")]
    assert texts(written(tmp_path, "D.JSONL", '{"text": "bad", "label": "neg"}\n')) == [("bad", "neg")]


def test_a_table_without_a_header_and_with_another_delimiter(tmp_path: Path):
    path = written(tmp_path, "a.csv", "good;pos\nbad, so bad;neg\n")
    assert texts(path, text=1, label=2) == [("good", "pos"), ("bad, so bad", "neg")]
    path = written(tmp_path, "b.csv", "good;very good\nbad;not good;worse\n")
    with pytest.raises(InputError, match=r"b.csv:1: 1 columns, so .* column 2.* a semicolon: --set data.delimiter=';'"):
        texts(path, text=1, label=2)
    path = written(tmp_path, "c.csv", "good\tvery good\nbad\n")
    with pytest.raises(InputError, match=r"no column 2; .* a tab: --set data.delimiter='\\t'$"):
        texts(path, text=1, label=2)
    assert texts(path, text=1, label=2, delimiter=r"\t", skip_bad=True) == [("good", "very good")]


STS = "news\t5.0\tA man, he eats\tA cat\nnews\t1.0\tA dog, so\tIt, too, is\tan URL\tanother\n"


def test_rows_with_further_columns_between_tabs(tmp_path: Path):
    path = written(tmp_path, "sts.csv", STS)
    found = LabelledTables(text=3, second=4, label=2).read(path)
    assert [(*each.texts, each.label) for each in found] == [
        ("A man, he eats", "A cat", "5.0"),
        ("A dog, so", "It, too, is", "1.0"),
    ]
    with pytest.raises(InputError, match=r"quoted.csv:3: the quote opened here .* or set data.quoting=false"):
        texts(written(tmp_path, "quoted.csv", STS + 'a\t1\t"b\tc\n'), text=3, second=4, label=2)
    short = written(tmp_path, "short.csv", STS + "news\t1.0\tA dog\n")
    with pytest.raises(InputError, match=r"short.csv:3: 3 columns, expected 4 columns as in line 1"):
        texts(short, text=3, second=4, label=2, delimiter="tab")
    headed = written(tmp_path, "headed.tsv", "genre\tscore\ttext\tlabel\n" + STS)
    with pytest.raises(InputError, match=r"headed.tsv:3: 6 columns, expected 4 columns as in line 1"):
        texts(headed)
    commas = written(tmp_path, "commas.csv", "good,pos\nbad, so bad,neg\n")
    with pytest.raises(InputError, match=r"commas.csv:2: 3 columns, expected 2 columns as in line 1"):
        texts(commas, text=1, label=2)


def test_blanks_around_the_names_in_a_header(tmp_path: Path):
    path = written(tmp_path, "flickr.csv", "image_name| text| label\n1.jpg| a dog| x\n")
    assert texts(path) == texts(path, text=" text", label=" label") == [(" a dog", " x")]
    both = written(tmp_path, "both.csv", "text, text,label\na,b,c\n")
    assert texts(both) == [("a", "c")]
    assert texts(both, text=" text") == [("b", "c")]
    twice = written(tmp_path, "twice.csv", " text,text ,label\na,b,c\n")
    with pytest.raises(InputError, match=r"the header has column 'text' 2 times; rename one"):
        texts(twice)


def test_a_stated_delimiter_and_quoting(tmp_path: Path):
    path = written(tmp_path, "a.csv", 'text;label\n"a" b;c\n"d;e\n')
    assert texts(path, delimiter=";", quoting=False) == [('"a" b', "c"), ('"d', "e")]
    with pytest.raises(InputError, match=r"a.csv:2: the quote opened here .* or set data.quoting=false"):
        texts(path)
    quoted = written(tmp_path, "a.tsv", 'text\tlabel\n"a\nb"\tc\n')
    assert texts(quoted, quoting=True) == [("a\nb", "c")]
    assert texts(written(tmp_path, "b.csv", "text~label\na~c\n"), delimiter="~") == [("a", "c")]
    assert texts(written(tmp_path, "c.csv", "text\tlabel\na\tc\n"), delimiter="tab") == [("a", "c")]
    with pytest.raises(InputError, match=r"data.delimiter is ';;'; expected one character, such as ';', or tab"):
        texts(path, delimiter=";;")


def test_missing_columns_are_named_at_once_with_their_keys(tmp_path: Path):
    path = written(tmp_path, "a.csv", "review;sentiment\na;b\n")
    with pytest.raises(MissingColumns) as caught:
        texts(path)
    assert str(caught.value) == (
        f"{path}:1: no columns 'text' and 'label' in the header, which has 'review', 'sentiment'; name yours with "
        "--set data.text=COLUMN and --set data.label=COLUMN; without a header name them by number, as --set "
        "data.text=1"
    )


@pytest.mark.parametrize("name", ["Text ", "text:", "text, #1"])
def test_a_proposed_column_is_read_when_it_is_typed(name: str, tmp_path: Path):
    path = written(tmp_path, "a.csv", f'"{name}",label\n' + "a,b\n" * 10)
    with pytest.raises(MissingColumns) as caught:
        texts(path)
    _, typed = shlex.split(str(caught.value).partition("name yours with ")[2])
    data = run_file.read(path_of("classify"), [f"data.train={path}", typed]).data
    assert data.text == name
    assert len(data.load().train) == 9


def test_a_column_whose_name_is_a_number():
    with pytest.raises(InputError, match=r"'text', 2019 must all be names.* is in quotation marks, as --set") as caught:
        LabelledTables(train="a.csv", label=2019)
    typed = shlex.split(str(caught.value).partition("marks, as --set ")[2])
    assert run_file.read(path_of("classify"), ["data.train=a.csv", *typed]).data.label == "2019"


def test_missing_columns_are_probably_different_ones_in_their_order(tmp_path: Path):
    path = tmp_path / "snli.jsonl"
    path.write_text(json.dumps({"gold_label": "a", "sentence1": "b", "sentence2": "c"}) + "\n", encoding="utf-8")
    tables = LabelledTables(train=str(path), text="sentence_A", second="sentence_B", label="entailment_judgment")
    expected = "data.text=sentence1 and --set data.second=sentence2 and --set data.label=gold_label"
    with pytest.raises(InputError, match=expected):
        tables.load()


def test_one_column_for_two_keys_is_refused():
    with pytest.raises(InputError, match=r"data.text and data.second name one column, 'b'; expected a column for each"):
        LabelledTables(train="a.csv", text="b", second="b", label="c")
    with pytest.raises(InputError) as caught:
        run_file.read(path_of("entailment"), ["data.train=a.csv", "data.text=b", "data.second=b", "data.label=c"])
    assert str(caught.value).startswith("--set data.text and data.second: name one column, 'b'; expected a column")


def test_a_missing_column_is_sought_by_its_key_too(tmp_path: Path):
    path = written(tmp_path, "a.csv", "premise,hypothesis,label\na,b,c\n")
    with pytest.raises(MissingColumns, match=r"name yours with --set data.label=label$"):
        texts(path, text="premise", label="entailment_judgment")


NESTED = {"id": 7, "review": {"body": "good", "stars": 5}, "meta": {"labels": ["pos", "sure"]}}


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_keys_inside_keys(name: str, tmp_path: Path):
    records = json.dumps(NESTED) + "\n" if name.endswith("l") else json.dumps([NESTED, NESTED], indent=1)
    path = written(tmp_path, name, records)
    settings = {"text": "review.body", "label": "review.stars"}
    assert texts(path, **settings)[0] == ("good", "5")
    assert texts(path, text="review.body", label="meta.labels.1")[0] == ("good", "sure")
    for skip_bad in (False, True):
        with pytest.raises(MissingColumns) as caught:
            texts(path, skip_bad=skip_bad)
        assert "no keys 'text' and 'label' in the object, which has 'id', 'review.body', 'review.stars'" in str(
            caught.value
        )
        assert str(caught.value).endswith("--set data.text=COLUMN and --set data.label=meta.labels")
    with pytest.raises(InputError, match=r"'review.stars' is int, expected text"):
        texts(path, text="review.stars", label="review.body")


def test_a_record_that_lacks_a_key_among_others_is_a_bad_record(tmp_path: Path):
    lines = [{"text": "a", "label": "b"}, {"text": "c"}]
    path = written(tmp_path, "a.jsonl", "".join(json.dumps(each) + "\n" for each in lines))
    with pytest.raises(InputError, match=r"a.jsonl:2: no key 'label' .* leave such records out with --set data.skip_"):
        texts(path)
    assert texts(path, skip_bad=True) == [("a", "b")]
    path = written(tmp_path, "b.jsonl", "".join(json.dumps(each) + "\n" for each in reversed(lines)))
    assert texts(path, skip_bad=True) == [("a", "b")]


def test_json_that_is_no_list(tmp_path: Path):
    with pytest.raises(InputError, match=r"a.json: is no list; expected a list of objects; one a line is .jsonl"):
        texts(written(tmp_path, "a.json", '{"a": 1}'))


@pytest.mark.parametrize("data", [LabelledTables(), Questions()])
def test_a_list_that_is_json_lines(data: LabelledTables | Questions, tmp_path: Path):
    path = written(tmp_path, "a.json", '{"text": "a"}\n{"text": "b"}\n')
    with pytest.raises(InputError) as caught:
        data.read(path)
    assert str(caught.value) == f"{path}: has an object a line, which is JSON lines; rename it to a.jsonl"
    path = written(tmp_path, "b.json", '{"text": "a"\n')
    with pytest.raises(InputError, match=r"b.json: character 13: not valid JSON [^?]*(cut off\?|\); expec.*)$"):
        data.read(path)


QUESTIONS = "question,context,answer\nWho?,She did,She\nWhen?,She did,did\nWhat?,He ran,ran\nWhy?,No idea,idea\n"


def test_span_answers_in_a_table(tmp_path: Path):
    path = written(tmp_path, "a.csv", QUESTIONS)
    found = Questions(train=path, answer="answer").load()
    assert len(found.train) + len(found.valid) == 4
    assert {each.context for each in found.train}.isdisjoint(each.context for each in found.valid)
    plain = written(tmp_path, "plain.csv", QUESTIONS.partition("\n")[2])
    numbered = Questions(answer=3, context=2, question=1).read(plain)
    assert [each.start for question in numbered for each in question.answers] == [0, 4, 3, 3]
    nested = {"question": "Who?", "context": "She did", "answers": {"text": ["She"], "answer_start": [0]}}
    (pair,) = Squad(answer="answers.text").read(written(tmp_path, "b.jsonl", json.dumps(nested)))
    assert pair.target == "She"
    with pytest.raises(MissingColumns, match=r"no column 'answer_text'.*--set data.answer=answer$"):
        Questions(train=path).load()


def test_what_is_held_out_is_a_share_by_groups(tmp_path: Path):
    path = written(tmp_path, "a.tsv", "".join(f"{number // 3}\t{number}\n" for number in range(300)))
    table = Table(train=path, source=1, target=2)
    splits = table.load()
    assert (len(splits.train), len(splits.valid)) == (270, 30)
    assert {each.source for each in splits.train}.isdisjoint(each.source for each in splits.valid)
    assert [int(each.target) for each in splits.train] == sorted(int(each.target) for each in splits.train)
    assert table.load() == splits
    assert Table(train=path, source=1, target=2, split_seed=2).load() != splits
    assert Table(train=path, source=1, target=2, valid=path).load().valid == table.read(path)
    assert describe_rows(table, splits)["valid"].origin == f"held out of {path} by data.split_seed 1"


def test_parallel_files_without_validation(tmp_path: Path):
    a, b = (written(tmp_path, name, "".join(f"{name} {n}\n" for n in range(20))) for name in "ab")
    splits = Parallel(train=(a, b)).load()
    assert (len(splits.train), len(splits.valid)) == (18, 2)
    for pair in (*splits.train, *splits.valid):
        assert pair.source.split()[1] == pair.target.split()[1]


def test_too_few_to_hold_out():
    with pytest.raises(InputError, match=r"x: 1 pairs are too few to hold some out; give data.valid"):
        HeldOut().hold_out([Pair("a", "b", "x:1")], "x: 1 pairs")
    with pytest.raises(InputError, match=r"held_out is 0.7; expected a share above 0, at most 0.5"):
        HeldOut(held_out=0.7)


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    folder = tmp_path / "photographs"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.png").write_bytes(b"an image")
    return folder


def test_captions_in_a_folder_with_its_table(photographs: Path):
    lines = "".join(f"{number}.png,a dog {number}\n" for number in range(10))
    written(photographs, "metadata.csv", f"file_name,text\n{lines}")
    splits = CaptionTables(train=str(photographs), image="file_name", captions="text").load()
    assert (len(splits.train), len(splits.valid)) == (9, 1)
    assert splits.train[0].image == photographs / "0.png"
    written(photographs, "b.csv", lines)
    with pytest.raises(InputError, match=r"has several tables, such as b.csv and metadata.csv; name one"):
        CaptionTables(train=str(photographs)).load()


def test_captions_in_texts_beside_the_images(photographs: Path):
    with pytest.raises(InputError, match=r"has no table of captions .* and no image with a .txt file of the same name"):
        CaptionTables(train=str(photographs)).load()
    for number in range(9):
        written(photographs, f"{number}.txt", f"a dog {number}\n\na pet\n")
    splits = CaptionTables(train=str(photographs)).load()
    assert len(splits.train) + len(splits.valid) == 9
    assert splits.train[0].captions == ("a dog 0", "a pet")


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_other_delimiters_are_for_names_that_fit_no_other(name: str, tmp_path: Path):
    mark = "\t" if name.endswith("tsv") else ","
    path = written(tmp_path, name, f"a;b{mark}c\n1{mark}2\n")
    assert [row.fields for row in read_table(path, ("a;b", "c"))] == [("1", "2")]

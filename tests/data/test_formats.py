"""Tables as people have them: delimiters, byte order marks, keys inside keys, JSON arrays; and what is held out."""

import codecs
import gzip
import json
import shlex
from collections import Counter
from pathlib import Path

import pytest

from regard.data.pairs import Parallel, Squad, Table, read_gold, read_links
from regard.data.rows import MissingColumns
from regard.data.splits import choose_from_strata
from regard.errors import InputError
from regard.maps.links import Gold
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.tasks.classification.data import LabelledTables
from regard.tasks.extractive_qa.data import Questions
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


def test_a_table_without_a_header_and_with_another_delimiter(tmp_path: Path):
    path = written(tmp_path, "a.csv", "good;pos\nbad, so bad;neg\n")
    assert texts(path, text=1, label=2) == [("good", "pos"), ("bad, so bad", "neg")]
    path = written(tmp_path, "c.csv", "good~very good\nbad\n")
    with pytest.raises(InputError, match=r"c.csv:1: 1 columns, so there is no column 2; .*Set data.delimiter"):
        texts(path, text=1, label=2)
    assert texts(path, text=1, label=2, delimiter="~", skip_bad=True) == [("good", "very good")]


STS = "news\t5.0\tA man, he eats\tA cat\nnews\t1.0\tA dog, so\tIt, too, is\tan URL\tanother\n"


def test_rows_with_further_columns_between_tabs(tmp_path: Path):
    path = written(tmp_path, "sts.csv", STS)
    found = LabelledTables(text=3, second=4, label=2).read(path)
    assert [(*each.texts, each.label) for each in found] == [
        ("A man, he eats", "A cat", "5.0"),
        ("A dog, so", "It, too, is", "1.0"),
    ]
    short = written(tmp_path, "short.csv", STS + "news\t1.0\tA dog\n")
    with pytest.raises(InputError, match=r"short.csv:3: 3 columns, expected 4 columns as in the first line"):
        texts(short, text=3, second=4, label=2, delimiter="tab")


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
        f"{path}:1: no column 'text' and 'label', there are 'review', 'sentiment'; name yours with --set "
        "data.text=COLUMN and --set data.label=COLUMN (by number from 1 if the file has no header)"
    )


def test_columns_without_a_header_are_named_by_number(tmp_path: Path):
    path = written(tmp_path, "a.tsv", "main\t2012\t0\t4.5\tA plane is taking off.\tAn air plane takes off.\n")
    with pytest.raises(MissingColumns, match=r"data.text=5 and --set data.second=6 and --set data.label=4 \(by number"):
        run_file.read(path_of("relatedness"), [f"data.train={path}"]).data.load()


@pytest.mark.parametrize("name", ["text:", "text, #1"])
def test_a_proposed_column_is_read_when_it_is_typed(name: str, tmp_path: Path):
    path = written(tmp_path, "a.csv", f'"{name}",label\n' + "a,b\n" * 10)
    with pytest.raises(MissingColumns) as caught:
        texts(path)
    _, typed, *_ = shlex.split(str(caught.value).partition("name yours with ")[2])
    data = run_file.read(path_of("classify"), [f"data.train={path}", typed]).data
    assert data.text == name
    assert len(data.load().train) == 9


def test_a_column_whose_name_is_a_number():
    with pytest.raises(InputError, match=r"'text', 2019 must all be names.* is in quotation marks, as --set") as caught:
        LabelledTables(train="a.csv", label=2019)
    typed = shlex.split(str(caught.value).partition("marks, as --set ")[2])
    assert run_file.read(path_of("classify"), ["data.train=a.csv", *typed]).data.label == "2019"


def test_one_column_for_two_keys_is_refused():
    with pytest.raises(InputError, match=r"data.text and data.second name one column, 'b'; expected a column for each"):
        LabelledTables(train="a.csv", text="b", second="b", label="c")


NESTED = {"id": 7, "review": {"body": "good", "stars": 5}, "meta": {"labels": ["pos", "sure"]}}


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_keys_inside_keys(name: str, tmp_path: Path):
    records = json.dumps(NESTED) + "\n" if name.endswith("l") else json.dumps([NESTED, NESTED], indent=1)
    path = written(tmp_path, name, records)
    settings = {"text": "review.body", "label": "review.stars"}
    assert texts(path, **settings)[0] == ("good", "5")
    assert texts(path, text="review.body", label="meta.labels.1")[0] == ("good", "sure")
    with pytest.raises(
        MissingColumns, match=r"no column 'text' and 'label', there are 'id', 'review.body', .*meta.labels"
    ):
        texts(path)
    with pytest.raises(MissingColumns, match=r"no column 'text' and 'label'"):
        texts(path, skip_bad=True)
    with pytest.raises(InputError, match=r"'review.stars' is int, expected text"):
        texts(path, text="review.stars", label="review.body")


def test_a_record_that_lacks_a_key_among_others_is_a_bad_record(tmp_path: Path):
    lines = [{"text": "a", "label": "b"}, {"text": "c"}]
    path = written(tmp_path, "a.jsonl", "".join(json.dumps(each) + "\n" for each in lines))
    with pytest.raises(
        InputError, match=r"a.jsonl:2: no column 'label'.* leave such records out with --set data.skip_"
    ):
        texts(path)
    assert texts(path, skip_bad=True) == [("a", "b")]
    path = written(tmp_path, "b.jsonl", "".join(json.dumps(each) + "\n" for each in reversed(lines)))
    assert texts(path, skip_bad=True) == [("a", "b")]


@pytest.mark.parametrize("data", [LabelledTables(), Questions()])
def test_a_list_that_is_json_lines(data: LabelledTables | Questions, tmp_path: Path):
    path = written(tmp_path, "a.json", '{"text": "a"}\n{"text": "b"}\n')
    with pytest.raises(InputError) as caught:
        data.read(path)
    assert str(caught.value) == f"{path}: has an object a line, which is JSON lines; rename it to .jsonl"
    path = written(tmp_path, "b.json", '{"text": "a"\n')
    with pytest.raises(InputError, match=r"b.json: character 13: not valid JSON"):
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
    with pytest.raises(MissingColumns, match=r"no column 'answer_text'.*--set data.answer=answer"):
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


def test_parallel_with_links(tmp_path):
    for name, text in {"a": "1 2\n3\n", "b": "x\ny z\n", "links": "1-0\n0-0 0-1\n"}.items():
        (tmp_path / name).write_text(text)
    a, b, links = (str(tmp_path / name) for name in ("a", "b", "links"))
    pairs = Parallel(train=(a, b), valid=(a, b), links=links).load()
    assert [pair.links for pair in pairs.train] == [frozenset({(1, 0)}), frozenset({(0, 0), (0, 1)})]
    assert [pair.links for pair in pairs.valid] == [None, None]
    (tmp_path / "links").write_text("1-0\n1-0\n")
    with pytest.raises(InputError, match=r"links:2: link 1-0 lies outside the 1 words of the source"):
        Parallel(train=(a, b), valid=(a, b), links=links).load()
    (tmp_path / "links").write_text("1-0\n")
    with pytest.raises(InputError, match="links has 1 lines, the training pairs are 2; expected equally many"):
        Parallel(train=(a, b), valid=(a, b), links=links).load()
    with pytest.raises(InputError, match="links go by line, so skip_bad must be false"):
        Parallel(train=(a, b), valid=(a, b), links=links, skip_bad=True)


def table(folder: Path, labels: list[str]) -> str:
    path = folder / "a.csv"
    path.write_text("text,label\n" + "".join(f"text {n},{label}\n" for n, label in enumerate(labels)), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("period", [2, 5, 10])
def test_classes_in_turn_are_all_held_out(period: int, tmp_path: Path):
    data = LabelledTables(train=table(tmp_path, [f"class {n % period}" for n in range(400)]))
    splits = data.load()
    assert len(splits.valid) == 40
    assert Counter(example.label for example in splits.valid) == {f"class {n}": 40 // period for n in range(period)}
    assert data.load() == splits
    assert LabelledTables(train=str(data.train), split_seed=2).load().valid != splits.valid


def test_the_only_row_of_a_class_stays_in_training():
    strata = ["a"] * 30 + ["b"] * 30 + ["single"]
    for seed in range(20):
        assert 60 not in choose_from_strata(strata, 0.1, seed)


def test_numbers_are_held_out_over_their_range():
    rows = choose_from_strata([float(n) for n in range(100)], 0.1, 1)
    assert [row // 10 for row in rows] == list(range(10))


def test_too_few_examples(tmp_path: Path):
    with pytest.raises(InputError, match=r"a.csv: 1 rows are too few to hold some out; give data.valid"):
        LabelledTables(train=table(tmp_path, ["a"])).load()


def test_pharaoh_lines(tmp_path: Path):
    path = tmp_path / "found"
    path.write_text("0-0 2-1\n\n1-1 1-1\n", encoding="utf-8")
    assert read_links(path) == [frozenset({(0, 0), (2, 1)}), frozenset(), frozenset({(1, 1)})]


def test_gold_lines(tmp_path: Path):
    path = tmp_path / "gold.gz"
    path.write_bytes(gzip.compress(b"0-0 2?1 3p4\n"))
    assert read_gold(path) == [Gold(frozenset({(0, 0)}), frozenset({(0, 0), (2, 1), (3, 4)}))]


def test_gold_json(tmp_path: Path):
    path = tmp_path / "gold.jsonl"
    records = [{"sure": [[0, 0]], "possible": [[1, 0]]}, {"sure": []}]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    assert read_gold(path) == [Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 0)})), Gold(frozenset(), frozenset())]


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("found", "0-0 1:2", "found:1: got '1:2'; expected links such as 3-5"),
        ("found", "0?0", "found:1: got '0?0'; expected links such as 3-5"),
        ("gold", "-1-0", "gold:1: got '-1-0'; expected links such as 3-5 or 3?5 or 3p5"),
        ("gold.jsonl", "{", "gold.jsonl:1: has no links ("),
        ("gold.jsonl", "[]", "gold.jsonl:1: has no links ("),
        ("gold.jsonl", '{"sure": [[0]]}', "gold.jsonl:1: has no links ("),
        ("gold.jsonl", '{"sure": [[0, -1]]}', "gold.jsonl:1: has no links (Input"),
    ],
)
def test_what_is_no_link(name: str, line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(line, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        (read_links if name == "found" else read_gold)(name)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("name", "available", "closest"),
    [
        ("text", ["comment_text", "toxic", "threat"], "comment_text"),
        ("text", ["threat", "test"], "test"),
        ("image", ["image_id", "file_name"], None),
        ("label", ["Label", "labels"], "Label"),
        ("answer_text", ["answers.answer_start", "answers.text"], "answers.text"),
    ],
)
def test_the_column_that_is_proposed(name: str, available: list[str], closest: str | None):
    assert MissingColumns("a.csv", [name], available).closest(name) == closest

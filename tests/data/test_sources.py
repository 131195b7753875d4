import dataclasses
import gzip

import pytest
from pydantic import TypeAdapter, ValidationError

from regard.data.generated.pairs import Dates
from regard.data.pairs import Parallel, Table
from regard.errors import InputError


@pytest.mark.parametrize("sizes", [{"train": 0}, {"valid": 0}, {"test": -1}, {"train": 10**9}, {"test": 10**6}])
def test_dates_refuse_impossible_sizes(sizes):
    with pytest.raises(InputError, match=f"dates: {next(iter(sizes))} is "):
        Dates(**sizes)


def test_table_picks_the_reader_by_suffix(tmp_path):
    contents = {
        "a.tsv": b"en\tde\none\teins\n",
        "a.csv": b"en,de\none,eins\n",
        "a.jsonl": b'{"de": "eins", "en": "one"}\n',
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
        path = str(tmp_path / name)
        splits = Table(train=path, valid=f"{path}.gz", source="de", target="en").load()
        for part in (splits.train, splits.valid):
            assert [(pair.source, pair.target) for pair in part] == [("eins", "one")]
    for suffix, mark in (("tsv", "\t"), ("csv", ",")):
        (tmp_path / f"b.{suffix}").write_text(f"one{mark}eins\ntwo{mark}zwei\n", encoding="utf-8")
    plain = Table(train=str(tmp_path / "b.tsv"), valid=str(tmp_path / "b.csv"), source=2, target=1).load()
    assert [pair.source for pair in plain.train] == ["eins", "zwei"]


def test_table_refuses_what_no_reader_knows():
    with pytest.raises(InputError, match=r"a.doc: unknown kind of table '.doc'; expected .arrow, .csv"):
        Table(train="a.tsv", valid="a.doc")
    with pytest.raises(InputError, match=r"the columns 1, 'target' must all be names, or all numbers"):
        Table(train="a.tsv", valid="a.tsv", source=1, target="target")
    with pytest.raises(InputError, match="must all be names"):
        Table(train="a.jsonl", valid="a.jsonl", source=1, target=2)


def test_a_run_file_can_hold_them():
    adapter = TypeAdapter(Dates | Parallel | Table)
    assert adapter.validate_python({"kind": "dates", "seed": 3}) == Dates(seed=3)
    parallel = adapter.validate_python({"kind": "parallel", "train": ["a", "b"], "valid": ["c", "d"]})
    assert parallel == Parallel(train=("a", "b"), valid=("c", "d"))
    assert adapter.validate_python(
        {"kind": "table", "train": "a.tsv", "valid": "b.tsv", "source": 2, "target": 1}
    ) == Table(train="a.tsv", valid="b.tsv", source=2, target=1)
    with pytest.raises(ValidationError, match="expected 1 to"):
        adapter.validate_python({"kind": "dates", "train": 0})
    for source in (Dates, Parallel, Table):
        assert dataclasses.fields(source)[0].name == "kind"


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

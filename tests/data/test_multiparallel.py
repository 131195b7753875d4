"""Files in several languages: one source, a target each."""

import json
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.tasks.multi_target.data import Multiparallel


def written(folder: Path, **texts: str) -> dict[str, str]:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {name: str(folder / name) for name in texts}


def test_each_language_has_the_same_sources(tmp_path: Path):
    files = written(tmp_path, en="one\ntwo\n", de="eins\nzwei\n", fr="un\ndeux\n")
    paths = tuple(files[name] for name in ("en", "de", "fr"))
    splits = Multiparallel(languages=("de", "fr"), train=paths, valid=paths).load()
    assert list(splits) == ["de", "fr"]
    assert [(pair.source, pair.target) for pair in splits["fr"].train] == [("one", "un"), ("two", "deux")]
    assert [pair.source for pair in splits["de"].valid] == ["one", "two"]
    assert (splits["de"].test, splits["de"].train[1].place) == ([], f"{files['en']}:2")


@pytest.mark.parametrize(
    ("languages", "train", "said"),
    [
        ((), ("a",), "languages are none; name each once"),
        (("de", "de"), ("a", "b", "c"), "languages are de, de; name each once"),
        (("..x/",), ("a", "b"), r"languages has 'x/', which is no language's name"),
        (("x.de", "y.de"), ("a", "b", "c"), "languages are de, de; name each once"),
        (("de", "fr"), ("a", "b"), "train has 2 files; expected 3, the source's and one for each language"),
    ],
)
def test_languages_and_files_that_do_not_fit(languages: tuple[str, ...], train: tuple[str, ...], said: str):
    with pytest.raises(InputError, match=f"multiparallel: {said}"):
        Multiparallel(languages=languages, train=train, valid=("a", "b", "c")[: len(languages) + 1])


def test_a_table_with_a_column_for_each_language(tmp_path: Path):
    lines = "".join(f"{n};ein {n};un {n}\n" for n in range(20))
    files = written(tmp_path, **{"a.csv": "en;de;fr\n" + lines})
    data = Multiparallel(languages=("de", "fr"), train=files["a.csv"], source="en")
    splits = data.load()
    assert [len(each) for each in (splits["fr"].train, splits["fr"].valid, splits["fr"].test)] == [18, 2, 0]
    assert [pair.source for pair in splits["de"].valid] == [pair.source for pair in splits["fr"].valid]
    assert {name: each[3].target for name, each in data.read([tmp_path / "a.csv"]).items()} == {
        "de": "ein 3",
        "fr": "un 3",
    }
    assert data.alone("fr").load() == splits["fr"]
    with pytest.raises(InputError, match=r"data.train is not given; expected a table, or files as .*SOURCE, DE, FR"):
        Multiparallel(languages=("de", "fr")).load()
    with pytest.raises(InputError, match=r"no column 'it'.*; name yours with --set 'data.languages=\[de, COLUMN\]'"):
        Multiparallel(languages=("de", "it"), train=files["a.csv"], source="en").load()


def test_columns_by_number_in_a_table_without_a_header(tmp_path: Path):
    lines = "".join(f"{n} cats\tein {n}\tun {n}\n" for n in range(20))
    table = written(tmp_path, **{"a.tsv": lines})["a.tsv"]
    settings = [f"data.train={table}", "data.source=1", "data.languages=[3, 2]"]
    data = run_file.read(path_of("translate-many"), settings).data
    splits = data.load()
    assert {name: each.train[0].target for name, each in splits.items()} == {"3": "un 0", "2": "ein 0"}
    assert data.alone("2").load() == splits["2"]
    with pytest.raises(InputError, match=r"got 2, expected a list, as --set 'data.languages=\[A, B\]'"):
        run_file.read(path_of("translate-many"), [*settings, "data.languages=2"])


def test_languages_are_keys_inside_others(tmp_path: Path):
    records = ({"translation": {"en": f"{n}", "de": f"ein {n}", "fr": f"un {n}"}} for n in range(20))
    path = written(tmp_path, **{"a.jsonl": "".join(f"{json.dumps(each)}\n" for each in records)})["a.jsonl"]
    languages = ("translation.de", "translation.fr")
    data = Multiparallel(languages=languages, train=path, source="translation.en")
    splits = data.load()
    assert data.names == tuple(splits) == ("de", "fr")
    assert (splits["fr"].train[0].source, splits["fr"].train[0].target) == ("0", "un 0")
    assert data.alone("fr").load() == splits["fr"]
    said = r"no column 'de' and 'fr'.*; name yours with --set 'data.languages=\[translation.de, translation.fr\]'"
    with pytest.raises(InputError, match=said):
        Multiparallel(languages=("de", "fr"), train=path, source="translation.en").load()

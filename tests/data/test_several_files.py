"""Sets of several files, of compressed ones, of Parquet and of a folder that `datasets` saved."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.data import cache
from regard.data.cache import CachedSet
from regard.data.files import Position, iterate_lines
from regard.data.pairs import Multiparallel, Parallel, Table
from regard.data.texts import Dialogue, RunningText
from regard.errors import InputError
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.storage import cache_folder
from regard.tasks.classification.data import LabelledTables

LINES = [f"line {number} of a text" for number in range(9)]


def zstd(data: bytes) -> bytes:
    return pytest.importorskip("pyarrow").compress(data, codec="zstd", asbytes=True)


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstd}
COMPRESSIONS |= {".xz": lzma.compress, ".bz2": bz2.compress}


def written(folder: Path, name: str, lines: list[str], ending: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / (name + ending)
    path.write_bytes(COMPRESSIONS[ending](("\n".join(lines) + "\n").encode()))
    return path


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_a_folder_and_a_pattern_of_texts(ending: str, tmp_path: Path):
    folder = tmp_path / "texts"
    for number in (2, 1, 3):
        written(folder, f"{number}.txt", LINES[3 * number - 3 : 3 * number], ending)
    written(folder, ".hidden", ["no"])
    for path in (str(folder), str(folder / f"*.txt{ending}"), str(tmp_path / "**" / f"?.txt{ending}")):
        assert RunningText(train=path).read(path) == LINES
        found = RunningText(train=path, held_out=0.3).load()
        assert [*found.train, *found.valid] == LINES
        whole = RunningText(train=path, valid=path, unit="file").load()
        assert whole.train == ["\n".join(LINES[n : n + 3]) + "\n" for n in (0, 3, 6)]
    with pytest.raises(InputError, match=r"none\*: no file fits"):
        RunningText(train=str(folder / "none*")).load()


def test_an_error_names_the_file_of_several(tmp_path: Path):
    folder = tmp_path / "tables"
    written(folder, "1.csv", ["text,label", "a,b"])
    written(folder, "2.csv", ["label,text", "d,c", "e"])
    data = LabelledTables(train=str(folder / "*.csv"))
    with pytest.raises(InputError, match=r"2.csv:3: 1 columns, expected 2 columns as in the first line"):
        data.read(str(folder / "*.csv"))
    found = LabelledTables(skip_bad=True).read(str(folder))
    assert [(each.texts[0], each.label, each.place) for each in found] == [
        ("a", "b", f"{folder}/1.csv:2"),
        ("c", "d", f"{folder}/2.csv:2"),
    ]
    written(folder, "3.jsonl", ["{}"])
    with pytest.raises(InputError, match=r"a folder with 2 kinds of tables; expected tables of one kind, or a pattern"):
        data.read(str(folder))
    for name in (".train", "dev.json", "train.json"):
        written(tmp_path / "squad", name, ["{}"])
    with pytest.raises(InputError, match=r"is a folder without tables; name a file, such as \S+squad/train.json"):
        data.read(str(tmp_path / "squad"))


@pytest.mark.parametrize("large", [False, True])
def test_parallel_folders(large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if large:
        pytest.importorskip("pyarrow")
        monkeypatch.setattr(cache, "SMALL", 1)
        monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "cache"))
    for side in ("de", "en"):
        written(tmp_path / side, "1", [f"{side} {line}" for line in LINES[:4]], ".gz")
        written(tmp_path / side, "2", [f"{side} {line}" for line in LINES[4:]])
    train = (str(tmp_path / "de"), str(tmp_path / "en"))
    found = Parallel(train=train, valid=train).load()
    assert isinstance(found.train, CachedSet) is large
    assert [(pair.source, pair.target) for pair in found.train] == [(f"de {line}", f"en {line}") for line in LINES]
    assert [pair.place for pair in found.train][3:5] == [f"{tmp_path}/de/1.gz:4", f"{tmp_path}/de/2:1"]
    written(tmp_path / "en", "3", ["more"])
    with pytest.raises(InputError, match=r"de names 2 files, \S*en 3; expected equally many, which are paired in"):
        Parallel(train=train, valid=train).load()


@pytest.mark.parametrize("ending", [".zst", ".xz", ".bz2"])
def test_compressed_lines(ending: str, tmp_path: Path):
    path = written(tmp_path, "a.txt", LINES * 999, ending)
    assert [line.text for line in iterate_lines(path)] == LINES * 999
    second = next(iterate_lines(path, start=Position(1, len(LINES[0]) + 1)))
    assert (second.number, second.text) == (2, LINES[1])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(
        InputError, match=rf"a.txt{ending}: is cut off or not a sound {ending} file near byte \d+ of its content"
    ):
        list(iterate_lines(path))
    path.write_bytes(b"not compressed")
    with pytest.raises(InputError, match=rf"a.txt{ending}: is cut off or not a sound {ending} file near byte 0"):
        list(iterate_lines(path))
    plain = tmp_path / "a.txt"
    plain.write_bytes(COMPRESSIONS[ending](b"a\n"))
    with pytest.raises(InputError, match=rf"data, but the name does not end in {ending}; rename it"):
        list(iterate_lines(plain))


def test_parquet_with_texts_lists_and_numbers(tmp_path: Path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    table = {"text": ["a", "b", None], "label": [1, 2, 3], "other": [None] * 3, "list": [["x", "y"], ["z"], ["w"]]}
    parquet.write_table(pa.table(table), path, row_group_size=2)
    found = LabelledTables(skip_bad=True).read(str(path))
    assert [(each.texts, each.label, each.place) for each in found] == [
        (("a",), "1", f"{path}:1"),
        (("b",), "2", f"{path}:2"),
    ]
    with pytest.raises(InputError, match=r"a.parquet:3: column 'text' is NoneType, expected text; correct it"):
        LabelledTables().read(str(path))
    pairs = Table(train=str(path), source="text", target="list", skip_bad=True).read(str(path))
    assert [(pair.source, pair.target, pair.alternatives) for pair in pairs] == [("a", "x", ("y",)), ("b", "z", ())]


NESTED = [
    {"id": "7", "review": {"body": f"text {row}", "meta": {"stars": row % 2}}, "langs": {"de": [f"{row}", "x"]}}
    for row in range(5)
]


def as_parquet(folder: Path, table: Any) -> Path:
    pytest.importorskip("pyarrow.parquet").write_table(table, folder / "a.parquet", row_group_size=2)
    return folder / "a.parquet"


def as_arrow(folder: Path, table: Any) -> Path:
    with pytest.importorskip("pyarrow").ipc.new_stream(str(folder / "data-0.arrow"), table.schema) as writer:
        writer.write_table(table)
    return folder


@pytest.mark.parametrize("write", [as_parquet, as_arrow])
@pytest.mark.parametrize("large", [False, True])
def test_keys_inside_structs(write: Callable[..., Path], large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setattr(cache, "SMALL", 1 if large else 1 << 30)
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "cache"))
    path = str(write(tmp_path, pa.Table.from_pylist(NESTED)))
    how = LabelledTables(train=path, valid=path, text="review.body", label="review.meta.stars")
    found = how.load().train
    assert [(each.texts[0], each.label) for each in found] == [(f"text {row}", f"{row % 2}") for row in range(5)]
    pairs = Table(train=path, valid=path, source="id", target="langs.de").load().train
    assert [(pair.target, pair.alternatives) for pair in pairs] == [(f"{row}", ("x",)) for row in range(5)]
    assert isinstance(found, CachedSet) is isinstance(pairs, CachedSet) is large
    assert Table(train=path, source="id", target="langs.de.1").read(path)[4].target == "x"


def test_classes_inside_structs_have_their_names(tmp_path: Path):
    pa = pytest.importorskip("pyarrow")
    features = {"review": {"body": {"_type": "Value"}, "meta": {"stars": {"names": ["bad", "good"]}}}}
    features["review"]["meta"]["stars"]["_type"] = "ClassLabel"
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    path = str(as_arrow(tmp_path, pa.Table.from_pylist(NESTED).replace_schema_metadata(metadata)))
    found = LabelledTables(text="review.body", label="review.meta.stars").read(path)
    assert [each.label for each in found] == ["bad", "good", "bad", "good", "bad"]


def test_a_folder_that_datasets_saved(tmp_path: Path):
    """Two shards of an Arrow stream each, beside JSON files, with the names of classes in the schema's metadata."""
    pa = pytest.importorskip("pyarrow")
    features = {
        "text": {"dtype": "string", "_type": "Value"},
        "label": {"names": ["bad", "good"], "_type": "ClassLabel"},
    }
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    schema = pa.schema([("text", pa.string()), ("label", pa.int64())], metadata=metadata)
    folder = tmp_path / "set"
    folder.mkdir()
    for number, rows in enumerate([(["a", "b"], [1, 0]), (["c"], [1])]):
        with pa.ipc.new_stream(str(folder / f"data-0000{number}-of-00002.arrow"), schema) as writer:
            writer.write_batch(pa.record_batch([pa.array(rows[0]), pa.array(rows[1])], schema=schema))
    (folder / "state.json").write_text("{}")
    (folder / "dataset_info.json").write_text("{}")
    found = LabelledTables(train=str(folder)).read(str(folder))
    assert [(each.texts[0], each.label) for each in found] == [("a", "good"), ("b", "bad"), ("c", "good")]
    shard = folder / "data-00001-of-00002.arrow"
    shard.write_bytes(shard.read_bytes()[:200])
    with pytest.raises(InputError, match=r"data-00001-of-00002.arrow: is no sound Parquet file or Arrow stream"):
        LabelledTables().read(str(folder))


def test_a_folder_with_the_files_of_several_sets(tmp_path: Path):
    folder = tmp_path / "cnn"
    for name in ("train", "validation", "test"):
        written(folder, f"{name}.csv", ["text,label", "a,b", "c,d"])
    expected = (
        f"{folder}: has files of several sets; name each: "
        f"--set data.train={folder}/train.csv --set data.valid={folder}/validation.csv --set "
        f"data.test={folder}/test.csv"
    )
    for data in (LabelledTables(train=str(folder)), Table(train=str(folder), source="text", target="label")):
        with pytest.raises(InputError) as caught:
            data.load()
        assert str(caught.value) == expected
    assert len(LabelledTables().read(f"{folder}/*.csv")) == 6


@pytest.mark.parametrize("names", [("train.txt", "dev.txt.gz"), ("wiki.train.tokens", "wiki.test.tokens")])
def test_folders_of_texts_with_several_sets(names: tuple[str, str], tmp_path: Path):
    de, en = str(tmp_path / "de"), str(tmp_path / "en")
    for folder in (de, en):
        for name in names:
            written(Path(folder), name, LINES, ".gz" if name.endswith(".gz") else "")
    for data in (RunningText(train=de), Dialogue(train=de), Parallel(train=(de, en))):
        with pytest.raises(InputError, match=rf"de: has files of several sets; .* --set data.train={de}/\S*train\S*"):
            data.load()


def test_a_folder_of_tables_for_translation(tmp_path: Path):
    folder = tmp_path / "multi"
    written(folder, "train.jsonl", [json.dumps({"translation": {"de": line, "en": line}}) for line in LINES])
    (folder / "README").write_text("about\n", encoding="utf-8")
    options = [f"data.train={folder}", "data.source=translation.de", "data.target=translation.en"]
    data = run_file.read(path_of("translate-rnn"), options).data
    assert isinstance(data, Table)
    assert [len(some) for some in data.load().by_name.values()] == [8, 1, 0]


def write_languages(folder: Path, **texts: str) -> dict[str, str]:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {name: str(folder / name) for name in texts}


def test_each_language_has_the_same_sources(tmp_path: Path):
    files = write_languages(tmp_path, en="one\ntwo\n", de="eins\nzwei\n", fr="un\ndeux\n")
    paths = tuple(files[name] for name in ("en", "de", "fr"))
    splits = Multiparallel(languages=("de", "fr"), train=paths, valid=paths).load()
    assert list(splits) == ["de", "fr"]
    assert [(pair.source, pair.target) for pair in splits["fr"].train] == [("one", "un"), ("two", "deux")]
    assert [pair.source for pair in splits["de"].valid] == ["one", "two"]
    assert (splits["de"].test, splits["de"].train[1].place) == ([], f"{files['en']}:2")


@pytest.mark.parametrize(
    ("languages", "train", "said"),
    [
        ((), ("a",), "languages are none; name each language once"),
        (("..x/",), ("a", "b"), "languages are x/; name each language once, by letters, digits"),
        (("x.de", "y.de"), ("a", "b", "c"), "languages are de, de; name each language once"),
        (("de", "fr"), ("a", "b"), "languages are de, fr; give tables, or 3 files each: source and languages"),
    ],
)
def test_languages_and_files_that_do_not_fit(languages: tuple[str, ...], train: tuple[str, ...], said: str):
    with pytest.raises(InputError, match=f"multiparallel: {said}"):
        Multiparallel(languages=languages, train=train, valid=("a", "b", "c")[: len(languages) + 1])


def test_a_table_with_a_column_for_each_language(tmp_path: Path):
    lines = "".join(f"{n};ein {n};un {n}\n" for n in range(20))
    files = write_languages(tmp_path, **{"a.csv": "en;de;fr\n" + lines})
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
    table = write_languages(tmp_path, **{"a.tsv": lines})["a.tsv"]
    settings = [f"data.train={table}", "data.source=1", "data.languages=[3, 2]"]
    data = run_file.read(path_of("translate-many"), settings).data
    splits = data.load()
    assert {name: each.train[0].target for name, each in splits.items()} == {"3": "un 0", "2": "ein 0"}
    assert data.alone("2").load() == splits["2"]
    with pytest.raises(InputError, match=r"got 2, expected a list, as --set 'data.languages=\[A, B\]'"):
        run_file.read(path_of("translate-many"), [*settings, "data.languages=2"])


def test_languages_are_keys_inside_others(tmp_path: Path):
    records = ({"translation": {"en": f"{n}", "de": f"ein {n}", "fr": f"un {n}"}} for n in range(20))
    path = write_languages(tmp_path, **{"a.jsonl": "".join(f"{json.dumps(each)}\n" for each in records)})["a.jsonl"]
    languages = ("translation.de", "translation.fr")
    data = Multiparallel(languages=languages, train=path, source="translation.en")
    splits = data.load()
    assert data.names == tuple(splits) == ("de", "fr")
    assert (splits["fr"].train[0].source, splits["fr"].train[0].target) == ("0", "un 0")
    assert data.alone("fr").load() == splits["fr"]
    said = r"no column 'de' and 'fr'.*; name yours with --set 'data.languages=\[translation.de, translation.fr\]'"
    with pytest.raises(InputError, match=said):
        Multiparallel(languages=("de", "fr"), train=path, source="translation.en").load()

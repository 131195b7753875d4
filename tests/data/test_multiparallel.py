"""Files in several languages: one source, a target each."""

from pathlib import Path

import pytest

from regard.errors import InputError
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
    assert (splits["de"].test, splits["de"].train[1].place) == ((), f"{files['en']}:2")


def test_a_language_with_fewer_lines(tmp_path: Path):
    files = written(tmp_path, en="one\ntwo\n", de="eins\n")
    with pytest.raises(InputError, match=r"en has 2 lines, .*de has 1; expected equally many"):
        Multiparallel(languages=("de",), train=(files["en"], files["de"]), valid=(files["en"], files["de"])).load()


@pytest.mark.parametrize(
    ("languages", "train", "said"),
    [
        ((), ("a",), "languages are none; name each once"),
        (("de", "de"), ("a", "b", "c"), "languages are de, de; name each once"),
        (("../x",), ("a", "b"), r"'../x' is no language's name"),
        (("de", "fr"), ("a", "b"), "train has 2 files; expected 3, the source's and one for each language"),
        (("de",), (), "train has 0 files; expected 2"),
    ],
)
def test_languages_and_files_that_do_not_fit(languages: tuple[str, ...], train: tuple[str, ...], said: str):
    with pytest.raises(InputError, match=f"multiparallel: {said}"):
        Multiparallel(languages=languages, train=train, valid=("a", "b", "c")[: len(languages) + 1])

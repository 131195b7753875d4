from pathlib import Path

import pytest

from regard.errors import InputError
from regard.tasks.masked_language_model.config import Documents

WIKI = """
 = Cats =

 Cats sit .
 They purr .

 = = Food = =

 Fish .
 = Dogs =
 Dogs bark .
"""


def written(folder: Path, text: str) -> str:
    (folder / "text.txt").write_text(text, encoding="utf-8")
    return str(folder / "text.txt")


def test_blank_lines_part_documents(tmp_path: Path):
    path = written(tmp_path, "\n\na\nb\n \n\nc\n")
    assert Documents(train=path).read(path) == [("a", "b"), ("c",)]


def test_headings_part_documents(tmp_path: Path):
    path = written(tmp_path, WIKI)
    cats, dogs = Documents(train=path, between="heading").read(path)
    assert cats == (" = Cats =", " Cats sit .", " They purr .", " = = Food = =", " Fish .")
    assert dogs == (" = Dogs =", " Dogs bark .")


def test_the_last_documents_are_held_out(tmp_path: Path):
    path = written(tmp_path, "\n\n".join("abcdefghij"))
    splits = Documents(train=path, held_out=0.2).load()
    assert splits.train == [(letter,) for letter in "abcdefgh"]
    assert splits.valid == [("i",), ("j",)]
    assert not splits.test


@pytest.mark.parametrize(
    ("text", "held_out", "message"),
    [
        ("a\n", 0.1, "one line is too few"),
        ("a\n\nb\n", 1.5, "held_out is 1.5"),
        ("a\n\nb", 0.0, "held_out is 0.0"),
    ],
)
def test_what_cannot_be_split(text: str, held_out: float, message: str, tmp_path: Path):
    with pytest.raises(InputError, match=message):
        Documents(train=written(tmp_path, text), held_out=held_out).load()

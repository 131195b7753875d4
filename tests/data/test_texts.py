"""Running text: its units, and its held-out part."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from regard.data.texts import TURN, Dialogue, RunningText, Turn, read_turns, replies, with_column
from regard.errors import InputError
from regard.tasks.masked_language_model.config import DocumentFiles


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("one two\n\nthree\nfour five six\n", encoding="utf-8")
    return str(path)


def test_lines_are_texts_and_blank_ones_too(file: str):
    found = RunningText(train=file, valid=file, test=file).load()
    assert found.train == found.valid == found.test == ["one two", "", "three", "four five six"]


def test_a_file_is_one_text(file: str):
    found = RunningText(train=file, valid=file, unit="file").load()
    assert found.train == ["one two\n\nthree\nfour five six\n"]
    assert found.test == []


def test_the_end_is_held_out(file: str):
    found = RunningText(train=file, held_out=0.4).load()
    assert (found.train, found.valid) == (["one two", "", "three"], ["four five six"])
    whole = RunningText(train=file, held_out=0.6, unit="file").load()
    assert (whole.train, whole.valid) == (["one two\n\n"], ["three\nfour five six\n"])


@pytest.fixture
def posts(tmp_path: Path) -> str:
    path = tmp_path / "posts.jsonl"
    path.write_text('{"id": "7", "body": "one two\\n\\nthree"}\n{"id": "8", "body": ["four five six", "7"]}\n')
    return str(path)


def test_the_lines_of_a_column_of_a_table_are_those_of_a_text(tmp_path: Path, posts: str):
    lines = ["one two", "", "three", "four five six", "7"]
    data = RunningText(train=posts, valid=posts, text="body")
    assert data.load().train == data.load().valid == lines
    assert RunningText(train=posts, held_out=0.5, text="body").load().train == lines[:3]
    assert RunningText(train=posts, valid=posts, unit="file", text="body").load().train == ["\n".join(lines) + "\n"]
    table = tmp_path / "posts.csv"
    table.write_text('7,"one two\n\nthree"\n8,four five six\n')
    assert RunningText(train=str(table), valid=posts, text=2).read(str(table)) == lines[:4]
    assert with_column(data, "2").read(str(table)) == lines[:4]
    assert with_column(data, None) is data


@pytest.mark.parametrize("kind", [RunningText, DocumentFiles])
def test_a_table_without_its_column_is_no_running_text(tmp_path: Path, posts: str, kind):
    with pytest.raises(InputError, match=r"posts.jsonl: a table, .* has it by --set data.text=COLUMN$"):
        kind(train=posts).load()


@pytest.mark.parametrize("kind", [RunningText, DocumentFiles])
@pytest.mark.parametrize(("name", "content"), [("blank.txt", "\n \n\n"), ("blank.csv", 'id,body\n1," "\n')])
def test_a_file_of_blank_lines_only_is_refused(kind: type[Any], name: str, content: str, file: str, tmp_path: Path):
    path = str(tmp_path / name)
    Path(path).write_text(content, encoding="utf-8")
    for sets in ({"train": path}, {"train": path, "valid": file}, {"train": file, "valid": path}):
        with pytest.raises(InputError, match=rf"{name}: .*all .*blank"):
            kind(**sets, text="body").load()


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
    assert DocumentFiles(train=path).read(path) == [("a", "b"), ("c",)]


def test_headings_part_documents(tmp_path: Path):
    path = written(tmp_path, WIKI)
    cats, dogs = DocumentFiles(train=path, between="heading").read(path)
    assert cats == (" = Cats =", " Cats sit .", " They purr .", " = = Food = =", " Fish .")
    assert dogs == (" = Dogs =", " Dogs bark .")


def test_the_last_documents_are_held_out(tmp_path: Path):
    path = written(tmp_path, "\n\n".join("abcdefghij"))
    splits = DocumentFiles(train=path, held_out=0.2).load()
    assert splits.train == [(letter,) for letter in "abcdefgh"]
    assert splits.valid == [("i",), ("j",)]
    assert not splits.test


TALK = """\
First Citizen:
Before we proceed any further,
hear me speak.

ALL:
Speak, speak.

Why?


A:
Good
 morrow.

B:

B:
Sir:
"""


def write_talk(folder: Path, text: str = TALK) -> str:
    path = folder / "talk.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_turns_are_paragraphs_without_the_name_of_who_speaks(tmp_path: Path):
    path = write_talk(tmp_path)
    assert list(read_turns(path)) == [
        Turn("Before we proceed any further, hear me speak.", f"{path}:2", True),
        Turn("Speak, speak.", f"{path}:6", False),
        Turn("Why?", f"{path}:8", False),
        Turn("Good morrow.", f"{path}:12", True),
        Turn("Sir:", f"{path}:18", False),
    ]


@pytest.mark.parametrize(
    ("count", "sources"),
    [
        (0, [TURN, TURN, TURN]),
        (1, [f"hear me speak. {TURN}", f"Speak, speak. {TURN}", f"Good morrow. {TURN}"]),
        (2, [f"hear me speak. {TURN}", f"hear me speak. {TURN} Speak, speak. {TURN}", f"Good morrow. {TURN}"]),
    ],
)
def test_replies_know_the_last_turns_of_their_conversation(count: int, sources: list[str], tmp_path: Path):
    found = list(replies(read_turns(write_talk(tmp_path)), count, longest=3))
    assert [pair.source for pair in found] == sources
    assert [pair.target for pair in found] == ["Speak, speak.", "Why?", "Sir:"]


def test_messages_of_chats_are_turns(tmp_path: Path):
    path = tmp_path / "chat.jsonl"
    lines = ['{"messages": [{"role": "system", "content": "s"}, {"content": "a\\nb"}, {"content": "c"}]}']
    path.write_text(f'{lines[0]}\n{{"conversations": [{{"from": "human", "value": "a b"}}, {{"value": "c"}}]}}')
    turns = [Turn(text, f"{path}:{line}", text == "a b") for line in (1, 2) for text in ("a b", "c")]
    assert list(read_turns(path)) == turns
    with pytest.raises(InputError, match=r"has chats, which `regard train dialogue` reads"):
        RunningText(train=str(path)).load()
    for line, said in (("{}", "has no messages"), ('{"messages": [{"content": 3}]}', "a message has no text")):
        path.write_text("\n".join([*lines, line]))
        with pytest.raises(InputError, match=rf"chat.jsonl:2: {said}"):
            list(read_turns(path))


def test_the_last_turns_are_held_out(tmp_path: Path):
    path = write_talk(tmp_path, "\n\n".join(f"turn {number}" for number in range(21)))
    splits = Dialogue(train=path, turns=1, held_out=0.25).load()
    assert [pair.target for pair in splits.valid] == [f"turn {number}" for number in range(16, 21)]
    assert len(splits.train) == 15
    assert splits.valid[0].place == f"{path}:33"
    other = Dialogue(train=path, valid=path, test=path).load()
    assert len(other.train) == len(other.valid) == len(other.test) == 20


def test_too_few_replies(tmp_path: Path):
    path = write_talk(tmp_path, "a\n\nb\n")
    with pytest.raises(InputError, match=r"talk.txt: 1 replies are too few to hold some out; give data.valid"):
        Dialogue(train=path).load()
    (tmp_path / "one.txt").write_text("a\nb\n", encoding="utf-8")
    for name in ("valid", "test"):
        files = {"train": path, "valid": path, name: str(tmp_path / "one.txt")}
        with pytest.raises(InputError, match=r"one.txt: has no reply of at most 50 words"):
            Dialogue(**files).load()  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("bad", [{"turns": -1}, {"longest": 0}, {"held_out": 0.0}, {"held_out": 1.0}])
def test_settings_that_cannot_be(bad: dict):
    with pytest.raises(ValidationError, match=rf"{next(iter(bad))}\n  Input should be "):
        TypeAdapter(Dialogue).validate_python({"train": "x", **bad})

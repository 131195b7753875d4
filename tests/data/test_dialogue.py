"""Conversations: the definition of a turn, and its context."""

from pathlib import Path

import pytest

from regard.data.texts import TURN, Dialogue, Turn, read_turns, replies
from regard.errors import InputError

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


def written(folder: Path, text: str = TALK) -> str:
    path = folder / "talk.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_turns_are_paragraphs_without_the_name_of_who_speaks(tmp_path: Path):
    path = written(tmp_path)
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
    found = list(replies(read_turns(written(tmp_path)), count, longest=3))
    assert [pair.source for pair in found] == sources
    assert [pair.target for pair in found] == ["Speak, speak.", "Why?", "Sir:"]


def test_the_last_turns_are_held_out(tmp_path: Path):
    path = written(tmp_path, "\n\n".join(f"turn {number}" for number in range(21)))
    splits = Dialogue(train=path, turns=1, held_out=0.25).load()
    assert [pair.target for pair in splits.valid] == [f"turn {number}" for number in range(16, 21)]
    assert len(splits.train) == 15
    assert splits.valid[0].place == f"{path}:33"
    other = Dialogue(train=path, valid=path, test=path).load()
    assert len(other.train) == len(other.valid) == len(other.test) == 20


def test_too_few_replies(tmp_path: Path):
    path = written(tmp_path, "a\n\nb\n")
    with pytest.raises(InputError, match=r"talk.txt: 1 replies are too few to hold some out; give data.valid"):
        Dialogue(train=path).load()
    (tmp_path / "one.txt").write_text("a\nb\n", encoding="utf-8")
    for name in ("valid", "test"):
        files = {"train": path, "valid": path, name: str(tmp_path / "one.txt")}
        with pytest.raises(InputError, match=r"one.txt: has no reply of at most 50 words"):
            Dialogue(**files).load()  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("bad", [{"turns": -1}, {"longest": 0}, {"held_out": 0.0}, {"held_out": 1.0}])
def test_settings_that_cannot_be(bad: dict):
    with pytest.raises(InputError, match=rf"dialogue: .*{next(iter(bad))} (is )?{next(iter(bad.values()))}"):
        Dialogue(train="x", **bad)

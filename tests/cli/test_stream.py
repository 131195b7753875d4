import io

import pytest

from regard.cli.streams import CHUNK, iterate_chunks, open_standard_input
from regard.errors import InputError


class Arriving(io.RawIOBase):
    """Bytes that come in given portions."""

    def __init__(self, *portions: bytes) -> None:
        self.portions = list(portions)
        self.reads = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        self.reads += 1
        portion = self.portions.pop(0) if self.portions else b""
        buffer[: len(portion)] = portion
        return len(portion)


def stream(*portions: bytes) -> io.BufferedReader:
    return io.BufferedReader(Arriving(*portions), 1 << 20)


@pytest.mark.parametrize(
    ("portions", "expected"),
    [
        ([], []),
        ([b"a\n"], [["a"]]),
        ([b"a"], [["a"]]),
        ([b"a\n", b"b\nc\n"], [["a"], ["b", "c"]]),
        ([b"a", b"b\nc", b"d"], [["ab"], ["cd"]]),
        ([b"a\r\nb\rc\n"], [["a", "b\rc"]]),
        ([b"\n\n"], [["", ""]]),
        ([b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"], [["a", "\ufeffb"]]),
        (["ä".encode()[:1], "ä".encode()[1:] + b"\n"], [["ä"]]),
        (["a\u2028b\x0bc\n".encode()], [["a\u2028b\x0bc"]]),
    ],
)
def test_lines_as_they_arrive(portions: list[bytes], expected: list[list[str]]):
    assert list(iterate_chunks(stream(*portions))) == expected


def test_a_line_is_given_before_the_next_is_asked_for():
    raw = Arriving(b"a\n", b"b\n")
    given = iterate_chunks(io.BufferedReader(raw))
    assert (next(given), raw.reads) == (["a"], 1)


def test_chunks_are_small():
    sizes = [len(chunk) for chunk in iterate_chunks(stream(b"x\n" * (2 * CHUNK + 3)))]
    assert sizes == [CHUNK, CHUNK, 3]


@pytest.mark.parametrize(
    ("portions", "said"),
    [
        ([b"a\nb\xffc\n"], "standard input:2: byte 0xff at byte 1 of the line is not UTF-8"),
        ([b"a\n", b"\xe4"], "standard input:2: byte 0xe4 at byte 0"),
        ([b"a\n", b"b\0\n"], "standard input:2: NUL byte at byte 1"),
        ([b"a\n" + b"x" * 8 + b"\n"], "standard input:2: line longer than 7 characters"),
        ([b"a\n", b"x" * 29], "standard input:2: line longer than 7 characters"),
    ],
)
def test_what_is_not_text_is_refused_after_what_is(portions: list[bytes], said: str):
    given = iterate_chunks(stream(*portions), max_line=7)
    assert next(given) == ["a"]
    with pytest.raises(InputError) as caught:
        next(given)
    assert str(caught.value).startswith(said)


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        open_standard_input()

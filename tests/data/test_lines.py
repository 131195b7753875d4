import gzip
import itertools
import os
import random

import pytest

from regard.data.files import Limits, iterate_numbered_lines, read_lines
from regard.errors import InputError


def refused(path, limits=None):
    """The message of the InputError that reading the file must raise: one line."""
    with pytest.raises(InputError) as caught:
        read_lines(path, limits or Limits())
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.fixture
def file(tmp_path):
    def write(content: bytes, name: str = "a.txt"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_are_numbered_from_one_and_the_last_needs_no_end(file, name):
    path = file(b"one\ntwo\r\n\nfour", name)
    assert list(iterate_numbered_lines(path)) == [(1, "one"), (2, "two"), (3, ""), (4, "four")]
    assert list(iterate_numbered_lines(str(path))) == list(iterate_numbered_lines(path))


def test_row_06_a_directory_is_not_a_file(tmp_path):
    assert "is a directory" in refused(tmp_path)


def test_row_06_an_unreadable_file_says_why(tmp_path):
    loop = tmp_path / "loop"
    os.symlink(loop, loop)
    assert "cannot be read" in refused(loop)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_row_06_an_empty_file_is_refused(file, name, content):
    assert "the file is empty" in refused(file(content, name))


def test_row_06_blank_lines_alone_are_counted(file):
    assert "3 lines, all of them blank" in refused(file(b"\n \t\r\n\n"))


def test_row_11_the_first_byte_that_is_not_utf8_is_located(file):
    content = "zehn\nf\u00fcnf\n".encode() + b"caf\xe9\n"
    message = refused(file(content))
    assert f":3: byte 0xe9 at byte offset {content.index(0xE9)} " in message
    assert f"at byte offset {content.index(0xE9)} " in refused(file(content, "a.gz"))


def test_row_11_offsets_count_the_byte_order_mark(file):
    content = b"\xef\xbb\xbfab\xff\n"
    assert f"at byte offset {content.index(0xFF)} " in refused(file(content))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_row_11_utf16_is_named(file, encoding):
    message = refused(file("some text\nand more\n".encode(encoding)))
    assert encoding.upper() in message
    assert "byte offset 0" in message


def test_row_11_a_nul_byte_is_located(file):
    assert ":2: NUL byte at byte offset 15" in refused(file(b"first\nsecond li\0ne\n"))


def test_row_11_a_byte_order_mark_is_removed_silently(file):
    assert read_lines(file(b"\xef\xbb\xbfone\ntwo\n")) == ["one", "two"]


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\r", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_row_12_only_a_newline_ends_a_line(file, inside):
    assert read_lines(file(f"a{inside}b\nc\n".encode())) == [f"a{inside}b", "c"]


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
@pytest.mark.parametrize("letter", ["x", "\u20ac", "\U0001f40d"])
def test_row_13_a_line_above_the_limit_is_refused_with_its_number(file, name, letter):
    limits = Limits(max_line=7)
    path = file(f"ok\n{letter * 7}\r\n{letter * 7}".encode(), name)
    assert read_lines(path, limits) == ["ok", letter * 7, letter * 7]
    assert ":2: line longer than 7 characters" in refused(file(f"ok\n{letter * 8}\nok\n".encode(), name), limits)


def test_row_13_ten_megabytes_in_one_line(file):
    assert ":2: line longer than 1048576 characters" in refused(file(b"short\n" + b"x" * 10_000_000))


def test_row_15_a_truncated_gzip_file(file):
    path = file(b"".join(b"%d %d\n" % (n, n * n) for n in range(1000)), "a.gz")
    whole = path.read_bytes()
    for size in (5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert "cut off" in refused(path)


def test_row_15_damaged_and_misnamed_gzip_files(file):
    path = file(b"plain text\n", "plain.txt")
    assert "not a sound .gz file" in refused(path.rename(path.with_suffix(".gz")))
    packed = file(b"text\n" * 50, "b.gz")
    assert "does not end in .gz" in refused(packed.rename(packed.with_suffix(".txt")))


def test_row_15_a_gzip_bomb_stops_at_the_limit(file):
    path = file(b"0123456789\n" * 20_000, "bomb.gz")
    assert path.stat().st_size < 20_000
    lines = iterate_numbered_lines(path, Limits(max_decompressed=1100))
    assert [number for number, _ in itertools.islice(lines, 100)][-1] == 100
    with pytest.raises(
        InputError, match=r"expands to more than 1,100 bytes; raise REGARD_MAX_RATIO and REGARD_MAX_DECOMPRESSED"
    ):
        next(lines)
    assert len(read_lines(path, Limits(max_decompressed=220_000))) == 20_000


def test_cut_and_flipped_files_are_read_or_refused(file):
    """A reader meets any bytes with lines or an InputError, never with another exception."""
    dice = random.Random(17)
    whole = {name: file("first line\nzweite Zeile \u00fc\n".encode() * 13, name).read_bytes() for name in ("f", "f.gz")}
    outcomes = set()
    for trial in range(300):
        name = dice.choice(("f", "f.gz"))
        broken = bytearray(whole[name][: dice.randint(1, len(whole[name]))])
        broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
        path = file(b"", f"{trial}.{name}")
        path.write_bytes(broken)
        try:
            outcomes.add(type(read_lines(path)))
        except InputError:
            outcomes.add(InputError)
    assert outcomes == {list, InputError}

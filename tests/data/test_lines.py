import gzip
import io
import itertools
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from regard.data.arrays import arrays, read_idx
from regard.data.files import FileLimits, iterate_lines, read_lines
from regard.errors import InputError
from tests.cli.command import environment
from tests.data.tables import read_table


def refused(path, limits=None):
    """The message of the InputError that reading the file must raise: one line."""
    with pytest.raises(InputError) as caught:
        read_lines(path, limits or FileLimits())
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
    assert list(iterate_lines(path)) == [(1, 0, "one"), (2, 4, "two"), (3, 9, ""), (4, 10, "four")]
    assert list(iterate_lines(str(path))) == list(iterate_lines(path))


def test_a_folder_and_an_unreadable_file(tmp_path):
    assert "is a directory" in refused(tmp_path)
    loop = tmp_path / "loop"
    os.symlink(loop, loop)
    assert "cannot be read" in refused(loop)


ACCENTS = "zehn\nf\u00fcnf\n".encode() + b"caf\xe9\n"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"\n \t\r\n\n", "3 lines, all of them blank"),
        (ACCENTS, f":3: byte 0xe9 at byte offset {ACCENTS.index(0xE9)} "),
        (b"\xef\xbb\xbfab\xff\n", "at byte offset 5 "),
        ("some text\nand more\n".encode("utf-16"), ":1: UTF-16 text (byte order mark at byte offset 0)"),
        ("some text\nand more\n".encode("utf-32"), ":1: UTF-32 text (byte order mark at byte offset 0)"),
        (b"first\nsecond li\0ne\n", ":2: NUL byte at byte offset 15"),
    ],
)
def test_files_that_are_no_text(file, name, content, said):
    assert said in refused(file(content, name))


def test_a_byte_order_mark_is_removed_silently(file):
    assert read_lines(file(b"\xef\xbb\xbfone\ntwo\n")) == ["one", "two"]


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\r", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_only_a_newline_ends_a_line(file, inside):
    assert read_lines(file(f"a{inside}b\nc\n".encode())) == [f"a{inside}b", "c"]


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
@pytest.mark.parametrize("letter", ["x", "\u20ac", "\U0001f40d"])
def test_a_line_above_the_limit_is_refused_with_its_number(file, name, letter):
    limits = FileLimits(max_line=7)
    path = file(f"ok\n{letter * 7}\r\n{letter * 7}".encode(), name)
    assert read_lines(path, limits) == ["ok", letter * 7, letter * 7]
    assert ":2: line longer than 7 characters" in refused(file(f"ok\n{letter * 8}\nok\n".encode(), name), limits)


def test_truncated_and_misnamed_gzip_files(file):
    path = file(b"".join(b"%d %d\n" % (n, n * n) for n in range(1000)), "a.gz")
    whole = path.read_bytes()
    for size in (5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert "cut off" in refused(path)
    assert "not a sound .gz file" in refused(file(b"plain text\n", "b.txt").rename(path.with_name("b.gz")))
    assert "does not end in .gz" in refused(file(b"text\n" * 50, "c.gz").rename(path.with_name("c.txt")))


def test_a_gzip_bomb_stops_at_the_limit(file):
    path = file(b"0123456789\n" * 20_000, "bomb.gz")
    assert path.stat().st_size < 20_000
    lines = iterate_lines(path, FileLimits(max_decompressed=1100))
    assert [line.number for line in itertools.islice(lines, 100)][-1] == 100
    with pytest.raises(
        InputError, match=r"expands to more than 1,100 bytes; raise REGARD_MAX_RATIO and REGARD_MAX_DECOMPRESSED"
    ):
        next(lines)
    assert len(read_lines(path, FileLimits(max_decompressed=220_000))) == 20_000


PEAK = """
import resource, sys
from regard.data.files import read_lines
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        read_lines(path)
    except ValueError as error:
        print(error)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_small_file_of_one_line_or_of_short_ones(tmp_path: Path):
    """In a process of its own, whose memory is measured."""
    one, many = tmp_path / "one.txt.gz", tmp_path / "many.txt.gz"
    for path, content in ((one, b"x" * (1 << 26)), (many, b"ab\n" * (1 << 21))):
        path.write_bytes(gzip.compress(content, 9))
    assert many.stat().st_size < 10_000
    command = [sys.executable, "-c", PEAK, str(one), str(many)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True, timeout=120)
    first, first_peak, second, second_peak = done.stdout.splitlines()
    assert ":1: line longer than 1048576 characters" in first
    assert int(first_peak) < 50
    assert "has more than 1,048,576 lines; raise REGARD_MAX_LINES" in second
    assert int(second_peak) < 200


def test_rows_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "rows.txt.gz"
    path.write_bytes(gzip.compress(b"a\n" * 8))
    monkeypatch.setenv("REGARD_MAX_LINES", "7")
    with pytest.raises(InputError, match=r"rows.txt.gz:8: has more than 7 lines; raise REGARD_MAX_LINES or unpack"):
        read_lines(path, FileLimits())
    path.with_suffix("").write_bytes(b"a\n" * 8)
    assert len(read_lines(path.with_suffix(""), FileLimits())) == 8


def test_a_stream_without_an_end(tmp_path: Path):
    path = tmp_path / "stream"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as file:
            try:
                for _ in range(1 << 20):
                    file.write(b"ab\n")
            except BrokenPipeError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(InputError, match="stream:1001: has more than 1,000 lines"):
        read_lines(path, FileLimits(max_lines=1000))
    writer.join(10)
    assert not writer.is_alive()
    with pytest.raises(InputError, match="line longer than"):
        read_lines("/dev/zero")


def test_images_that_are_not_there(tmp_path: Path):
    head = bytes([0, 0, 8, 3]) + np.array([50_000, 1000, 80], ">u4").tobytes()
    (tmp_path / "a-images-idx3-ubyte").write_bytes(head + bytes(9))
    (tmp_path / "a-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + bytes(1 << 20)))
    with pytest.raises(InputError, match="says 50000 x 1000 x 80 bytes, at least one, but it has fewer"):
        read_idx(tmp_path / "a-images-idx3-ubyte", 3)
    with pytest.raises(InputError, match="expands to more than 4,194,304 bytes"):
        read_idx(tmp_path / "a-images-idx3-ubyte.gz", 3)


def archive(path: Path, shape: str, content: bytes, descr: str = "|u1") -> None:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("images.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content)


@pytest.mark.parametrize("shape", ["(50000000000,)", "(300000, 300000)", "(2,)", "(-8,)", "(4294967296, 4294967297)"])
def test_an_npz_with_a_false_header(tmp_path: Path, shape: str):
    archive(tmp_path / "a.npz", shape, bytes(8))
    with pytest.raises(InputError, match=r"a\.npz: no \.npz with images \(images.npy claims uint8 .* and has 8\)"):
        arrays(str(tmp_path / "a.npz"), ["images"])


def test_an_npz_that_unpacks_to_more(tmp_path: Path):
    archive(tmp_path / "a.npz", f"({1 << 23},)", bytes(1 << 23))
    with pytest.raises(InputError, match=r"a\.npz: expands to more than 4,194,304 bytes"):
        arrays(str(tmp_path / "a.npz"), ["images"])


def test_an_npz_is_read_as_numpy_reads_it(tmp_path: Path):
    expected = {"a": np.arange(12, dtype=np.int16).reshape(3, 4).T, "b": np.array(["x", "yz"])}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **expected)
    (tmp_path / "a.npz").write_bytes(buffer.getvalue())
    for found, each in zip(arrays(str(tmp_path / "a.npz"), ["a", "b"]), expected.values(), strict=True):
        np.testing.assert_array_equal(found, each)


@pytest.mark.parametrize("name", ["dictionary.parquet", "plain.parquet", "dictionary.arrow", "plain.arrow"])
def test_a_small_file_of_many_rows_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("regard.data.files.FREE_BYTES", 1 << 20)
    path = str(tmp_path / name)
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 3_000, pa.int32()), ["x" * 2_000])
    table = pa.table({"text": column.dictionary_decode() if "plain" in name else column})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    if name.endswith("parquet"):
        parquet.write_table(table, path)
    else:
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema, options=options) as writer:
            writer.write_table(table)
    assert Path(path).stat().st_size < 29_000
    with pytest.raises(InputError, match=rf"^{path}: expands to more than .*raise REGARD_MAX_RATIO"):
        read_table(path, ("text",))


@pytest.mark.parametrize("value", ["many", "0", "-1", "1e6", ""])
def test_a_limit_that_is_no_number(value: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGARD_MAX_LINES", value)
    with pytest.raises(InputError, match=r"REGARD_MAX_LINES is .*; expected a whole number from 1, such as 10000000"):
        FileLimits()

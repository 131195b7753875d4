"""Small files that claim to be large ones, and files without an end, are refused within bounded memory."""

import gzip
import io
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from regard.data.arrays import arrays, read_idx
from regard.data.files import Limits, read_lines
from regard.errors import InputError
from tests.cli.command import environment
from tests.data.tables import read_table

PEAK = """
import resource, sys
from regard.data.files import read_lines
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_lines(sys.argv[1])
except ValueError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def refused_within(path: Path) -> tuple[str, int]:
    """The message, and the MiB that reading took in a process of its own."""
    command = [sys.executable, "-c", PEAK, str(path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True, timeout=120)
    message, peak = done.stdout.splitlines()
    return message, int(peak)


def test_row_79_short_lines_in_a_small_file(tmp_path: Path):
    path = tmp_path / "bomb.txt.gz"
    with gzip.open(path, "wb", 9) as file:
        for _ in range(2):
            file.write(b"ab\n" * (1 << 20))
    assert path.stat().st_size < 10_000
    message, peak = refused_within(path)
    assert "has more than 1,048,576 lines; raise REGARD_MAX_LINES" in message
    assert peak < 200


def test_row_15_a_file_of_one_line_for_real(tmp_path: Path):
    path = tmp_path / "bomb.txt.gz"
    with gzip.open(path, "wb", 9) as file:
        for _ in range(64):
            file.write(b"x" * (1 << 20))
    message, peak = refused_within(path)
    assert ":1: line longer than 1048576 characters" in message
    assert peak < 50


def test_row_79_rows_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "rows.txt.gz"
    path.write_bytes(gzip.compress(b"a\n" * 8))
    monkeypatch.setenv("REGARD_MAX_LINES", "7")
    with pytest.raises(InputError, match=r"rows.txt.gz:8: has more than 7 lines; raise REGARD_MAX_LINES or unpack"):
        read_lines(path, Limits())
    path.with_suffix("").write_bytes(b"a\n" * 8)
    assert len(read_lines(path.with_suffix(""), Limits())) == 8


def test_row_79_a_stream_without_an_end(tmp_path: Path):
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
        read_lines(path, Limits(max_lines=1000))
    writer.join(10)
    assert not writer.is_alive()
    with pytest.raises(InputError, match="line longer than"):
        read_lines("/dev/zero")


def test_row_79_images_that_are_not_there(tmp_path: Path):
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
def test_row_79_an_npz_with_a_false_header(tmp_path: Path, shape: str):
    archive(tmp_path / "a.npz", shape, bytes(8))
    with pytest.raises(InputError, match=r"a\.npz: no \.npz with images \(images.npy claims uint8 .* and has 8\)"):
        arrays(str(tmp_path / "a.npz"), ["images"])


def test_row_79_an_npz_that_unpacks_to_more(tmp_path: Path):
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


@pytest.mark.slow
def test_a_small_parquet_file_with_many_rows_is_refused(tmp_path: Path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "a.parquet")
    text = pa.array(["x" * 100]).dictionary_encode()
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 3_000_000, pa.int32()), text.dictionary)
    parquet.write_table(pa.table({"text": column}), path)
    assert Path(path).stat().st_size < 50_000
    with pytest.raises(InputError, match=rf"^{path}: expands to more than .*raise REGARD_MAX_RATIO"):
        read_table(path, ("text",))


@pytest.mark.parametrize("value", ["many", "0", "-1", "1e6", ""])
def test_a_limit_that_is_no_number(value: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGARD_MAX_LINES", value)
    with pytest.raises(InputError, match=r"REGARD_MAX_LINES is .*; expected a whole number from 1, such as 10000000"):
        Limits()

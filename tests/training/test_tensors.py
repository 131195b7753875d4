import io
import json
import os
import pickle
import re
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from hypothesis import given, settings, strategies
from torch import nn

from regard.errors import InputError
from regard.storage.tensors import load_into, read_tensors, write_tensors


class Attack:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, ("executed",)


def file(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def entry(start: int, end: int) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [(end - start) // 4], "data_offsets": [start, end]}


def saved(value: object, **options: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    return stream.getvalue()


def refusal(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_tensors(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert "weights_only" not in message
    return message.removeprefix(f"{path}: ")


def test_tensors_come_back_with_type_shape_and_metadata(tmp_path: Path) -> None:
    shared = torch.arange(15.0)
    given = {
        "shared": shared,
        "tied": shared,
        "part": shared[3:7],
        "turned": shared.reshape(3, 5).T,
        "scalar": torch.tensor(7),
        "empty": torch.zeros(0, 2),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "flags": torch.tensor([True, False]),
        "learned": nn.Parameter(torch.ones(2)),
    }
    path = tmp_path / "é è.safetensors"
    write_tensors(path, given, {"model": "toy"})
    found = read_tensors(path)
    assert {name: (value.dtype, value.tolist()) for name, value in found.items()} == {
        name: (value.dtype, value.tolist()) for name, value in given.items()
    }
    with safetensors.safe_open(path, "pt") as opened:
        assert opened.metadata() == {"model": "toy"}
    write_tensors(path, {})
    assert read_tensors(path) == {}


@pytest.mark.parametrize("length", [0x0280, 0x8B1F])
def test_a_header_whose_length_looks_like_another_kind_of_file_is_read(tmp_path: Path, length: int) -> None:
    header = json.dumps({"weight": entry(0, 8)}).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(file(header.ljust(length), b"\0" * 8))
    assert read_tensors(path)["weight"].tolist() == [0, 0]


def test_every_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"weight": torch.zeros(3), "bias": torch.zeros(5)})
    whole = path.read_bytes()
    for end in range(len(whole)):
        assert re.search("broken or cut|empty file|plain text", refusal(path, whole[:end]))
    assert refusal(path, whole + b"\0").startswith("broken or cut")


@settings(max_examples=150, deadline=None)
@given(place=strategies.floats(0, 1, exclude_max=True), bit=strategies.integers(0, 7))
def test_a_flipped_bit_in_the_header_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, place: float, bit: int
) -> None:
    path = tmp_path_factory.mktemp("flip") / "w.safetensors"
    write_tensors(path, {"weight": torch.zeros(3, 5), "bias": torch.zeros(5)})
    data = bytearray(path.read_bytes())
    data[int(place * (len(data) - 80))] ^= 1 << bit
    path.write_bytes(data)
    try:
        found = read_tensors(path)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 either outcome is right, but no other exception
    else:
        assert sum(value.nbytes for value in found.values()) == 80


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"<!DOCTYPE html>\n<html><body>404</body></html>", "is an HTML page"),
        (b"\xef\xbb\xbf\n  <HTML><head>", "is an HTML page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "is a Git LFS pointer"),
        ("Zugriff verweigert: ähnlich\n".encode() * 100, "is plain text"),
        (b'{"error": "not found"}', "is plain text"),
        (b"", "is an empty file"),
        (b"\x1f\x8b\x08\x00" + b"\0" * 20, "is a gzip file"),
        (b"PK\x05\x06" + b"\0" * 18, "is an empty zip archive"),
        (b"\x93NUMPY\x01\x00", "is a NumPy array"),
        (b"\0" * 3, "broken or cut safetensors file"),
        (os.urandom(2) + b"\xff" * 300, "not a safetensors file, or its header of"),
    ],
)
def test_another_kind_of_file_is_named(tmp_path: Path, content: bytes, what: str) -> None:
    assert refusal(tmp_path / "w.safetensors", content).startswith(what)


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_tensors(tmp_path / "none")
    with pytest.raises(InputError, match="is a directory"):
        read_tensors(tmp_path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (saved(Attack()), "is a zip archive, as torch.save writes"),
        (saved(Attack(), _use_new_zipfile_serialization=False), "is a pickle"),
        (saved({"weight": torch.zeros(3)}), "is a zip archive"),
        *[(pickle.dumps(Attack(), protocol), "is a pickle") for protocol in (2, 3, 4, 5)],
        (pickle.dumps(Attack(), 0), "is plain text"),
    ],
)
def test_a_pickle_is_refused_and_never_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal(tmp_path / "w.safetensors", content).startswith(what)
    assert not Path("executed").exists()
    pickle.loads(pickle.dumps(Attack()))
    assert Path("executed").exists()  # so the attack would have shown


def test_a_zip_bomb_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * (1 << 25))
    content = stream.getvalue()
    assert len(content) < 1 << 17
    tracemalloc.start()
    assert refusal(tmp_path / "w.pt", content).startswith("is a zip archive")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def many(count: int) -> bytes:
    return b"{" + b",".join(b'"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(count)) + b"}"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (file(many(60_000)), "not a safetensors file, or its header of"),
        (file(b"{" + b" " * (1 << 23) + b"}"), "not a safetensors file, or its header of 8388610 bytes"),
        (file(b'{"a":' + b"[" * 100_000), "broken or cut"),
        (struct.pack("<Q", 1 << 62) + b"{}", "not a safetensors file, or its header of"),
        (file(b'{"w": %s, "w": %s}' % ((json.dumps(entry(0, 4)).encode(),) * 2), bytes(4)), "a tensor is listed twice"),
        (file(b'{"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}', bytes(4)), "broken or cut"),
        (file(json.dumps({"w": entry(4, 8)}).encode(), bytes(8)), "broken or cut"),
        (file(json.dumps({"v": entry(0, 8), "w": entry(4, 8)}).encode(), bytes(8)), "broken or cut"),
        (file(json.dumps({"w": entry(0, 1 << 62)}).encode(), bytes(8)), "broken or cut"),
        (file(b'{"w": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}', bytes(4)), "broken or cut"),
        (file(b'{"w": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}', bytes(8)), "broken or cut"),
        (file(b"[1, 2]"), "broken or cut"),
    ],
)
def test_an_unreasonable_header_is_refused_in_bounded_time(tmp_path: Path, content: bytes, what: str) -> None:
    began = time.process_time()
    assert refusal(tmp_path / "w.safetensors", content).startswith(what)
    assert time.process_time() - began < 5


def module() -> nn.Module:
    return nn.ModuleDict({"first": nn.Linear(3, 5), "norm": nn.BatchNorm1d(7)})


def test_misfits_are_listed_and_nothing_is_loaded() -> None:
    target = module()
    before = {name: value.clone() for name, value in target.state_dict().items()}
    given = {name: value + 1 for name, value in before.items()}
    given["first.weight"] = torch.zeros(5, 3, 1)
    given["norm.num_batches_tracked"] = torch.tensor(1.0)
    del given["norm.bias"]
    given |= {f"extra{i}": torch.zeros(1) for i in range(13)}
    with pytest.raises(InputError) as caught:
        load_into(target, given)
    assert str(caught.value) == (
        "weights do not fit ModuleDict: 1 missing: norm.bias; 13 unexpected: "
        + ", ".join(f"extra{i}" for i in range(10))
        + " and 3 more; 2 misshaped: first.weight is (5, 3, 1), expected (5, 3), "
        "norm.num_batches_tracked is (), expected () torch.int64; --allow-missing leaves the missing ones as they are"
    )
    assert all(torch.equal(value, before[name]) for name, value in target.state_dict().items())


def test_missing_tensors_only_on_request() -> None:
    target = module()
    kept = target.state_dict()["first.bias"].clone()
    given = {"first.weight": torch.full((5, 3), 2.0)}
    with pytest.raises(InputError, match="6 missing"):
        load_into(target, given)
    load_into(target, given, allow_missing=True)
    assert target.state_dict()["first.weight"].eq(2).all()
    assert torch.equal(target.state_dict()["first.bias"], kept)
    with pytest.raises(InputError, match="1 unexpected: other"):
        load_into(target, {"other": torch.zeros(1)}, allow_missing=True)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_the_umask_decides_who_reads_weights(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_tensors(tmp_path / "a.safetensors", {"a": torch.zeros(2)})
    finally:
        os.umask(before)
    assert (tmp_path / "a.safetensors").stat().st_mode & 0o777 == mode

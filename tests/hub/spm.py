"""Files as SentencePiece writes them, made byte by byte."""

import struct
from collections.abc import Mapping, Sequence

Piece = tuple[str, float, int]
"""A text, its log-probability and its type: 1 for a usual one, 2 unknown, 3 control."""
SPECIAL: tuple[Piece, ...] = (("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3))


def number(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + number(rest) if rest else bytes([low])


def field(index: int, value: int | float | bytes) -> bytes:
    if isinstance(value, bytes):
        return number(index * 8 + 2) + number(len(value)) + value
    if isinstance(value, float):
        return number(index * 8 + 5) + struct.pack("<f", value)
    return number(index * 8) + number(value)


def characters(table: Mapping[str, str]) -> bytes:
    """A table of what is written for what: a double array, a block of 256 units a node, and then the texts."""
    units = [0] * 512
    texts = b""
    units[0] = 256 << 10
    blocks = {b"": 256}
    for given, wanted in table.items():
        key = given.encode()
        for end in range(1, len(key) + 1):
            if key[:end] not in blocks:
                blocks[key[:end]] = len(units)
                units += [0] * 256
                place = blocks[key[: end - 1]] + key[end - 1]
                units[place] = key[end - 1] | (place ^ blocks[key[:end]]) << 10
        units[blocks[key[:-1]] + key[-1]] |= 1 << 8
        units[blocks[key]] = 1 << 31 | len(texts)
        texts += wanted.encode() + b"\0"
    array = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(array)) + array + texts


def model(
    pieces: Sequence[Piece],
    *,
    table: Mapping[str, str] | None = None,
    training: Mapping[int, int] | None = None,
    preparing: Mapping[int, int] | None = None,
) -> bytes:
    """The whole file; `training` and `preparing` are more fields of these parts."""
    parts = [field(1, field(1, text.encode()) + field(2, score) + field(3, kind)) for text, score, kind in pieces]
    trained = {3: 1} | dict(training or {})
    parts.append(field(2, b"".join(field(index, value) for index, value in trained.items())))
    prepared = field(1, b"test") + (field(2, characters(table)) if table else b"")
    parts.append(field(3, prepared + b"".join(field(index, value) for index, value in (preparing or {}).items())))
    return b"".join(parts)

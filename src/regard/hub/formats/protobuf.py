"""The wire format of protocol buffers: a sequence of numbered fields."""

import struct
from collections.abc import Iterable, Iterator

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
"""Wire types: a varint, 8 bytes, length-prefixed bytes, 4 bytes."""
LONGEST = 10
"""Most bytes of a varint."""
Value = int | bytes


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the number and the value of each field in order. Raises ValueError for a broken or truncated message."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, form = key >> 3, key & 7
        if form == VARINT:
            value, place = _varint(message, place)
            yield number, value
            continue
        if form == BYTES:
            size, place = _varint(message, place)
        elif form in (EIGHT, FOUR):
            size = 8 if form == EIGHT else 4
        else:
            raise ValueError(f"byte {place} begins no field")
        if place + size > len(message):
            raise ValueError(f"it ends at byte {len(message)}, inside a field")
        yield number, message[place : place + size]
        place += size


def decimal(value: Value) -> float:
    """Return the float32 in 4 bytes. Raises ValueError for another value."""
    if not isinstance(value, bytes) or len(value) != 4:
        raise ValueError("a field is no number of 4 bytes")
    return struct.unpack("<f", value)[0]


def whole(value: Value) -> int:
    """Return a whole number. Raises ValueError for another value."""
    if not isinstance(value, int):
        raise ValueError("a field is no whole number")
    return value


def content(value: Value) -> bytes:
    """Return the bytes of a text or of a nested message. Raises ValueError for another value."""
    if not isinstance(value, bytes):
        raise ValueError("a field is a number where bytes should be")
    return value


def encoded(parts: Iterable[tuple[int, int | float | bytes]]) -> bytes:
    """Encode fields as a message: a nonnegative int as a varint, a float as 4 bytes, bytes with their length."""
    result = bytearray()
    for number, value in parts:
        match value:
            case int():
                result += _as_varint(number << 3 | VARINT) + _as_varint(value)
            case float():
                result += _as_varint(number << 3 | FOUR) + struct.pack("<f", value)
            case _:
                result += (
                    _as_varint(number << 3 | BYTES) + _as_varint(len(value)) + value
                )
    return bytes(result)


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Return the varint that begins at a place, and the place after it."""
    value = 0
    for count, byte in enumerate(message[place : place + LONGEST]):
        value |= (byte & 127) << 7 * count
        if byte < 128:
            return value, place + count + 1
    raise ValueError(f"byte {place} begins no whole number, or it is cut off")


def _as_varint(value: int) -> bytes:
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])

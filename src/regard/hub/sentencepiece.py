"""SentencePiece files of unigram models (Kudo and Richardson 2018), which Marian has.

A file is a protocol buffer: a sequence of numbered fields.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from regard.errors import InputError
from regard.storage.published_folder import PublishedFolder
from regard.text import Tokenizer, TokenizerSettings
from regard.text.special import END, NAMES, START, UNKNOWN, SpecialTokens
from regard.text.unigram import Pieces, Segmenter

VARINT, EIGHT_BYTES, LENGTH_PREFIXED, FOUR_BYTES = 0, 1, 2, 5
"""Wire types of fields."""
LONGEST = 10
"""Most bytes of a whole number."""
Value = int | bytes
PIECE, TRAINING, PREPARING, SHOWING = 1, 2, 3, 5
"""Fields of the file: a piece, the trainer's settings, the normalizers both ways."""
TEXT, SCORE, TYPE = 1, 2, 3
"""Fields of a piece."""
NORMAL, UNKNOWN_TYPE, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Types of pieces."""
REFUSED = {USER_DEFINED: "defined by its user", BYTE: "of single bytes"}
MODEL, SUFFIX, FALLBACK = 3, 24, 35
"""Fields of the trainer's settings: the model, blanks as suffixes, byte fallback."""
UNIGRAM = 1
CHARACTERS, PREFIX, COLLAPSE, ESCAPE = 2, 3, 4, 5
"""Fields of the normalizer: its table, a blank in front, one blank for several, ▁."""
KNOWN = 0.5
"""Least share of the pieces that a vocabulary must contain."""


def read_fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the number and the value of each field.

    Raises:
        ValueError: The message is broken or cut short.
    """
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, position = _read_varint(message, position)
            yield number, value
            continue
        if kind == LENGTH_PREFIXED:
            size, position = _read_varint(message, position)
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            size = 8 if kind == EIGHT_BYTES else 4
        else:
            raise ValueError(f"byte {position} begins no field")
        if position + size > len(message):
            raise ValueError(f"it ends at byte {len(message)}, inside a field")
        yield number, message[position : position + size]
        position += size


def write_fields(parts: Iterable[tuple[int, int | float | bytes]]) -> bytes:
    """Return fields as a message."""
    result = bytearray()
    for number, value in parts:
        if isinstance(value, int):
            result += _write_varint(number << 3 | VARINT) + _write_varint(value)
        elif isinstance(value, float):
            result += _write_varint(number << 3 | FOUR_BYTES) + struct.pack("<f", value)
        else:
            result += _write_varint(number << 3 | LENGTH_PREFIXED)
            result += _write_varint(len(value)) + value
    return bytes(result)


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    """Return the whole number at a position, and the position after it."""
    value = 0
    for count, byte in enumerate(message[position : position + LONGEST]):
        value |= (byte & 127) << 7 * count
        if byte < 128:
            return value, position + count + 1
    raise ValueError(f"byte {position} begins no whole number, or it is cut off")


def _write_varint(value: int) -> bytes:
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])


def _content(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a field is a number where bytes should be")
    return value


def _number(value: Value) -> int:
    if not isinstance(value, int):
        raise ValueError("a field is no whole number")
    return value


def read_pieces(folder: PublishedFolder, name: str) -> Pieces:
    """Read the pieces in a file of a folder.

    Raises:
        InputError: The file is missing, cut short or of another kind.
    """
    data = folder.data(name)
    try:
        return _pieces(data)
    except ValueError as error:
        raise InputError(
            f"{folder.path / name}: is not a SentencePiece model that regard reads: "
            f"{error}"
        ) from error


def _pieces(data: bytes) -> Pieces:
    scores: dict[str, float] = {}
    parts: dict[int, dict[int, Value]] = {TRAINING: {}, PREPARING: {}, SHOWING: {}}
    for number, value in read_fields(data):
        if number == PIECE:
            text, score, kind = _piece(_content(value))
            if kind in REFUSED:
                raise ValueError(f"piece {text!r} is one {REFUSED[kind]}")
            if text in scores:
                raise ValueError(f"piece {text!r} is there twice")
            if kind == NORMAL:
                scores[text] = score
        elif number in parts:
            parts[number] |= dict(read_fields(_content(value)))
    training, preparing = parts[TRAINING], parts[PREPARING]
    checks = {
        "it does not say how text is prepared; is it cut off?": bool(preparing),
        "it is no unigram model": training.get(MODEL, UNIGRAM) == UNIGRAM,
        "its blanks stand behind words": not training.get(SUFFIX),
        "single bytes stand for what is unknown": not training.get(FALLBACK),
        "its blanks are not written as ▁": bool(preparing.get(ESCAPE, 1)),
        "it shows another text than it encodes": not parts[SHOWING].get(CHARACTERS),
    }
    for problem, holds in checks.items():
        if not holds:
            raise ValueError(problem)
    characters = _content(preparing.get(CHARACTERS, b""))
    prefix, collapse = (
        bool(_number(preparing.get(key, 1))) for key in (PREFIX, COLLAPSE)
    )
    return Pieces(scores, characters, prefix, collapse)


def _piece(message: bytes) -> tuple[str, float, int]:
    values: dict[int, Value] = dict(read_fields(message))
    text = _content(values.get(TEXT, b"")).decode()
    score = 0.0
    if SCORE in values:
        data = _content(values[SCORE])
        if len(data) != 4:
            raise ValueError("a field is no number of 4 bytes")
        score = struct.unpack("<f", data)[0]
    return text, score, _number(values.get(TYPE, NORMAL))


def write_pieces(pieces: Pieces) -> bytes:
    """Return pieces as a SentencePiece file."""
    special = {
        NAMES[UNKNOWN]: UNKNOWN_TYPE,
        NAMES[START]: CONTROL,
        NAMES[END]: CONTROL,
    }
    table = [
        (name, 0.0, kind) for name, kind in special.items() if name not in pieces.scores
    ]
    table += [(piece, score, NORMAL) for piece, score in pieces.scores.items()]
    preparing = [
        (1, b"regard"),
        (CHARACTERS, pieces.characters),
        (PREFIX, int(pieces.prefix)),
        (COLLAPSE, int(pieces.collapse)),
        (ESCAPE, 1),
    ]
    messages = [
        write_fields([(TEXT, text.encode()), (SCORE, score), (TYPE, kind)])
        for text, score, kind in table
    ]
    return write_fields(
        [
            *((PIECE, message) for message in messages),
            (TRAINING, write_fields([(MODEL, UNIGRAM)])),
            (PREPARING, write_fields(preparing)),
        ]
    )


def read_side(
    folder: PublishedFolder,
    name: str,
    vocabulary: Mapping[str, int],
    special: SpecialTokens,
) -> Tokenizer:
    """Read the tokenizer of one side of a Marian model.

    Raises:
        InputError: The file is broken, or belongs to another vocabulary.
    """
    pieces = read_pieces(folder, name)
    known = sum(piece in vocabulary for piece in pieces.scores)
    if known < KNOWN * len(pieces.scores):
        raise InputError(
            f"{folder.path / name}: the vocabulary has {known} of its "
            f"{len(pieces.scores)} pieces; it belongs to another model"
        )
    settings = TokenizerSettings("unigram", max(5, len(vocabulary)))
    segmenter = Segmenter(vocabulary, pieces, special)
    return Tokenizer.of_backend(settings, segmenter, special)


def read_sides(
    folder: PublishedFolder, size: int, start: int, ends: tuple[int, ...]
) -> tuple[Tokenizer, Tokenizer]:
    """Read both tokenizers of a Marian model.

    Args:
        folder: The folder of the model.
        size: Number of the model's embeddings.
        start: The id that begins targets and pads.
        ends: The ids that end a text.

    Raises:
        InputError: A file is missing or broken, or belongs to another model.
    """
    location = folder.path / "vocab.json"
    about: Mapping[str, Any] = {}
    if folder.has("tokenizer_config.json"):
        about = folder.json("tokenizer_config.json")
    if about.get("separate_vocabs"):
        raise InputError(f"{folder.path}: separate_vocabs is true; expected one")
    entries = folder.json("vocab.json")
    count = len(entries)
    ids = [index for index in entries.values() if type(index) is int]
    if sorted(ids) != list(range(count)) or count > size:
        raise InputError(
            f"{location}: expected ids from 0 to at most {size - 1}, found {count} "
            "entries; it belongs to another model"
        )
    unknown = entries.get(NAMES[UNKNOWN])
    if unknown is None or not ends or len({start, unknown, *ends}) < 2 + len(ends):
        raise InputError(
            f"{location}: has no entry {NAMES[UNKNOWN]}, or none for start and end; is "
            "it of another model?"
        )
    unused = {f"<unused:{index}>": index for index in range(count, size)}
    vocabulary = dict(sorted(entries.items(), key=lambda entry: entry[1])) | unused
    special = SpecialTokens(
        start, unknown, start, ends[0], more_ends=ends[1:], unused=len(unused)
    )
    return (
        read_side(folder, "source.spm", vocabulary, special),
        read_side(folder, "target.spm", vocabulary, special),
    )

"""SentencePiece model files (Kudo and Richardson 2018): the pieces of a unigram model and its text normalization."""

from collections.abc import Mapping
from typing import Any

from regard.errors import InputError
from regard.hub.formats.folder import Folder
from regard.hub.formats.protobuf import Value, content, decimal, encoded, fields, whole
from regard.text.special import END, NAMES, START, UNKNOWN
from regard.text.unigram import Pieces

PIECE, TRAINING, PREPARING, SHOWING = 1, 2, 3, 5
"""Fields of the file: a piece, the trainer's settings, the normalizer, the denormalizer."""
TEXT, SCORE, TYPE = 1, 2, 3
"""Fields of a piece."""
NORMAL, UNKNOWN_TYPE, CONTROL, OWN, UNUSED, BYTE = range(1, 7)
"""Types of pieces."""
WHAT = {OWN: "defined by its user", BYTE: "of single bytes"}
MODEL, SUFFIX, FALLBACK = 3, 24, 35
"""Fields of the trainer's settings: the type of model, blanks as suffixes, byte fallback."""
UNIGRAM = 1
CHARACTERS, PREFIX, COLLAPSE, ESCAPE = 2, 3, 4, 5
"""Fields of the normalizer: the table of characters, a blank in front, one blank for several, blanks as ▁."""


def read(folder: Folder, name: str) -> Pieces:
    """Read the pieces in a file of a folder. Raises InputError for a missing, truncated or unsupported file."""
    data = folder.data(name)
    try:
        return _pieces(data)
    except ValueError as error:
        raise InputError(
            f"{folder.path / name}: is not a SentencePiece model that regard reads: {error}"
        ) from error


def write(pieces: Pieces) -> bytes:
    """Encode pieces as a SentencePiece file."""
    special = [
        (NAMES[UNKNOWN], UNKNOWN_TYPE),
        (NAMES[START], CONTROL),
        (NAMES[END], CONTROL),
    ]
    entries = [(piece, score, NORMAL) for piece, score in pieces.scores.items()]
    table = [
        (name, 0.0, kind) for name, kind in special if name not in pieces.scores
    ] + entries
    preparing = [
        (1, b"regard"),
        (CHARACTERS, pieces.characters),
        (PREFIX, int(pieces.prefix)),
        (COLLAPSE, int(pieces.collapse)),
        (ESCAPE, 1),
    ]
    return encoded(
        [
            *(
                (PIECE, encoded([(TEXT, text.encode()), (SCORE, score), (TYPE, kind)]))
                for text, score, kind in table
            ),
            (TRAINING, encoded([(MODEL, UNIGRAM)])),
            (PREPARING, encoded(preparing)),
        ]
    )


def _pieces(data: bytes) -> Pieces:
    scores: dict[str, float] = {}
    parts: dict[int, dict[int, Value]] = {TRAINING: {}, PREPARING: {}, SHOWING: {}}
    for number, value in fields(data):
        if number == PIECE:
            text, score, kind = _piece(content(value))
            if kind in WHAT:
                raise ValueError(f"piece {text!r} is one {WHAT[kind]}")
            if text in scores:
                raise ValueError(f"piece {text!r} is there twice")
            if kind == NORMAL:
                scores[text] = score
        elif number in parts:
            parts[number] |= dict(fields(content(value)))
    training, preparing = parts[TRAINING], parts[PREPARING]
    _require(bool(preparing), "it does not say how text is prepared; is it cut off?")
    _require(
        training.get(MODEL, UNIGRAM) == UNIGRAM,
        "it segments text otherwise than by the unigram model",
    )
    _require(not training.get(SUFFIX), "its blanks stand behind words")
    _require(not training.get(FALLBACK), "single bytes stand for what is unknown")
    _require(bool(preparing.get(ESCAPE, 1)), "its blanks are not written as ▁")
    _require(
        not parts[SHOWING].get(CHARACTERS),
        "what is shown is another text than what is encoded",
    )
    characters = content(preparing.get(CHARACTERS, b""))
    return Pieces(
        scores, characters, _switch(preparing, PREFIX), _switch(preparing, COLLAPSE)
    )


def _piece(message: bytes) -> tuple[str, float, int]:
    found: dict[int, Value] = dict(fields(message))
    return (
        content(found.get(TEXT, b"")).decode(),
        decimal(found[SCORE]) if SCORE in found else 0.0,
        whole(found.get(TYPE, NORMAL)),
    )


def _switch(found: Mapping[int, Any], key: int) -> bool:
    return bool(whole(found.get(key, 1)))


def _require(right: bool, otherwise: str) -> None:
    """Raises ValueError."""
    if not right:
        raise ValueError(otherwise)

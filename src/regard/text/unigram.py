"""Unigram pieces: the most probable segmentation of a text into known pieces.

Kudo 2018 (1804.10959), with SentencePiece's conventions: blanks are written as ▁, the text is one sequence of
characters, and successive characters that no piece has are one unknown piece. Pieces and vocabulary are separate: a
vocabulary may lack pieces and have other entries, and several tokenizers can share one. A text may begin with a mark
`>>name<<` of the vocabulary, a single piece that selects the target language of multilingual models. These tokenizers
come from published models and cannot be trained."""

import json
import re
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from tokenizers import Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.text.kinds import Merges, TokenizerSettings, to_visible
from regard.text.special import NAMES, REPLACEMENT, SPECIAL, UNKNOWN, SpecialTokens

HEAD, UNIT = 4, 4
"""Bytes of the array's length and of a unit of the array."""
LEAF, VALUE, LABEL = 1 << 8, (1 << 31) - 1, (1 << 31) | 255
"""In a unit: the bit of a node that ends a key, the bits of a value, and those of a label."""
PRINTABLE = [chr(code) for code in range(0x20, 0x7F)]
PLAIN = re.compile(r"[ -~]+(?=[ -~]|\Z)")
"""Printable ASCII before printable ASCII or the end: no combining mark follows."""
NOWHERE = re.compile(r"(?!)")
Span = tuple[int, int]


@dataclass(frozen=True)
class ReplacedText:
    """A text after replacement, and for each of its characters the span of the original text that it stands for."""

    text: str
    spans: list[Span]


class CharacterTable:
    """Replacements of sequences of characters, from their precompiled form; empty bytes are an empty table.

    Raises:
        ValueError: the bytes are no such table.
    """

    def __init__(self, compiled: bytes) -> None:
        size = int.from_bytes(compiled[:HEAD], "little")
        if compiled and (not size or size % UNIT or len(compiled) < HEAD + size):
            raise ValueError(
                f"its array has {size} of {len(compiled)} bytes; expected a multiple of {UNIT}"
            )
        self._texts = compiled[HEAD + size :]
        if compiled and not self._texts.endswith(b"\0"):
            raise ValueError("its last replacement has no end; is it cut off?")
        self._units = array("I", compiled[HEAD : HEAD + size])
        self._root = _children(0, self._units[0]) if self._units else 0

    def replace(self, text: str) -> ReplacedText:
        """Replace the longest entry at each character."""
        if not self._units:
            return ReplacedText(text, [(at, at + 1) for at in range(len(text))])
        parts: list[str] = []
        spans: list[Span] = []
        place = 0
        while place < len(text):
            plain = self._plain.match(text, place)
            if plain is not None:
                parts.append(plain.group())
                spans += [(at, at + 1) for at in range(place, plain.end())]
                place = plain.end()
                continue
            end, new = self._longest(text, place) or (place + 1, text[place])
            parts.append(new)
            spans += [(place, end)] * len(new)
            place = end
        return ReplacedText("".join(parts), spans)

    def _longest(self, text: str, start: int) -> tuple[int, str] | None:
        """The end of the longest entry that begins at `start`, and its replacement; None without one."""
        units, base, match = self._units, self._root, None
        for end in range(start, len(text)):
            unit = 0
            for byte in text[end].encode():
                place = base ^ byte
                if place >= len(units) or units[place] & LABEL != byte:
                    return match
                unit = units[place]
                base = _children(place, unit)
            if unit & LEAF and base < len(units):
                match = end + 1, self._text(units[base] & VALUE)
        return match

    def _text(self, place: int) -> str:
        return self._texts[
            place : self._texts.index(b"\0", min(place, len(self._texts) - 1))
        ].decode()

    @cached_property
    def _plain(self) -> re.Pattern[str]:
        """Characters that no entry has, which are searched in C; none if an entry has printable ASCII only."""
        pairs = ("".join(pair) for pair in product(PRINTABLE, repeat=2))
        replaces_ascii = any(
            self._longest(text, 0) is not None for text in (*PRINTABLE, *pairs)
        )
        return NOWHERE if replaces_ascii else PLAIN


def _children(place: int, unit: int) -> int:
    """The place from which a node's children are counted."""
    return place ^ (unit >> 10) << ((unit & 1 << 9) >> 6)


BLANK = "▁"
NOTHING = " "
"""The unknown piece. No normalised text contains it, since blanks are written as ▁."""
MARK = re.compile(r">>.*?<<", re.DOTALL)


@dataclass(frozen=True)
class Pieces:
    """Pieces with their log-probabilities, and the normalisation of texts. `characters` is a table of replacements in
    SentencePiece's precompiled form, empty for none. `prefix` puts a blank in front. `collapse` merges successive
    blanks and removes them at the ends.

    Raises:
        ValueError: there are no pieces, a piece is empty, contains a blank or occurs twice, or the table cannot be
            read.
    """

    scores: Mapping[str, float]
    characters: bytes = b""
    prefix: bool = True
    collapse: bool = True

    def __post_init__(self) -> None:
        if not self.scores:
            raise ValueError("it has no pieces")
        wrong = [piece for piece in self.scores if not piece or NOTHING in piece]
        if wrong:
            raise ValueError(
                f"a piece is {wrong[0]!r}; expected characters without blanks"
            )
        self.table()

    def table(self) -> CharacterTable:
        """The table of characters. Raises ValueError if it cannot be read."""
        try:
            return CharacterTable(self.characters)
        except ValueError as error:
            raise ValueError(
                f"its table of characters cannot be read: {error}"
            ) from error

    def normalizer(self) -> normalizers.Normalizer:
        """The normalizer of texts whose characters are replaced."""
        steps: list[Any] = []
        if self.collapse:
            steps += [
                normalizers.Replace(Regex(" {2,}"), " "),
                normalizers.Replace(Regex(f"^ +|[ {BLANK}]+$"), ""),
            ]
        return normalizers.Sequence(
            [*steps, normalizers.Prepend(BLANK)] if self.prefix else steps
        )

    def backend(self) -> Backend:
        """The backend that cuts text into these pieces."""
        unknown = NOTHING, min(self.scores.values())
        backend = Backend(models.Unigram([unknown, *self.scores.items()], 0, False))
        backend.normalizer = self.normalizer()
        backend.pre_tokenizer = pre_tokenizers.Metaspace(
            replacement=BLANK, prepend_scheme="never", split=False
        )
        return backend

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "characters": b64encode(self.characters).decode(),
            "prefix": self.prefix,
            "collapse": self.collapse,
            "pieces": [[piece, score] for piece, score in self.scores.items()],
        }


@dataclass(frozen=True)
class Encoded:
    """The ids of a text and their spans of characters."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class Segmenter:
    """Cut text into `pieces` and look up their ids in the `vocabulary`; pieces that it lacks are unknown."""

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        pieces: Pieces,
        special: SpecialTokens = SPECIAL,
    ) -> None:
        self._vocabulary, self._pieces, self._unknown = (
            dict(vocabulary),
            pieces,
            special.unknown,
        )
        self._known = {
            entry: index
            for entry, index in vocabulary.items()
            if index not in special.all
        }
        self._backend, self._table = pieces.backend(), pieces.table()
        self.normalizer, self.pre_tokenizer = (
            self._backend.normalizer,
            self._backend.pre_tokenizer,
        )

    def encode(self, sequence: str) -> Encoded:
        """Ids and spans of a text."""
        match = MARK.match(sequence)
        mark = match.group() if match and match.group() in self._known else ""
        # the library's own step replaces whole graphemes, and loses an accent that the table lacks
        replaced = self._table.replace(sequence[len(mark) :])
        encoding = self._backend.encode(replaced.text)
        ids = [self._known.get(piece, self._unknown) for piece in encoding.tokens]
        spans = [
            (replaced.spans[start][0], replaced.spans[end - 1][1])
            for start, end in encoding.offsets
        ]
        offsets = [(start + len(mark), end + len(mark)) for start, end in spans]
        return (
            Encoded([self._known[mark], *ids], [(0, len(mark)), *offsets])
            if mark
            else Encoded(ids, offsets)
        )

    def to_str(self) -> str:
        """The segmenter as JSON."""
        model = {"type": "Unigram", "vocab": self._vocabulary}
        return json.dumps(
            {"model": model} | self._pieces.document(), ensure_ascii=False
        )


def pieces_of(document: Mapping[str, Any]) -> Pieces:
    """Read the pieces that `Segmenter.to_str` wrote. Raises ValueError, TypeError or KeyError for anything else."""
    scores = {str(piece): float(score) for piece, score in document["pieces"]}
    characters = b64decode(document["characters"], validate=True)
    return Pieces(
        scores, characters, bool(document["prefix"]), bool(document["collapse"])
    )


class Unigram:
    """The vocabulary and pieces of a published model."""

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges,
        special: SpecialTokens = SPECIAL,
    ) -> Segmenter:
        """Every entry becomes a piece, all with the same probability."""
        entries = [
            entry for entry, index in vocabulary.items() if index not in special.all
        ]
        return Segmenter(vocabulary, Pieces(dict.fromkeys(entries, -1.0)), special)

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Segmenter:
        """Raises InputError."""
        raise InputError(
            "tokenizer kind is 'unigram': it is read from published models and not trained; choose bpe"
        )

    def join(self, pieces: Sequence[str]) -> str:
        plain = [REPLACEMENT if piece == NAMES[UNKNOWN] else piece for piece in pieces]
        return "".join(plain).replace(BLANK, " ").strip(" ")

    def label(self, piece: str) -> str:
        text = piece.replace(BLANK, " ")
        return to_visible(text.strip(" ") or text)

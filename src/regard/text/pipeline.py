"""Published tokenizers, computed by the tokenizers library.

A normalizer, a pre-tokenizer, a model (byte pairs, WordPiece, Unigram pieces) and a
decoder, as in a tokenizer.json.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from regard.text.kinds import (
    SpecialTokens,
    label_bytes,
    read_bytes,
    show_unknown,
    to_visible,
)

PARTS = ("normalizer", "pre_tokenizer", "decoder", "model")
HIDDEN = "\uffff"
"""A code point that no text has. It begins the pieces of special tokens inside a model,
so that no text contains them."""
NESTED = re.compile(r"\)(?:[*+]|\{\d+,)")
"""A repeated group of a regular expression, which may take exponential time."""


class Pipeline:
    """A tokenizer made of the `PARTS` of a tokenizer.json.

    Args:
        document: The parts.
        entries: Entries that are no pieces of the model, such as added tokens; those with
            the id of a piece name it.
        special: The special tokens.

    Raises:
        ValueError: A step has a regular expression that repeats a group.
        Exception: The tokenizers library cannot read the parts.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        entries: Mapping[str, int],
        special: SpecialTokens,
    ) -> None:
        self._document = {part: document.get(part) for part in PARTS}
        for part in PARTS[:-1]:
            _check_patterns(self._document[part])
        model = dict(document["model"])
        pieces = model["vocab"]
        if model["type"] == "Unigram":
            pieces = {piece: index for index, (piece, _) in enumerate(model["vocab"])}
            model["vocab"] = [
                [HIDDEN + piece if index in special.all else piece, score]
                for index, (piece, score) in enumerate(model["vocab"])
            ]
        self._entries = dict(entries)
        named = set(entries.values())
        self._vocabulary = {
            piece: index for piece, index in pieces.items() if index not in named
        } | self._entries
        empty = dict.fromkeys(("truncation", "padding", "post_processor"))
        self._backend = Backend.from_str(
            json.dumps(
                {"version": "1.0", "added_tokens": [], **empty}
                | self._document
                | {"model": model}
            )
        )
        self.normalizer = self._backend.normalizer
        self.pre_tokenizer = self._backend.pre_tokenizer
        self._is_byte_level = (document["decoder"] or {}).get("type") == "ByteLevel"

    def encode(self, sequence: str) -> Encoding:
        """Return ids and spans of a text; the names of special tokens are plain text."""
        return self._backend.encode(sequence)

    def join(self, pieces: Sequence[str]) -> str:
        """Return the text of successive pieces."""
        if self._is_byte_level:
            return read_bytes(pieces).decode("utf-8", errors="replace")
        decoder = self._backend.decoder
        pieces = show_unknown(pieces)
        return " ".join(pieces) if decoder is None else decoder.decode(pieces)

    def label(self, piece: str) -> str:
        """Return a readable form of one piece."""
        if self._is_byte_level:
            return label_bytes(piece)
        text = self.join([piece])
        return to_visible(text.strip(" ") or text or piece)

    def get_vocab(self) -> dict[str, int]:
        """Return the vocabulary."""
        return self._vocabulary

    def to_str(self) -> str:
        """Return the parts and entries as JSON."""
        document = self._document | {"entries": self._entries}
        return json.dumps(document, ensure_ascii=False)


def _check_patterns(step: Any) -> None:
    """Raise ValueError for a regular expression that repeats a group, in any step."""
    if isinstance(step, list):
        for part in step:
            _check_patterns(part)
    if isinstance(step, dict):
        pattern = step.get("Regex")
        if pattern is not None and NESTED.search(str(pattern)):
            raise ValueError(
                f"a step has the pattern {str(pattern)[:60]!r}, which repeats a group "
                "and may take exponential time; regard does not run it"
            )
        for part in step.values():
            _check_patterns(part)

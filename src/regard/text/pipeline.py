"""Pipelines of the tokenizers library as they are published: a normalizer, a pre-tokenizer, a model (Unigram pieces,
byte pairs, WordPiece) and a decoder, such as those of XLM-R's and T5's tokenizers. They come from published models and
cannot be trained.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.text.kinds import GPT2BytePair, Merges, TokenizerSettings, to_visible
from regard.text.special import NAMES, REPLACEMENT, SPECIAL, UNKNOWN, SpecialTokens

PARTS = ("normalizer", "pre_tokenizer", "decoder", "model")
HIDDEN = "\uffff"
"""No text has this code point: it begins the pieces of special tokens inside a model, so that no text contains them."""
SCORED = "Unigram"
NESTED = re.compile(r"\)(?:[*+]|\{\d+,)")
"""A repeated group of a regular expression, which may take exponential time."""
BYTES = GPT2BytePair()


class Pipeline:
    """A tokenizer made of the `PARTS` of a tokenizer.json in `document`. `entries` are the ids behind those of its
    model: of added special tokens, and of unused ones.

    Raises:
        ValueError: a step has a regular expression of its own.
        Exception: the tokenizers library cannot read the parts.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        entries: Mapping[str, int],
        special: SpecialTokens = SPECIAL,
    ) -> None:
        for part in PARTS[:-1]:
            _check_patterns(document.get(part))
        self._document = {
            part: value for part, value in _normal(document).items() if part in PARTS
        }
        self._entries = dict(entries)
        self._backend = Backend.from_str(
            json.dumps(_normal(self._document | {"model": self._hidden(special)}))
        )
        self.normalizer, self.pre_tokenizer = (
            self._backend.normalizer,
            self._backend.pre_tokenizer,
        )
        decoder = self._document["decoder"] or {}
        self._bytes = decoder.get("type") == "ByteLevel"

    def encode(self, sequence: str) -> Encoding:
        """Ids and spans of a text; the names of special tokens are plain text."""
        return self._backend.encode(sequence)

    def join(self, pieces: Sequence[str]) -> str:
        """The text of successive pieces, by the decoder."""
        if self._bytes:
            return BYTES.join(pieces)
        plain = [REPLACEMENT if piece == NAMES[UNKNOWN] else piece for piece in pieces]
        decoder = self._backend.decoder
        return "".join(plain) if decoder is None else decoder.decode(plain)

    def label(self, piece: str) -> str:
        """A readable form of one piece."""
        if self._bytes:
            return BYTES.label(piece)
        text = self.join([piece])
        return to_visible(text.strip(" ") or text or piece)

    def to_str(self) -> str:
        """The parts and entries as JSON."""
        return json.dumps(
            self._document | {"entries": self._entries}, ensure_ascii=False
        )

    def _hidden(self, special: SpecialTokens) -> dict[str, Any]:
        """The model with pieces of special tokens that no text has; merges never make those of byte pairs."""
        model = dict(self._document["model"])
        if model["type"] == SCORED:
            special_ids = {*special.all}
            model["vocab"] = [
                [HIDDEN + piece if index in special_ids else piece, score]
                for index, (piece, score) in enumerate(model["vocab"])
            ]
        return model


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


def _normal(document: Mapping[str, Any]) -> dict[str, Any]:
    """A tokenizer.json of these parts alone, as the library writes it."""
    empty = dict.fromkeys(("truncation", "padding", "post_processor"))
    complete = (
        {"version": "1.0", "added_tokens": []}
        | empty
        | {part: document.get(part) for part in PARTS}
    )
    return json.loads(Backend.from_str(json.dumps(complete)).to_str())


def entries_of(document: Any) -> dict[str, int]:
    """The vocabulary of a pipeline that `Pipeline.to_str` wrote. Raises ValueError, TypeError or KeyError for anything
    else."""
    vocabulary = document["model"]["vocab"]
    pieces = (
        vocabulary
        if isinstance(vocabulary, dict)
        else {piece: at for at, (piece, _) in enumerate(vocabulary)}
    )
    return {**pieces, **document["entries"]}


class Pipelines:
    """The kind of published pipelines."""

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges,
        special: SpecialTokens = SPECIAL,
    ) -> Pipeline:
        """XLM-R's pipeline, in which every entry is a piece, all with the same probability. The ids count from 0."""
        metaspace = {
            "type": "Metaspace",
            "replacement": "▁",
            "prepend_scheme": "always",
            "split": True,
        }
        pieces = [
            [entry, -1.0] for entry in sorted(vocabulary, key=vocabulary.__getitem__)
        ]
        cut = {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace],
        }
        model = {
            "type": SCORED,
            "unk_id": special.unknown,
            "vocab": pieces,
            "byte_fallback": False,
        }
        return Pipeline(
            {
                "normalizer": None,
                "pre_tokenizer": cut,
                "decoder": metaspace,
                "model": model,
            },
            {},
            special,
        )

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Pipeline:
        """Raises InputError."""
        raise InputError(
            "tokenizer kind is 'pipeline': it is read from published models and not trained; choose bpe"
        )

    def join(self, pieces: Sequence[str]) -> str:
        """The pieces themselves; a tokenizer joins them by its own decoder."""
        return "".join(pieces)

    def label(self, piece: str) -> str:
        return to_visible(piece)

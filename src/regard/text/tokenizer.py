"""Text to ids and back."""

import hashlib
import heapq
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import shake_128
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from sys import intern
from typing import Any, Literal

from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.text import storage
from regard.text.kinds import UNKNOWN_WORDS, Cutter, TokenizerSettings
from regard.text.special import NAMES, REPLACEMENT, SPECIAL, UNKNOWN, SpecialTokens

VARIANTS = 32  # divides 256, so that a byte chooses each equally often
_CACHED_SEGMENTS = 50_000
_LONGEST_CACHED = 64
_Merge = tuple[
    int, int, str, str
]  # rank, where the left piece starts, left piece, right piece


class MergeDropout:
    """Segment words with skipped merges.

    ranks: the order in which pairs were learnt.
    ids: the vocabulary.
    probability: the probability that a merge is skipped, in [0, 1).
    """

    def __init__(
        self,
        ranks: Mapping[tuple[str, str], int],
        ids: Mapping[str, int],
        probability: float,
    ) -> None:
        self._ranks = ranks
        self._ids = ids
        self._probability = probability
        self._variants: dict[str, list[tuple[int, ...] | None]] = {}

    def encode(self, words: Sequence[str], text: str, seed: int) -> list[int]:
        """Ids of the words of `text`, written in byte-level characters: a pure function of (text, seed)."""
        noise = shake_128(f"{seed} {text}".encode()).digest(len(words))
        ids: list[int] = []
        for word, byte in zip(words, noise, strict=True):
            variants = self._variants.get(word)
            cached = variants[byte % VARIANTS] if variants is not None else None
            ids.extend(self._draw(word, byte % VARIANTS) if cached is None else cached)
        return ids

    def _draw(self, word: str, number: int) -> tuple[int, ...]:
        draw, probability = Random(f"{number} {word}").random, self._probability
        variant = tuple(
            self._ids[piece]
            for piece in segment(word, self._ranks, lambda: draw() < probability)
        )
        if len(word) <= _LONGEST_CACHED:
            if len(self._variants) >= _CACHED_SEGMENTS:
                self._variants.clear()
            self._variants.setdefault(word, [None] * VARIANTS)[number] = variant
        return variant


def segment(
    word: str, ranks: Mapping[tuple[str, str], int], skip: Callable[[], bool]
) -> list[str]:
    """The pieces of `word` after all merges. `skip()` decides whether a merge is skipped in this step.

    A step tries the merges in the order in which they were learnt, leftmost first, and stops at the first that is not
    skipped. Drawing only for the merges tried gives the same distribution as drawing for all.
    """
    size = len(word)
    pieces = list(word)
    following, preceding = list(range(1, size + 1)), list(range(-1, size - 1))
    queue = [
        (ranks[pair], start, *pair)
        for start, pair in enumerate(pairwise(pieces))
        if pair in ranks
    ]
    heapq.heapify(queue)
    skipped: list[_Merge] = []

    def offer(start: int) -> None:
        if start >= 0 and following[start] < size:
            pair = pieces[start], pieces[following[start]]
            rank = ranks.get(pair)
            if rank is not None:
                heapq.heappush(queue, (rank, start, *pair))

    while queue:
        _, start, previous, right = entry = heapq.heappop(queue)
        end = following[start]
        # A piece only grows, or is emptied into the one before it: if both pieces are unchanged, the pair still exists.
        if end >= size or pieces[start] != previous or pieces[end] != right:
            continue
        if skip():
            skipped.append(entry)
            continue
        pieces[start], pieces[end] = previous + right, ""
        following[start] = following[end]
        if following[end] < size:
            preceding[following[end]] = start
        offer(preceding[start])
        offer(start)
        while skipped:
            heapq.heappush(queue, skipped.pop())
    return [piece for piece in pieces if piece]


LARGEST = 1 << 28
"""The most bytes of a tokenizer file."""

_SURROGATES = re.compile("[\ud800-\udfff]")
TEXTS_PER_CALL = 1 << 12
"""Texts that are encoded in one call."""
_CACHED_TEXTS = 2**17
"""Number of texts whose words are cached, so that not every epoch cuts them again."""


class Tokenizer:
    """A vocabulary with the rules that cut text. Immutable; made by `train` or `load`.

    Any `str` can be encoded. A lone surrogate, which no text file can hold, is read as U+FFFD. This replaces one
    character by one, so that offsets refer to the original text. Encoding neither adds special ids nor searches for
    them.
    """

    def __init__(
        self,
        settings: TokenizerSettings,
        backend: Cutter,
        special: SpecialTokens,
        content: bytes,
    ) -> None:
        self.settings, self.special = settings, special
        self.digest = hashlib.sha256(content).hexdigest()
        self._content = content
        self._backend = backend
        self._writing = storage.writing_of(settings, backend)
        vocabulary, merges = storage.model_of(backend)
        self._vocabulary = sorted(vocabulary, key=vocabulary.__getitem__)
        self._words = lru_cache(maxsize=_CACHED_TEXTS)(self._cut)
        self._dropout = None
        if settings.dropout:
            ranks = {pair: rank for rank, pair in enumerate(merges)}
            self._dropout = MergeDropout(ranks, vocabulary, settings.dropout)

    @classmethod
    def train(cls, settings: TokenizerSettings, texts: Iterable[str]) -> "Tokenizer":
        """Learn the vocabulary. The same settings and texts give the same file, byte for byte. Raises InputError if all
        texts are blank, TypeError for a single str."""
        if isinstance(texts, str):
            raise TypeError(
                "texts is a str: expected an iterable of str, one per example"
            )
        backend = storage.KINDS[settings.kind].train(settings, _from_first_text(texts))
        return cls.of_backend(settings, backend)

    @classmethod
    def of(
        cls,
        settings: TokenizerSettings,
        vocabulary: Mapping[str, int],
        merges: Sequence[tuple[str, str]] = (),
        special: SpecialTokens | None = None,
    ) -> "Tokenizer":
        """Make a tokenizer from a known vocabulary. `special` are its special ids if they differ from `SPECIAL`. Raises
        InputError for a vocabulary that the kind cannot have."""
        kind = storage.KINDS[settings.kind]
        return cls.of_backend(
            settings, kind.build(vocabulary, merges, special or SPECIAL), special
        )

    @classmethod
    def of_backend(
        cls,
        settings: TokenizerSettings,
        backend: Cutter,
        special: SpecialTokens | None = None,
    ) -> "Tokenizer":
        """Make a tokenizer from a backend that cuts text like this kind. Raises InputError as `of` does."""
        return cls._read(storage.write(settings, backend, special), "vocabulary")

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a file that `save` wrote. Raises InputError, naming the file, for anything else."""
        try:
            with Path(path).open("rb") as file:
                content = file.read(LARGEST + 1)
        except OSError as error:
            raise InputError(
                f"{path}: cannot read the tokenizer file, {error.strerror or error}"
            ) from error
        if len(content) > LARGEST:
            raise InputError(
                f"{path}: larger than {LARGEST} bytes; expected a tokenizer file"
            )
        return cls._read(content, str(path))

    @classmethod
    def _read(cls, content: bytes, place: str) -> "Tokenizer":
        return cls(*storage.read(content, place), content)

    @property
    def content(self) -> str:
        """The tokenizer's file as text, from which `of_content` makes it again."""
        return self._content.decode()

    @classmethod
    def of_content(cls, content: str, place: str) -> "Tokenizer":
        """The tokenizer of a file's text. Raises InputError, naming the place, for anything else."""
        return cls._read(content.encode(), place)

    def with_special(self, special: SpecialTokens) -> "Tokenizer":
        """Return the same tokenizer with other roles of its special tokens."""
        return self.of_backend(self.settings, self._backend, special)

    def __reduce__(self) -> tuple[object, ...]:
        return Tokenizer._read, (self._content, "pickled tokenizer")

    def save(self, path: Path) -> None:
        """Write the tokenizer file. Raises OSError."""
        Path(path).write_bytes(self._content)

    @property
    def vocabulary(self) -> dict[str, int]:
        """Entries, as stored, with their ids."""
        return {entry: index for index, entry in enumerate(self._vocabulary)}

    @property
    def backend(self) -> dict[str, Any]:
        """The backend in the format of the Hugging Face tokenizers library; for kind unigram the pieces and their
        settings, for kind pipeline the steps and the ids behind its model's."""
        return json.loads(self._content)["tokenizer"]

    @property
    def size(self) -> int:
        """Number of entries, special ids included: ids are 0 to size - 1."""
        return len(self._vocabulary)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without start and end."""
        return self._backend.encode(_clean(text)).ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text; in parallel where the kind is one of the tokenizers library."""
        if not isinstance(self._backend, Backend):
            return [self.encode(text) for text in texts]
        batches = (
            texts[first : first + TEXTS_PER_CALL]
            for first in range(0, len(texts), TEXTS_PER_CALL)
        )
        return [
            encoding.ids
            for batch in batches
            for encoding in self._backend.encode_batch_fast(list(map(_clean, batch)))
        ]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """For each id of `encode(text)` its half-open span of characters of `text`.

        Starts and ends never decrease, and no span is empty. The ids of one character's bytes share its span. Spans
        cover the whole text, except the space between two words for kind word.
        """
        return self._backend.encode(_clean(text)).offsets

    def unknown_characters(self, text: str) -> tuple[int, int]:
        """How many characters of `text` are in unknown pieces or only in single bytes of theirs, and how many it has,
        white space aside."""
        text = _clean(text)
        pieces, characters = self._backend.encode(text), len("".join(text.split()))
        ids, offsets = pieces.ids, pieces.offsets
        if self.special.unknown not in ids and len({*offsets}) == len(offsets):
            return 0, characters
        unknown = {
            place
            for index, span in zip(ids, offsets, strict=True)
            if index == self.special.unknown
            for place in range(*span)
        }
        unknown |= {
            first
            for (first, end), count in Counter(offsets).items()
            if end - first == 1 < len(text[first].encode()) <= count
        }
        return sum(not text[place].isspace() for place in unknown), characters

    @property
    def unknown_unit(self) -> Literal["words", "characters"]:
        """What may be unknown to the tokenizer."""
        return "words" if self.settings.kind in UNKNOWN_WORDS else "characters"

    def unknown(self, text: str) -> tuple[int, int]:
        """How many units of `text` (`unknown_unit`) are unknown, and how many it has."""
        if self.unknown_unit == "characters":
            return self.unknown_characters(text)
        pieces = self._backend.encode(_clean(text))
        words = zip(pieces.ids, pieces.word_ids, strict=True)
        return len(
            {word for index, word in words if index == self.special.unknown}
        ), len({*pieces.word_ids})

    def encode_with_dropout(self, text: str, seed: int) -> list[int]:
        """Ids of a random segmentation of `text`, the same for the same (text, seed); without dropout as `encode`.

        BPE-dropout, Provilkov et al. 2020 (1910.13267). Every result decodes to `text`.
        """
        if self._dropout is None:
            return self.encode(text)
        text = _clean(text)
        words = self._words(text)
        return self._dropout.encode(words, text, seed)

    def decode(self, ids: Iterable[int], own: Sequence[str] = ()) -> str:
        """The text of ids; never raises for integers.

        Padding, start, end and ids outside the vocabulary are dropped. Ids that follow the vocabulary are those of the
        words `own`. An unknown piece and bytes that form no character become U+FFFD.
        """
        end = self.size + len(own)
        return self._writing.join(
            [
                self._entry(i, own)
                for i in ids
                if i not in self.special.silent and 0 <= i < end
            ]
        )

    def pieces(self, ids: Iterable[int], own: Sequence[str] = ()) -> list[str]:
        r"""One readable label for each id.

        A special id has its entry as label, such as `<s>`. Other labels are the text without the space around it, `·`
        for a single space, `\xNN` for bytes that form no character. Ids past the vocabulary are those of the words
        `own`. Raises ValueError for any other id.
        """
        return [self._label(i, own) for i in ids]

    def _label(self, index: int, own: Sequence[str]) -> str:
        last = self.size + len(own) - 1
        if not 0 <= index <= last:
            raise ValueError(
                f"id is {index}: expected 0 to {last}, the vocabulary's ids"
            )
        if index in self.special.all:
            return self._vocabulary[index]
        return self._writing.label(self._entry(index, own))

    def _entry(self, index: int, own: Sequence[str]) -> str:
        if index == self.special.unknown:
            return NAMES[UNKNOWN]
        return self._vocabulary[index] if index < self.size else own[index - self.size]

    def _cut(self, text: str) -> tuple[str, ...]:
        """The words of a text. Equal words of different texts share one string."""
        normalizer, splitter = self._backend.normalizer, self._backend.pre_tokenizer
        return tuple(
            intern(word)
            for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))
        )


def _clean(text: str) -> str:
    return _SURROGATES.sub(REPLACEMENT, text)


def _from_first_text(texts: Iterable[str]) -> Iterator[str]:
    # Only the texts up to the first that is not blank are held in memory.
    cleaned = map(_clean, texts)
    blank_texts: list[str] = []
    for text in cleaned:
        blank_texts.append(text)
        if text.strip():
            return chain(blank_texts, cleaned)
    raise InputError(
        "the tokenizer's training text is empty: expected at least one line that is not blank"
    )

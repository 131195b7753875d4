"""Text to ids and back."""

import hashlib
import heapq
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import shake_128
from itertools import chain
from pathlib import Path
from random import Random
from sys import intern
from typing import Any, Literal

from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.text import storage
from regard.text.kinds import KINDS, UNKNOWN_WORDS, TokenizerSettings, read_model
from regard.text.special import NAMES, REPLACEMENT, UNKNOWN, SpecialTokens

VARIANTS = 32
"""Segmentations of a word. The number divides 256, so that a byte chooses each equally
often."""
_CACHED_SEGMENTS = 50_000
_LONGEST_CACHED = 64


class MergeDropout:
    """A segmenter of words that skips merges.

    Args:
        merges: Pairs in the order in which they were learned.
        ids: The vocabulary.
        probability: The probability that a merge is skipped, in [0, 1).
    """

    def __init__(
        self,
        merges: Iterable[tuple[str, str]],
        ids: Mapping[str, int],
        probability: float,
    ) -> None:
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._ids = ids
        self._probability = probability
        self._variants: dict[str, list[tuple[int, ...] | None]] = {}

    def encode(self, words: Sequence[str], text: str, seed: int) -> list[int]:
        """Return the ids of the words of a text: a pure function of text and seed."""
        noise = shake_128(f"{seed} {text}".encode()).digest(len(words))
        ids: list[int] = []
        for word, byte in zip(words, noise, strict=True):
            number = byte % VARIANTS
            variants = self._variants.get(word)
            variant = None if variants is None else variants[number]
            ids.extend(self._sample(word, number) if variant is None else variant)
        return ids

    def _sample(self, word: str, number: int) -> tuple[int, ...]:
        sample = Random(f"{number} {word}").random
        probability = self._probability
        pieces = segment(word, self._ranks, lambda: sample() < probability)
        variant = tuple(self._ids[piece] for piece in pieces)
        if len(word) <= _LONGEST_CACHED:
            if len(self._variants) >= _CACHED_SEGMENTS:
                self._variants.clear()
            self._variants.setdefault(word, [None] * VARIANTS)[number] = variant
        return variant


def segment(
    word: str, ranks: Mapping[tuple[str, str], int], skip: Callable[[], bool]
) -> list[str]:
    """Return the pieces of a word after all merges.

    A step tries the merges in the order in which they were learned, leftmost first, and
    stops at the first that is not skipped. Drawing only for the merges tried gives the
    same distribution as drawing for all.

    Args:
        word: The word in byte-level characters.
        ranks: The order in which pairs were learned.
        skip: Decides whether a merge is skipped in this step.
    """
    size = len(word)
    pieces = list(word)
    following = list(range(1, size + 1))
    preceding = list(range(-1, size - 1))
    queue: list[tuple[int, int, str, str]] = []

    def offer(start: int) -> None:
        end = following[start]
        if end < size:
            pair = (pieces[start], pieces[end])
            if pair in ranks:
                heapq.heappush(queue, (ranks[pair], start, *pair))

    for start in range(size):
        offer(start)
    skipped = []
    while queue:
        entry = heapq.heappop(queue)
        _, start, first, second = entry
        end = following[start]
        # A piece only grows, or is emptied into the one before it: if both pieces are
        # unchanged, the pair still exists.
        if end >= size or pieces[start] != first or pieces[end] != second:
            continue
        if skip():
            skipped.append(entry)
            continue
        pieces[start] = first + second
        pieces[end] = ""
        behind = following[end]
        following[start] = behind
        if behind < size:
            preceding[behind] = start
        before = preceding[start]
        if before >= 0:
            offer(before)
        offer(start)
        while skipped:
            heapq.heappush(queue, skipped.pop())
    return [piece for piece in pieces if piece]


LARGEST = 1 << 28
"""The most bytes of a tokenizer file."""
TEXTS_PER_CALL = 1 << 12
"""Texts that are encoded in one call."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_CACHED_TEXTS = 2**17
"""Number of texts whose words are cached, so that not every epoch cuts them again."""


class Tokenizer:
    """A vocabulary with the rules that cut text. Immutable; made by `train` or `load`.

    Any `str` can be encoded. A lone surrogate, which no text file can hold, is read as
    U+FFFD. This replaces one character by one, so that offsets refer to the original
    text. Encoding neither adds special ids nor searches for them.
    """

    def __init__(
        self,
        settings: TokenizerSettings,
        backend: storage.Cutter,
        special: SpecialTokens,
        content: bytes,
    ) -> None:
        self.settings = settings
        self.special = special
        self.digest = hashlib.sha256(content).hexdigest()
        self._content = content
        self._backend = backend
        is_trained = isinstance(backend, Backend)
        self._writing = KINDS[settings.kind] if is_trained else backend
        vocabulary = backend.get_vocab()
        self._vocabulary = sorted(vocabulary, key=vocabulary.__getitem__)
        self._words = lru_cache(maxsize=_CACHED_TEXTS)(self._cut)
        self._dropout = None
        if settings.dropout and is_trained:
            _, merges = read_model(backend)
            self._dropout = MergeDropout(merges, vocabulary, settings.dropout)

    @classmethod
    def train(cls, settings: TokenizerSettings, texts: Iterable[str]) -> "Tokenizer":
        """Learn the vocabulary; the same settings and texts give the same file.

        Raises:
            InputError: All texts are blank, or the kind is not trained.
            TypeError: The texts are a single str.
        """
        if isinstance(texts, str):
            raise TypeError(
                "texts is a str: expected an iterable of str, one per example"
            )
        if settings.kind not in KINDS:
            raise InputError(
                f"tokenizer kind is {settings.kind!r}: it is read from published models "
                "and not trained; choose bpe"
            )
        # Only the texts up to the first that is not blank are held in memory.
        cleaned = map(_clean, texts)
        beginning = []
        for text in cleaned:
            beginning.append(text)
            if text.strip():
                break
        else:
            raise InputError(
                "the tokenizer's training text is empty: expected at least one line that "
                "is not blank"
            )
        backend = KINDS[settings.kind].train(settings, chain(beginning, cleaned))
        return cls.of_backend(settings, backend)

    @classmethod
    def of_backend(
        cls,
        settings: TokenizerSettings,
        backend: storage.Cutter,
        special: SpecialTokens | None = None,
    ) -> "Tokenizer":
        """Make a tokenizer from a backend that cuts text like this kind.

        Raises:
            InputError: The kind cannot have such a vocabulary.
        """
        return cls._read(storage.write(settings, backend, special), "vocabulary")

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a file that `save` wrote. Raise InputError for anything else."""
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
        """Make the tokenizer of a file's text. Raise InputError for anything else."""
        return cls._read(content.encode(), place)

    def with_special(self, special: SpecialTokens) -> "Tokenizer":
        """Return the same tokenizer with other roles of its special tokens."""
        return self.of_backend(self.settings, self._backend, special)

    def __reduce__(self) -> tuple[object, ...]:
        return Tokenizer._read, (self._content, "pickled tokenizer")

    def save(self, path: Path) -> None:
        """Write the tokenizer file."""
        Path(path).write_bytes(self._content)

    @property
    def vocabulary(self) -> dict[str, int]:
        """Entries, as stored, with their ids."""
        return {entry: index for index, entry in enumerate(self._vocabulary)}

    @property
    def backend(self) -> dict[str, Any]:
        """The part of the file that the kind wrote, usually a tokenizer.json."""
        return json.loads(self._content)["tokenizer"]

    @property
    def size(self) -> int:
        """Number of entries, special ids included: ids are 0 to size - 1."""
        return len(self._vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without start and end."""
        return self._backend.encode(_clean(text)).ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode each text; in parallel where the kind is one that is trained."""
        backend = self._backend
        if not isinstance(backend, Backend):
            return [self.encode(text) for text in texts]
        rows: list[list[int]] = []
        for first in range(0, len(texts), TEXTS_PER_CALL):
            batch = list(map(_clean, texts[first : first + TEXTS_PER_CALL]))
            rows += [encoding.ids for encoding in backend.encode_batch_fast(batch)]
        return rows

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return for each id of a text its half-open span of characters.

        Starts and ends never decrease, and no span is empty. The ids of one character's
        bytes share its span. Spans cover the whole text, except the space between two
        words for kind word.
        """
        return self._backend.encode(_clean(text)).offsets

    def unknown_characters(self, text: str) -> tuple[int, int]:
        """Count the unknown characters of a text, and all, white space aside.

        Unknown are those of unknown pieces, and those that are only single bytes.
        """
        text = _clean(text)
        encoding = self._backend.encode(text)
        places = set()
        for index, span in zip(encoding.ids, encoding.offsets, strict=True):
            if index == self.special.unknown:
                places |= {*range(*span)}
        for (first, end), count in Counter(encoding.offsets).items():
            if end - first == 1 < len(text[first].encode()) <= count:
                places.add(first)
        unknown = sum(not text[place].isspace() for place in places)
        return unknown, len("".join(text.split()))

    @property
    def unknown_unit(self) -> Literal["words", "characters"]:
        """What may be unknown to the tokenizer."""
        return "words" if self.settings.kind in UNKNOWN_WORDS else "characters"

    def unknown(self, text: str) -> tuple[int, int]:
        """Count the unknown units of a text (`unknown_unit`), and all."""
        if self.unknown_unit == "characters":
            return self.unknown_characters(text)
        encoding: Any = self._backend.encode(_clean(text))
        words = zip(encoding.ids, encoding.word_ids, strict=True)
        unknown = {word for index, word in words if index == self.special.unknown}
        return len(unknown), len({*encoding.word_ids})

    def encode_with_dropout(self, text: str, seed: int) -> list[int]:
        """Return the ids of a random segmentation, the same for the same text and seed.

        BPE-dropout, Provilkov et al. 2020 (1910.13267). Every result decodes to the
        text. Without dropout it is that of `encode`.
        """
        if self._dropout is None:
            return self.encode(text)
        text = _clean(text)
        return self._dropout.encode(self._words(text), text, seed)

    def decode(self, ids: Iterable[int], words: Sequence[str] = ()) -> str:
        """Return the text of ids; never raise for integers.

        Padding, start, end and ids outside the vocabulary are dropped. Ids that follow
        the vocabulary are those of `words`. An unknown piece and bytes that form no
        character become U+FFFD.
        """
        end = self.size + len(words)
        silent = self.special.silent
        ids = [index for index in ids if index not in silent and 0 <= index < end]
        return self._writing.join([self._entry(index, words) for index in ids])

    def pieces(self, ids: Iterable[int], words: Sequence[str] = ()) -> list[str]:
        r"""Return one readable label for each id.

        A special id has its entry as label, such as `<s>`. Other labels are the text
        without the space around it, `·` for a single space, `\xNN` for bytes that form
        no character. Ids past the vocabulary are those of `words`.

        Raises:
            ValueError: An id is neither.
        """
        labels = []
        end = self.size + len(words)
        for index in ids:
            if not 0 <= index < end:
                raise ValueError(
                    f"id is {index}: expected 0 to {end - 1}, the vocabulary's ids"
                )
            if index in self.special.all:
                labels.append(self._vocabulary[index])
            else:
                labels.append(self._writing.label(self._entry(index, words)))
        return labels

    def _entry(self, index: int, words: Sequence[str]) -> str:
        if index == self.special.unknown:
            return NAMES[UNKNOWN]
        if index >= self.size:
            return words[index - self.size]
        return self._vocabulary[index]

    def _cut(self, text: str) -> tuple[str, ...]:
        """Return the words of a text. Equal words of different texts are one string."""
        normalizer: Any = self._backend.normalizer
        splitter: Any = self._backend.pre_tokenizer
        words = splitter.pre_tokenize_str(normalizer.normalize_str(text))
        return tuple(intern(word) for word, _ in words)


def _clean(text: str) -> str:
    return _SURROGATES.sub(REPLACEMENT, text)

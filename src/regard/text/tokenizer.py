"""Text to ids and back."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from hashlib import shake_128
from itertools import chain, compress, pairwise
from pathlib import Path
from random import Random
from sys import intern
from typing import Any, Literal

from pydantic import TypeAdapter
from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.text.kinds import (
    ALPHABET,
    KINDS,
    MASK,
    MASK_NAME,
    NAMES,
    REPLACEMENT,
    STRIP_ALL,
    UNKNOWN,
    UNKNOWN_WORDS,
    WHOLE_WORDS,
    SpecialTokens,
    TokenizerSettings,
    read_model,
)
from regard.text.pipeline import Pipeline
from regard.text.tokenizer_files import read_tokenizer_file

VARIANTS = 32
"""Segmentations of a word. The number divides 256, so that a byte chooses each equally
often."""
_CACHED_SEGMENTS = 1 << 19
_LONGEST_SEGMENT = 256
"""Characters of a word that are merged together, whose time is quadratic."""

Cutter = Backend | Pipeline
"""What cuts text: a tokenizer of the tokenizers library, or a published one."""
Pair = tuple[str, str]


class MergeDropout:
    """A segmenter of words that skips merges.

    Args:
        merges: Pairs in the order in which they were learned.
        ids: The vocabulary.
        probability: The probability that a merge is skipped, in [0, 1).
    """

    def __init__(
        self, merges: Iterable[Pair], ids: Mapping[str, int], probability: float
    ) -> None:
        ranks = {pair: rank for rank, pair in enumerate(merges)}

        @lru_cache(maxsize=_CACHED_SEGMENTS)
        def encode_variant(word: str, number: int) -> list[int]:
            sample = Random(f"{number} {word}").random
            pieces = segment(word, ranks, lambda: sample() < probability)
            return [ids[piece] for piece in pieces]

        self._encode_variant = encode_variant

    def encode(self, words: Sequence[str], text: str, seed: int) -> list[int]:
        """Return the ids of the words of a text: a pure function of text and seed."""
        noise = shake_128(f"{seed} {text}".encode()).digest(len(words))
        ids: list[int] = []
        for word, byte in zip(words, noise, strict=True):
            ids += self._encode_variant(word, byte % VARIANTS)
        return ids


def segment(
    word: str, ranks: Mapping[Pair, int], skip: Callable[[], bool]
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
    if len(word) > _LONGEST_SEGMENT:
        firsts = range(0, len(word), _LONGEST_SEGMENT)
        parts = (word[first : first + _LONGEST_SEGMENT] for first in firsts)
        return [piece for part in parts for piece in segment(part, ranks, skip)]
    pieces = list(word)
    while True:
        pairs = enumerate(pairwise(pieces))
        merges = sorted((ranks[pair], at) for at, pair in pairs if pair in ranks)
        at = next((at for _, at in merges if not skip()), None)
        if at is None:
            return pieces
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]


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
        backend: Cutter,
        special: SpecialTokens,
        content: bytes,
    ) -> None:
        self.settings = settings
        self.special = special
        self.digest = hashlib.sha256(content).hexdigest()
        self.content = content
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

        Settings with a file load the tokenizer in that file instead.

        Raises:
            InputError: All texts are blank, the kind is not trained, or the file is
                invalid.
            TypeError: The texts are a single str.
        """
        if isinstance(texts, str):
            raise TypeError(
                "texts is a str: expected an iterable of str, one per example"
            )
        cleaned = map(_clean, texts)
        if settings.file is not None:
            return cls._of_file(settings.file, cleaned)
        if settings.kind not in KINDS:
            raise InputError(
                f"tokenizer kind is {settings.kind!r}: it is read from published models "
                "and not trained; choose bpe"
            )
        # Only the texts up to the first that is not blank are held in memory.
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
    def _of_file(cls, path: str, texts: Iterable[str]) -> "Tokenizer":
        """Return the tokenizer of a file of regard or of another library."""
        content = _read_content(Path(path))
        if FORMAT.encode() in content[:100]:
            return cls.of_content(content, path)
        pipeline, special = read_tokenizer_file(content, path, texts)
        settings = TokenizerSettings("pipeline", max(5, len(pipeline.get_vocab())))
        return cls.of_content(write(settings, pipeline, special), path)

    @classmethod
    def of_backend(
        cls,
        settings: TokenizerSettings,
        backend: Cutter,
        special: SpecialTokens | None = None,
    ) -> "Tokenizer":
        """Make a tokenizer from a backend that cuts text like this kind.

        Raises:
            InputError: The kind cannot have such a vocabulary.
        """
        return cls.of_content(write(settings, backend, special), "vocabulary")

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a file that `save` wrote. Raise InputError for anything else."""
        return cls.of_content(_read_content(path), str(path))

    @classmethod
    def of_content(cls, content: bytes, place: str) -> "Tokenizer":
        """Make the tokenizer of a file's content. Raise InputError for anything else."""
        return cls(*read(content, place), content)

    def with_special(self, special: SpecialTokens) -> "Tokenizer":
        """Return the same tokenizer with other roles of its special tokens."""
        return self.of_backend(self.settings, self._backend, special)

    def __reduce__(self) -> tuple[object, ...]:
        return Tokenizer.of_content, (self.content, "pickled tokenizer")

    def save(self, path: Path) -> None:
        """Write the tokenizer file."""
        path.write_bytes(self.content)

    @property
    def vocabulary(self) -> dict[str, int]:
        """Entries, as stored, with their ids."""
        return {entry: index for index, entry in enumerate(self._vocabulary)}

    @property
    def backend(self) -> dict[str, Any]:
        """The part of the file that the kind wrote, usually a tokenizer.json."""
        return json.loads(self.content)["tokenizer"]

    @property
    def size(self) -> int:
        """Number of entries, special ids included: ids are 0 to size - 1."""
        return len(self._vocabulary)

    def normalize(self, text: str) -> str:
        """Return a text as the rules of a trained kind read it before it is cut."""
        is_trained = isinstance(self._backend, Backend) and self._backend.normalizer
        return self._backend.normalizer.normalize_str(text) if is_trained else text

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without start and end."""
        return self._backend.encode(_clean(text)).ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode each text; in parallel where the kind is one that is trained."""
        backend = self._backend
        if not isinstance(backend, Backend):
            return [self.encode(text) for text in texts]
        return [
            encoding.ids
            for first in range(0, len(texts), TEXTS_PER_CALL)
            for encoding in backend.encode_batch_fast(
                list(map(_clean, texts[first : first + TEXTS_PER_CALL]))
            )
        ]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return for each id of a text its half-open span of characters.

        Starts and ends never decrease, and no span is empty. The ids of one character's
        bytes share its span. Spans cover the whole text, except the space between two
        words for kind word.
        """
        return self._backend.encode(_clean(text)).offsets

    @property
    def unknown_unit(self) -> Literal["words", "characters"]:
        """What may be unknown to the tokenizer."""
        return "words" if self.settings.kind in UNKNOWN_WORDS else "characters"

    def unknown(self, text: str) -> tuple[int, int]:
        """Count the unknown units of a text (`unknown_unit`), and all.

        Unknown characters are those of unknown pieces, and those that are only single
        bytes; white space aside.
        """
        text = _clean(text)
        encoding: Any = self._backend.encode(text)
        unknown = [index == self.special.unknown for index in encoding.ids]
        if self.unknown_unit == "words":
            words = set(compress(encoding.word_ids, unknown))
            return len(words), len({*encoding.word_ids})
        places = {
            place
            for span in compress(encoding.offsets, unknown)
            for place in range(*span)
        }
        for (first, end), count in Counter(encoding.offsets).items():
            if end - first == 1 < len(text[first].encode()) <= count:
                places.add(first)
        letters = sum(not text[place].isspace() for place in places)
        return letters, len("".join(text.split()))

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
        ids = list(ids)
        end = self.size + len(words)
        for index in ids:
            if not 0 <= index < end:
                raise ValueError(
                    f"id is {index}: expected 0 to {end - 1}, the vocabulary's ids"
                )
        return [
            self._vocabulary[index]
            if index in self.special.all
            else self._writing.label(self._entry(index, words))
            for index in ids
        ]

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


def _read_content(path: Path) -> bytes:
    """Read a tokenizer file. Raise InputError if it is missing or too large."""
    try:
        if (size := path.stat().st_size) > LARGEST:
            raise InputError(f"{path}: has {size:,} bytes; expected a tokenizer file")
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: cannot read the tokenizer file, {error.strerror or error}"
        ) from error


def _clean(text: str) -> str:
    return _SURROGATES.sub(REPLACEMENT, text)


FORMAT, VERSION = "regard-tokenizer", 1
SETTINGS, SPECIAL = TypeAdapter(TokenizerSettings), TypeAdapter(SpecialTokens)
LATER = {"more_ends": (), "unused": 0, "between": 1, "opens": True, "closes": True}
"""Fields of the special tokens that older files lack, and their defaults."""


def write(
    settings: TokenizerSettings, backend: Cutter, special: SpecialTokens | None = None
) -> bytes:
    """Return the content of the file; `special` are ids of a published vocabulary."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "settings": {
            name: value for name, value in asdict(settings).items() if name != "file"
        },
    }
    if special is not None:
        document["special"] = {
            name: value
            for name, value in asdict(special).items()
            if name not in LATER or value != LATER[name]
        }
    document["tokenizer"] = json.loads(backend.to_str())
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()


def read(content: bytes, place: str) -> tuple[TokenizerSettings, Cutter, SpecialTokens]:
    """Read settings, backend and special ids from a file's content.

    Raises:
        InputError: It is no such file, or altered; the message begins with `place`.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(
            f"{place}: not a tokenizer file, or cut off; expected JSON with format "
            f"{FORMAT!r}, so train it again"
        )
    if document.get("version") != VERSION:
        raise InputError(
            f"{place}: tokenizer file of version {document.get('version')!r}, this "
            f"release reads version {VERSION}"
        )
    try:
        settings = SETTINGS.validate_python(document["settings"])
        stored = document["tokenizer"]
        special = _read_special(document.get("special"), settings, stored)
        if settings.kind == "pipeline":
            backend: Cutter = Pipeline(stored, stored["entries"], special)
        else:
            backend = _build(settings, stored, special)
        _check(settings, backend, special)
    except Exception as error:  # the tokenizers library raises bare Exception
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{place}: broken tokenizer file, {reason}") from error
    return settings, backend, special


def _read_special(
    values: Any, settings: TokenizerSettings, stored: Any
) -> SpecialTokens:
    """Return the special ids, by default those of vocabularies trained here."""
    if values is None:
        vocabulary = stored["model"]["vocab"]
        has_mask = settings.kind.startswith("wordpiece")
        for index, name in enumerate((*NAMES, MASK_NAME)[: 5 if has_mask else 4]):
            if vocabulary.get(name) != index:
                raise ValueError(f"entry {name!r} is missing or misplaced")
        return SpecialTokens(mask=MASK if vocabulary.get(MASK_NAME) == MASK else None)
    values = {**values, "more_ends": tuple(values.get("more_ends", ()))}
    return SPECIAL.validate_json(
        json.dumps(asdict(SpecialTokens(**values))), strict=True
    )


def _build(settings: TokenizerSettings, stored: Any, special: SpecialTokens) -> Backend:
    """Build the backend of a kind that is trained, and compare it with the file's."""
    model = stored["model"]
    merges = [(first, second) for first, second in model.get("merges", ())]
    vocabulary = model["vocab"]
    names = (name for name, index in vocabulary.items() if index == special.unknown)
    unknown = next(names, NAMES[UNKNOWN])
    built = KINDS[settings.kind].build(vocabulary, merges, unknown)
    former = {"type": "BertNormalizer", "lowercase": True, "strip_accents": True}
    if former.items() <= (stored["normalizer"] or {}).items():
        built.normalizer = STRIP_ALL
    text = json.dumps(stored, ensure_ascii=False)
    if Backend.from_str(text).to_str() != built.to_str():
        raise ValueError(f"its pipeline is not that of kind {settings.kind}")
    return built


def _check(
    settings: TokenizerSettings, backend: Cutter, special: SpecialTokens
) -> None:
    """Check the vocabulary.

    Raises:
        ValueError: Ids do not count up from 0, are too many, or an entry is missing.
    """
    vocabulary: Mapping[str, int] = backend.get_vocab()
    count = len(vocabulary)
    if sorted(vocabulary.values()) != list(range(count)):
        raise ValueError("its ids do not count up from 0")
    if count > settings.size:
        raise ValueError(f"{count} entries where its settings allow {settings.size}")
    if not {*special.all, special.unused} <= {*range(count)}:
        raise ValueError("a special id is not one of its vocabulary")
    if settings.kind in ("character", *WHOLE_WORDS, "bpe"):
        name = NAMES[UNKNOWN]
        if vocabulary.get(name, special.unknown) != special.unknown:
            raise ValueError(f"entry {name!r} is not its unknown piece")
    if settings.kind == "bpe" and not {*ALPHABET} <= vocabulary.keys():
        raise ValueError("an entry of a byte is missing")

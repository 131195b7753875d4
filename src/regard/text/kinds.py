"""Kinds of tokens that are trained, and the settings of a vocabulary."""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count
from typing import Annotated, Literal

from pydantic import Field
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from regard.errors import InputError


@dataclass(frozen=True)
class SpecialTokens:
    """The ids of a vocabulary's special tokens.

    They are padding, the unknown piece, the start and the end of a text, and the mask,
    which is None in a vocabulary without one.

    One token may have several roles: GPT-2's vocabulary has one for the first four. The defaults are the ids of
    vocabularies trained by this library. In a published vocabulary, `more_ends` are other tokens that end a text, and
    the last `unused` ids have no entry: a model has weights for them and never predicts them. `between` counts the end
    tokens between two texts in one row; RoBERTa's models read two. A row `opens` with the start token and `closes` with
    the end token; T5's has no start, OPT's no end.
    """

    pad: int = 0
    unknown: int = 1
    start: int = 2
    end: int = 3
    mask: int | None = None
    more_ends: tuple[int, ...] = ()
    unused: int = 0
    between: int = 1
    opens: bool = True
    closes: bool = True

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a text, `end` first."""
        return self.end, *self.more_ends

    @property
    def silent(self) -> tuple[int, ...]:
        """Tokens without text: padding, start and ends."""
        return self.pad, self.start, *self.ends

    @property
    def unwritten(self) -> tuple[int, ...]:
        """Tokens that no model predicts: padding and start, unless they are the end."""
        return tuple(sorted({self.pad, self.start} - {*self.ends}))

    @cached_property
    def all(self) -> tuple[int, ...]:
        """All ids, without repeats, in ascending order."""
        ids = self.pad, self.unknown, self.start, *self.ends, self.mask
        return tuple(sorted({index for index in ids if index is not None}))


SPECIAL = SpecialTokens()
"""The special ids of vocabularies trained by this library."""
MASKED = SpecialTokens(mask=4)
"""The special ids of vocabularies trained by this library for masked language models."""
PAD, UNKNOWN, START, END, MASK = 0, 1, 2, 3, 4
"""The same ids by name."""

NAMES = ("<pad>", "<unk>", "<s>", "</s>")
"""The entries with these ids, in order."""

MASK_NAME = "<mask>"
"""The entry with id 4 in vocabularies for masked language models."""

IGNORED = -100
"""Target of positions without a loss. No vocabulary has it as an id."""

REPLACEMENT = "\ufffd"
"""U+FFFD, which `decode` writes for an unknown piece and for bytes that form no character."""


KindName = Literal[
    "character",
    "word",
    "space",
    "bpe",
    "wordpiece",
    "wordpiece-uncased",
    "pipeline",
    "file",
]
SMALLEST = {"bpe": len(NAMES) + 256, "wordpiece": 6, "wordpiece-uncased": 6}
"""Smallest size of a vocabulary of a kind; of others one more than the special names."""
WHOLE_WORDS: tuple[KindName, ...] = ("word", "space")
"""Kinds whose tokens are words."""
UNKNOWN_WORDS: tuple[KindName, ...] = (*WHOLE_WORDS, "wordpiece", "wordpiece-uncased")
"""Kinds to which a word is unknown as a whole; to the others single characters are."""
NAMED = {"\n": "⏎", "\t": "⇥"}
"""The signs for a line break and a tab in labels."""


@dataclass(frozen=True)
class TokenizerSettings:
    """Settings of a vocabulary.

    Attributes:
        kind: The kind of its tokens. Pipelines are those of published models.
        size: Upper limit of the vocabulary, special ids included; at least 5, and 260
            for bpe, whose vocabularies always have the 256 bytes. A file has its own.
        dropout: Probability in [0, 1) that a BPE merge is skipped (bpe only).
        minimum_count: Leave out tokens and BPE merges that occur less often.
        file: A tokenizer that was made elsewhere: a SentencePiece model, a
            tokenizer.json or codes of subword-nmt. The run gets a copy.

    Raises:
        InputError: A value is outside these ranges.
    """

    kind: KindName = "file"
    size: Annotated[int, Field(strict=True)] = 8000
    dropout: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.0
    minimum_count: Annotated[int, Field(strict=True, ge=1)] = 1
    file: str | None = None

    def __post_init__(self) -> None:
        smallest = SMALLEST.get(self.kind, len(NAMES) + 1)
        if self.size < smallest:
            raise InputError(
                f"tokenizer size is {self.size}: expected at least {smallest} for "
                f"{self.kind}"
            )
        if self.kind == "file" and self.file is None:
            raise InputError(
                "tokenizer kind is missing: choose one such as bpe, or set file to a "
                "tokenizer of your own"
            )
        if self.kind != "file" and self.file is not None:
            raise InputError(
                f"tokenizer has a file and the kind {self.kind}: expected one of the two, "
                f"such as {{file: {self.file}}} for the whole tokenizer"
            )
        if self.dropout and self.kind != "bpe":
            raise InputError(
                f"tokenizer dropout is {self.dropout}: only kind bpe drops merges, set "
                "it to 0"
            )


Merges = Sequence[tuple[str, str]]


class Kind(ABC):
    """A kind of tokens: how text becomes pieces, entries of a vocabulary, and back."""

    @abstractmethod
    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges = (),
        unknown: str = NAMES[UNKNOWN],
    ) -> Backend:
        """Return the backend that encodes with this vocabulary."""

    @abstractmethod
    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
        """Return a backend whose vocabulary is learned from texts."""

    def join(self, pieces: Sequence[str]) -> str:
        """Return the text of successive pieces; an unknown one becomes U+FFFD."""
        return "".join(show_unknown(pieces))

    def label(self, piece: str) -> str:
        """Return a readable form of one piece, on one line and never empty."""
        return to_visible(piece)


def show_unknown(pieces: Sequence[str]) -> list[str]:
    """Return pieces with U+FFFD for unknown ones."""
    return [REPLACEMENT if piece == NAMES[UNKNOWN] else piece for piece in pieces]


def to_visible(text: str) -> str:
    """Return a text with line breaks and control characters escaped.

    A text of blanks or zero-width characters only is escaped in full.
    """
    if not text.strip():
        text = text.replace(" ", "·")
    if text.isprintable():
        return text
    is_hidden = not any(map(str.isprintable, text))
    characters = []
    for character in text:
        is_control = character < " " or "\x7f" <= character <= "\x9f"
        if is_hidden or is_control or character in "\u2028\u2029":
            escaped = character.encode("unicode_escape").decode("ascii")
            character = NAMED.get(character, escaped)
        characters.append(character)
    return "".join(characters)


class WholePieces(Kind):
    """A kind whose vocabulary is whole pieces of the training text, such as characters."""

    def __init__(
        self,
        splitter: pre_tokenizers.PreTokenizer,
        normalizer: normalizers.Normalizer | None = None,
        decoder: decoders.Decoder | None = None,
    ) -> None:
        self._splitter = splitter
        self._normalizer = normalizer
        self._decoder = decoder

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges = (),
        unknown: str = NAMES[UNKNOWN],
    ) -> Backend:
        backend = Backend(models.WordLevel(dict(vocabulary), unk_token=unknown))
        backend.pre_tokenizer = self._splitter
        backend.normalizer = self._normalizer
        backend.decoder = self._decoder
        return backend

    def split(self, text: str) -> Iterable[str]:
        """Split a text into pieces, without a normalizer into characters."""
        if self._normalizer is None:
            return text
        text = self._normalizer.normalize_str(text)
        return [piece for piece, _ in self._splitter.pre_tokenize_str(text)]

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
        """Give ids to the most frequent pieces, ties in the order of code points.

        Raises:
            InputError: No piece occurs `minimum_count` times.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(self.split(text))
        least = settings.minimum_count
        frequent = [piece for piece, count in counts.items() if count >= least]
        if not frequent:
            raise InputError(
                f"tokenizer minimum_count is {least}: no {settings.kind} of the training "
                "text occurs that often, lower it"
            )
        frequent.sort(key=lambda piece: (-counts[piece], piece))
        entries = [*NAMES, *frequent][: settings.size]
        return self.build({entry: index for index, entry in enumerate(entries)})


_EAST_ASIAN = (
    r"\x{2E80}-\x{2FDF}\x{3005}-\x{3007}\x{3021}-\x{3029}\x{3031}-\x{3035}\x{303B}\x{3040}-\x{30FF}\x{31F0}-\x{31FF}"
    r"\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}\x{FF66}-\x{FF9F}\x{20000}-\x{3FFFF}"
)
# The zero-width joiners belong to words of Persian and the Indic scripts.
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}\x{{200C}}\x{{200D}}]&&[^{_EAST_ASIAN}]]"
_SYMBOL = rf"(?!{_LETTER})\S"
_FLAG = r"[\x{1F1E6}-\x{1F1FF}]{2}"
# A symbol includes its accents, its skin tone and the symbols that a zero-width joiner attaches to it.
_MARK = rf"\ ?(?:{_FLAG}|{_SYMBOL}(?:[\p{{M}}\x{{1F3FB}}-\x{{1F3FF}}]|\x{{200D}}{_SYMBOL})*)\ ?"

_NORMALIZER = normalizers.Sequence(
    [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
)
_SPLITTER = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(Regex(f"{_LETTER}+|{_MARK}"), "isolated"),
        pre_tokenizers.Split(Regex("^ $"), "removed"),
    ]
)
_NO_WORDS = pre_tokenizers.Split(Regex(f"^{_LETTER}+$"), "removed")


class Word(WholePieces):
    """A vocabulary of the words and marks of the training text."""

    def __init__(self) -> None:
        super().__init__(_SPLITTER, _NORMALIZER)

    def join(self, pieces: Sequence[str]) -> str:
        parts: list[str] = []
        after_word = False
        for piece in pieces:
            is_unknown = piece == NAMES[UNKNOWN]
            is_word = is_unknown or _is_word(piece)
            parts.append(" " if is_word and after_word else "")
            parts.append(REPLACEMENT if is_unknown else piece)
            after_word = is_word
        return " ".join("".join(parts).split(" ")).strip(" ")

    def label(self, piece: str) -> str:
        return to_visible(piece.strip(" "))


@lru_cache(maxsize=2**16)
def _is_word(piece: str) -> bool:
    # The splitter's regular expressions decide: Python's character categories may have
    # another Unicode version.
    return not _NO_WORDS.pre_tokenize_str(piece)


_SPECIAL = rf"(?:{'|'.join(name[1:] for name in NAMES)})(?!\S)"  # without their first character, <
_BLANK_NORMALIZER = normalizers.Sequence(
    [
        normalizers.Replace(Regex(r"\s+"), " "),
        normalizers.Strip(),
        normalizers.Replace(Regex(rf"(?<!\S)\\(?=\\*<{_SPECIAL})"), r"\\"),
        normalizers.Replace(Regex(rf"(?<!\S)<(?={_SPECIAL})"), r"\<"),
    ]
)
_BLANK_SPLITTER = pre_tokenizers.Split(" ", "removed")


class Space(WholePieces):
    """A vocabulary of the words of the training text, which blanks separate."""

    def __init__(self) -> None:
        super().__init__(_BLANK_SPLITTER, _BLANK_NORMALIZER)

    def join(self, pieces: Sequence[str]) -> str:
        return " ".join(map(_unescape, show_unknown(pieces)))

    def label(self, piece: str) -> str:
        return to_visible(_unescape(piece))


def _unescape(piece: str) -> str:
    is_escaped = piece.startswith("\\") and piece.lstrip("\\") in NAMES
    return piece[1:] if is_escaped else piece


# Combining marks stay with their letters: without them every word of the Indic scripts would be cut at its vowels.
_LETTERS = r"[\p{L}\p{M}\x{200C}\x{200D}]+"
_SYMBOLS = r"[^\s\p{L}\p{M}\p{N}\x{200C}\x{200D}][^\s\p{L}\p{N}]*"
_WORDS = rf" ?{_LETTERS}| ?\p{{N}}+| ?{_SYMBOLS}|\s+(?!\S)|\s+"


# A printable character of Latin-1 represents its own byte; the other bytes follow from
# U+0100 on.
_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_FOLLOWING = count(0x100)
ALPHABET = [
    chr(byte if byte in _PRINTABLE else next(_FOLLOWING)) for byte in range(256)
]
"""The character of each byte, at index 0 to 255."""
_BYTES = {character: bytes([byte]) for byte, character in enumerate(ALPHABET)}


def read_bytes(pieces: Sequence[str]) -> bytes:
    """Return the bytes of pieces that are written in `ALPHABET`."""
    return b"".join(map(_read_piece, show_unknown(pieces)))


@lru_cache(maxsize=1 << 16)
def _read_piece(piece: str) -> bytes:
    return b"".join(_BYTES.get(letter, letter.encode()) for letter in piece)


@lru_cache(maxsize=1 << 16)
def label_bytes(piece: str) -> str:
    """Return a readable form of a piece that is written in `ALPHABET`."""
    text = read_bytes([piece]).decode("utf-8", errors="backslashreplace")
    return to_visible(text.removeprefix(" ") or text)


class BytePair(Kind):
    """A vocabulary of the 256 bytes and the most frequent merges."""

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges = (),
        unknown: str = NAMES[UNKNOWN],
    ) -> Backend:
        backend = Backend(models.BPE(dict(vocabulary), list(merges)))
        backend.normalizer = normalizers.Prepend(" ")
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_WORDS), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        backend.decoder = decoders.Sequence(
            [decoders.ByteLevel(), decoders.Strip(" ", 1, 0)]
        )
        return backend

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
        trainer = trainers.BpeTrainer(
            vocab_size=settings.size,
            min_frequency=settings.minimum_count,
            special_tokens=list(NAMES),
            initial_alphabet=ALPHABET,
            show_progress=False,
        )
        trained = self.build({})
        trained.train_from_iterator(texts, trainer)
        # Build the backend again: the trainer's own searches texts for the special names.
        vocabulary, merges = read_model(trained)
        return self.build(vocabulary, merges)

    def join(self, pieces: Sequence[str]) -> str:
        text = read_bytes(pieces).decode("utf-8", errors="replace")
        return text.removeprefix(" ")

    def label(self, piece: str) -> str:
        return label_bytes(piece)


def read_model(backend: Backend) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the vocabulary of a backend, and its merges in the order of learning."""
    model = json.loads(backend.to_str())["model"]
    merges = [(first, second) for first, second in model.get("merges", ())]
    return model["vocab"], merges


INSIDE = "##"
"""The beginning of a piece inside a word."""
LONGEST_WORD = 100
"""Longest word in characters; a longer one is unknown."""


# In other scripts marks are vowels, so that words would become equal.
_ACCENTS = r"(?<![\p{L}\p{M}])\p{Mn}+|(?<=[\p{Latin}\p{Greek}\p{Cyrillic}])\p{Mn}+"
_CLEAN = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
_UNCASED = normalizers.Sequence(
    [
        _CLEAN,
        normalizers.NFD(),
        normalizers.Replace(Regex(_ACCENTS), ""),
        normalizers.NFC(),
        normalizers.Lowercase(),
    ]
)
STRIP_ALL = normalizers.BertNormalizer(lowercase=True, strip_accents=True)
"""The normalizer of `wordpiece-uncased` in older runs, which strips all marks."""


class WordPiece(Kind):
    """A vocabulary of characters, each also inside a word, and of pieces made of them."""

    def __init__(self, *, uncased: bool) -> None:
        self.uncased = uncased

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges = (),
        unknown: str = NAMES[UNKNOWN],
    ) -> Backend:
        backend = Backend(
            models.WordPiece(
                dict(vocabulary),
                unk_token=unknown,
                continuing_subword_prefix=INSIDE,
                max_input_chars_per_word=LONGEST_WORD,
            )
        )
        backend.normalizer = _UNCASED if self.uncased else _CLEAN
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece(INSIDE, cleanup=False)
        return backend

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
        names = [*NAMES, MASK_NAME]
        trained = self.build({name: index for index, name in enumerate(names)})
        normalize = trained.normalizer.normalize_str
        split = trained.pre_tokenizer.pre_tokenize_str
        words = [word for text in texts for word, _ in split(normalize(text))]
        letters = sorted({letter for word in words for letter in word})
        # The trainer orders pieces that it finds by its own rule; special tokens keep
        # the order of the list.
        initial = [*names, *letters, *(INSIDE + letter for letter in letters)]
        trainer = trainers.WordPieceTrainer(
            vocab_size=settings.size,
            min_frequency=settings.minimum_count,
            special_tokens=initial[: settings.size],
            continuing_subword_prefix=INSIDE,
            show_progress=False,
        )
        trained.train_from_iterator(words, trainer)
        vocabulary = trained.get_vocab(with_added_tokens=True)
        entries = sorted(vocabulary, key=vocabulary.__getitem__)
        return self.build({entry: vocabulary[entry] for entry in entries})

    def join(self, pieces: Sequence[str]) -> str:
        parts = [
            piece[2:] if piece.startswith(INSIDE) else f" {piece}"
            for piece in show_unknown(pieces)
        ]
        return "".join(parts).removeprefix(" ")


KINDS: Mapping[str, Kind] = {
    "character": WholePieces(
        pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"), decoder=decoders.Fuse()
    ),
    "word": Word(),
    "space": Space(),
    "bpe": BytePair(),
    "wordpiece": WordPiece(uncased=False),
    "wordpiece-uncased": WordPiece(uncased=True),
}
"""The kinds that are trained; the others are read from published models."""

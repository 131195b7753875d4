"""Kinds of tokens, and the settings of a vocabulary."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, runtime_checkable

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.text.special import (
    MASK_NAME,
    NAMES,
    REPLACEMENT,
    SPECIAL,
    UNKNOWN,
    SpecialTokens,
)

Merges = Sequence[tuple[str, str]]


@runtime_checkable
class Cutter(Protocol):
    """An object that cuts text: a tokenizer of the tokenizers library, or a wrapper that gives its pieces other ids."""

    normalizer: Any
    pre_tokenizer: Any

    def encode(self, sequence: str, /) -> Any:
        """The `ids` of a text, and their `offsets` in it."""
        ...

    def to_str(self) -> str:
        """The tokenizer as JSON, whose `model` has a `vocab`."""
        ...


KindName = Literal[
    "character",
    "word",
    "space",
    "bpe",
    "gpt2",
    "qwen2",
    "llama2",
    "llama3",
    "mistral",
    "wordpiece",
    "wordpiece-uncased",
    "unigram",
    "pipeline",
]

_PIECE, _BYTES = len(NAMES) + 1, len(NAMES) + 256
SMALLEST = {
    "character": _PIECE,
    "word": _PIECE,
    "space": _PIECE,
    "bpe": _BYTES,
    "gpt2": _BYTES,
}
SMALLEST |= {
    "qwen2": _BYTES,
    "llama3": _BYTES,
    "llama2": _BYTES + 1,
    "mistral": _BYTES + 1,
}
SMALLEST |= {
    "wordpiece": _PIECE + 1,
    "wordpiece-uncased": _PIECE + 1,
    "unigram": _PIECE,
    "pipeline": _PIECE,
}
"""Smallest size of a vocabulary of each kind."""
WHOLE_WORDS: tuple[KindName, ...] = ("word", "space")
"""Kinds whose tokens are words."""
NAMED = {"\n": "⏎", "\t": "⇥"}
"""The signs for a line break and a tab in labels."""
UNKNOWN_WORDS: tuple[KindName, ...] = (*WHOLE_WORDS, "wordpiece", "wordpiece-uncased")
"""Kinds to which a word is unknown as a whole; to the others single characters are."""


@dataclass(frozen=True)
class TokenizerSettings:
    """Settings of a vocabulary.

    kind: the kind of its tokens.
    size: upper limit of the vocabulary, special ids included; at least 5, 260 for bpe, gpt2, qwen2 and llama3, whose
        vocabularies always hold the 256 bytes, and 261 for llama2 and mistral, which have characters too.
    dropout: probability in [0, 1) that a BPE merge is skipped (bpe only).
    minimum_count: leave out tokens and BPE merges that occur less often.

    Raises:
        InputError: a value is outside these ranges.
    """

    kind: KindName
    size: int = 8000
    dropout: float = 0.0
    minimum_count: int = 1

    def __post_init__(self) -> None:
        problem = problem_with(vars(self))
        if problem:
            raise InputError(problem)


def problem_with(values: Mapping[str, object]) -> str | None:
    """Describe the first bad value in one line; None if all are good. Values may have any type."""
    kind, dropout = values["kind"], values["dropout"]
    if not isinstance(kind, str) or kind not in SMALLEST:
        return f"tokenizer kind is {kind!r}: expected one of {', '.join(SMALLEST)}"
    for name, smallest in (("size", SMALLEST[kind]), ("minimum_count", 1)):
        value = values[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
            return f"tokenizer {name} is {value!r}: expected a whole number of at least {smallest} for {kind}"
    if (
        not isinstance(dropout, (int, float))
        or isinstance(dropout, bool)
        or not 0 <= dropout < 1
    ):
        return f"tokenizer dropout is {dropout!r}: expected a number from 0 up to but below 1"
    if dropout and kind != "bpe":
        return f"tokenizer dropout is {dropout!r}: only kind bpe has merges to drop, set it to 0"
    return None


@runtime_checkable
class Writing(Protocol):
    """Convert vocabulary entries ("pieces") to text."""

    def join(self, pieces: Sequence[str]) -> str:
        """The text of successive pieces; never raises. `<unk>`, the unknown piece, becomes U+FFFD."""
        ...

    def label(self, piece: str) -> str:
        """A readable form of one piece, on one line and never empty."""
        ...


class Kind(Writing, Protocol):
    """Convert text to pieces and back."""

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges,
        special: SpecialTokens = SPECIAL,
    ) -> Cutter:
        """The backend that encodes with this vocabulary. The kind alone determines the rest of it."""
        ...

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Cutter:
        """A backend whose vocabulary is learnt from `texts`. They hold no surrogates and are not all blank."""
        ...


def entry_of(vocabulary: Mapping[str, int], index: int) -> str:
    """The entry with this id; the name of the unknown piece if the vocabulary lacks the id."""
    return next(
        (entry for entry, number in vocabulary.items() if number == index),
        NAMES[UNKNOWN],
    )


def word_level(vocabulary: Mapping[str, int], special: SpecialTokens) -> Backend:
    """A backend that looks up whole pieces; other pieces are unknown."""
    return Backend(
        models.WordLevel(
            dict(vocabulary), unk_token=entry_of(vocabulary, special.unknown)
        )
    )


class WholePieces:
    """A kind whose vocabulary is whole pieces of the training text: the splitter cuts them after the normalizer."""

    def __init__(
        self, normalizer: normalizers.Normalizer, splitter: pre_tokenizers.PreTokenizer
    ) -> None:
        self._normalizer, self._splitter = normalizer, splitter

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges,
        special: SpecialTokens = SPECIAL,
    ) -> Backend:
        backend = word_level(vocabulary, special)
        backend.normalizer = self._normalizer
        backend.pre_tokenizer = self._splitter
        return backend

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(
                piece
                for piece, _ in self._splitter.pre_tokenize_str(
                    self._normalizer.normalize_str(text)
                )
            )
        return self.build(most_frequent(counts, settings), ())


def most_frequent(counts: Counter[str], settings: TokenizerSettings) -> dict[str, int]:
    """Assign ids to the special names, then to the most frequent pieces, ties in code point order. Raises InputError if
    no piece occurs `minimum_count` times."""
    frequent = [
        piece for piece, count in counts.items() if count >= settings.minimum_count
    ]
    if not frequent:
        raise InputError(
            f"tokenizer minimum_count is {settings.minimum_count}: no {settings.kind} of the training text occurs "
            "that often, lower it"
        )
    frequent.sort(key=lambda piece: (-counts[piece], piece))
    return {
        piece: index for index, piece in enumerate([*NAMES, *frequent][: settings.size])
    }


def to_visible(text: str) -> str:
    """`text` with line breaks and control characters escaped. A text of blanks or zero-width characters only is escaped
    in full."""
    if not text.strip():
        text = text.replace(" ", "·")
    wholly_hidden = not any(character.isprintable() for character in text)
    return "".join(
        _escape(character) if wholly_hidden or _breaks_line(character) else character
        for character in text
    )


def _breaks_line(character: str) -> bool:
    return (
        character < " " or "\x7f" <= character <= "\x9f" or character in "\u2028\u2029"
    )


def _escape(character: str) -> str:
    return NAMED.get(character) or character.encode("unicode_escape").decode("ascii")


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
    """A vocabulary of the words and marks of the training text. Any other word or mark is UNKNOWN."""

    def __init__(self) -> None:
        super().__init__(_NORMALIZER, _SPLITTER)

    def join(self, pieces: Sequence[str]) -> str:
        parts: list[str] = []
        after_word = False
        for piece in pieces:
            unknown = piece == NAMES[UNKNOWN]
            word = unknown or _is_word(piece)
            parts.append(" " if word and after_word else "")
            parts.append(REPLACEMENT if unknown else piece)
            after_word = word
        return " ".join("".join(parts).split(" ")).strip(" ")

    def label(self, piece: str) -> str:
        return to_visible(piece.strip(" "))


@lru_cache(maxsize=2**16)
def _is_word(piece: str) -> bool:
    # The splitter's regular expressions decide: Python's character categories may have another Unicode version.
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
    """A vocabulary of the words of the training text. Any other word is UNKNOWN."""

    def __init__(self) -> None:
        super().__init__(_BLANK_NORMALIZER, _BLANK_SPLITTER)

    def join(self, pieces: Sequence[str]) -> str:
        return " ".join(_is_plain(piece) for piece in pieces)

    def label(self, piece: str) -> str:
        return to_visible(_is_plain(piece))


def _is_plain(piece: str) -> str:
    if piece == NAMES[UNKNOWN]:
        return REPLACEMENT
    return (
        piece[1:] if piece.startswith("\\") and piece.lstrip("\\") in NAMES else piece
    )


class Character:
    """A vocabulary of the characters of the training text, spaces included. Any other character is UNKNOWN."""

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges,
        special: SpecialTokens = SPECIAL,
    ) -> Backend:
        backend = word_level(vocabulary, special)
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        backend.decoder = decoders.Fuse()
        return backend

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text)
        return self.build(most_frequent(counts, settings), ())

    def join(self, pieces: Sequence[str]) -> str:
        return "".join(
            REPLACEMENT if piece == NAMES[UNKNOWN] else piece for piece in pieces
        )

    def label(self, piece: str) -> str:
        return to_visible(piece)


# Combining marks stay with their letters: without them every word of the Indic scripts would be cut at its vowels.
_LETTERS = r"[\p{L}\p{M}\x{200C}\x{200D}]+"
_SYMBOLS = r"[^\s\p{L}\p{M}\p{N}\x{200C}\x{200D}][^\s\p{L}\p{N}]*"
_WORDS = rf" ?{_LETTERS}| ?\p{{N}}+| ?{_SYMBOLS}|\s+(?!\S)|\s+"


_ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _byte_characters() -> list[str]:
    # A printable character of Latin-1 represents its own byte; the other bytes follow from U+0100 on.
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in printable]
    return [
        chr(byte) if byte in printable else chr(256 + hidden.index(byte))
        for byte in range(256)
    ]


#: The character of each byte, at index 0 to 255.
ALPHABET = _byte_characters()
_BYTE_OF_CHARACTER = {
    character: bytes([byte]) for byte, character in enumerate(ALPHABET)
}


class BytePair:
    """A vocabulary of the 256 bytes and the most frequent merges."""

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges,
        special: SpecialTokens = SPECIAL,
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
        trained = self.build({}, ())
        trained.train_from_iterator(texts, trainer)
        # Build the backend again: the trainer's own searches texts for the special names.
        model = json.loads(trained.to_str())["model"]
        return self.build(
            model["vocab"], [(first, right) for first, right in model["merges"]]
        )

    def join(self, pieces: Sequence[str]) -> str:
        return _decode_bytes(pieces).removeprefix(" ")

    def label(self, piece: str) -> str:
        text = _read_bytes(piece).decode("utf-8", errors="backslashreplace")
        return to_visible(text.removeprefix(" ") or text)


class GPT2BytePair(BytePair):
    """GPT-2's byte pairs (Radford et al. 2019). Its pattern for words differs: letters without their combining marks,
    and English endings apart. No space is put in front of a text."""

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges,
        special: SpecialTokens = SPECIAL,
    ) -> Backend:
        backend = Backend(models.BPE(dict(vocabulary), list(merges)))
        backend.normalizer = normalizers.Sequence([])
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=False, use_regex=True
        )
        backend.decoder = decoders.ByteLevel()
        return backend

    def join(self, pieces: Sequence[str]) -> str:
        return _decode_bytes(pieces)


class PatternBytePair(GPT2BytePair):
    """Byte pairs that cut text into words by a pattern of their own: numbers of at most `digits` digits, line breaks
    with the symbols before them. Qwen 2 cuts single digits and composes characters (`nfc`); Llama 3 takes three digits,
    and does not cut a word that is an entry (`whole_words`)."""

    def __init__(self, digits: int, *, nfc: bool = False, whole_words: bool = False):
        number = r"\p{N}" if digits == 1 else rf"\p{{N}}{{1,{digits}}}"
        self._pattern = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_BLANKS}"
        self._nfc, self._whole_words = nfc, whole_words

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges,
        special: SpecialTokens = SPECIAL,
    ) -> Backend:
        backend = Backend(
            models.BPE(dict(vocabulary), list(merges), ignore_merges=self._whole_words)
        )
        backend.normalizer = (
            normalizers.NFC() if self._nfc else normalizers.Sequence([])
        )
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(self._pattern), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        backend.decoder = decoders.ByteLevel()
        return backend


def _decode_bytes(pieces: Sequence[str]) -> str:
    return b"".join(map(_read_bytes, pieces)).decode("utf-8", errors="replace")


def _read_bytes(piece: str) -> bytes:
    if piece == NAMES[UNKNOWN]:
        return REPLACEMENT.encode()
    return b"".join(_BYTE_OF_CHARACTER[character] for character in piece)


BLANK = "▁"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
"""The entry of each byte."""
_BYTE = re.compile("<0x([0-9A-F]{2})>")


class ByteFallback:
    """Byte-pair encoding whose texts get a space in front. With `always`, as in Llama 2, every text gets it, and
    decoding returns the text; otherwise, as in Mistral's later files, only a text that begins with none."""

    def __init__(self, *, always: bool) -> None:
        self._always = always

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges,
        special: SpecialTokens = SPECIAL,
    ) -> Backend:
        unknown = entry_of(vocabulary, special.unknown)
        model = models.BPE(
            dict(vocabulary),
            list(merges),
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
        return self._around(model, split=False)

    def _around(self, model: models.Model, *, split: bool) -> Backend:
        """A backend of a model; with `split`, text is cut before each space."""
        backend = Backend(model)
        if self._always:
            backend.normalizer = normalizers.Sequence(
                [normalizers.Prepend(BLANK), normalizers.Replace(" ", BLANK)]
            )
        if split or not self._always:
            backend.pre_tokenizer = pre_tokenizers.Metaspace(
                BLANK, "never" if self._always else "first", split
            )
        backend.decoder = decoders.Sequence(
            [
                decoders.Replace(BLANK, " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
        return backend

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
        trainer = trainers.BpeTrainer(
            vocab_size=settings.size,
            min_frequency=settings.minimum_count,
            special_tokens=[*NAMES, *BYTES],
            limit_alphabet=max(1, (settings.size - len(NAMES) - len(BYTES)) // 2),
            show_progress=False,
        )
        trained = self._around(models.BPE(), split=True)
        trained.train_from_iterator(texts, trainer)
        model = json.loads(trained.to_str())["model"]
        return self.build(
            model["vocab"], [(first, right) for first, right in model["merges"]]
        )

    def join(self, pieces: Sequence[str]) -> str:
        return _join_bytes(pieces).decode("utf-8", errors="replace").removeprefix(" ")

    def label(self, piece: str) -> str:
        text = _join_bytes([piece]).decode("utf-8", errors="backslashreplace")
        return to_visible(text.removeprefix(" ") or text)


def _join_bytes(pieces: Sequence[str]) -> bytes:
    """The UTF-8 bytes of successive pieces."""
    return b"".join(map(_byte_value, pieces))


def _byte_value(piece: str) -> bytes:
    if piece == NAMES[UNKNOWN]:
        return REPLACEMENT.encode()
    byte = _BYTE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(BLANK, " ").encode()


INSIDE = "##"
LONGEST_WORD = 100
"""Longest word in characters; a longer one is unknown."""


class WordPiece:
    """A vocabulary of the characters of the training text, each also inside a word, and of pieces made of them."""

    def __init__(self, *, uncased: bool) -> None:
        self.uncased = uncased

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges,
        special: SpecialTokens = SPECIAL,
    ) -> Backend:
        backend = Backend(
            models.WordPiece(
                dict(vocabulary),
                unk_token=entry_of(vocabulary, special.unknown),
                continuing_subword_prefix=INSIDE,
                max_input_chars_per_word=LONGEST_WORD,
            )
        )
        backend.normalizer = normalizers.BertNormalizer(
            lowercase=self.uncased, strip_accents=self.uncased
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece(INSIDE, cleanup=False)
        return backend

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
        empty = self.build(
            {name: index for index, name in enumerate((*NAMES, MASK_NAME))}, ()
        )
        normalizer, splitter = empty.normalizer, empty.pre_tokenizer
        words = [
            word
            for text in texts
            for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))
        ]
        letters = sorted({letter for word in words for letter in word})
        # The trainer orders pieces that it finds by its own rule; special tokens keep the order of the list.
        initial = [
            *NAMES,
            MASK_NAME,
            *letters,
            *(INSIDE + letter for letter in letters),
        ]
        trainer = trainers.WordPieceTrainer(
            vocab_size=settings.size,
            min_frequency=settings.minimum_count,
            special_tokens=initial[: settings.size],
            continuing_subword_prefix=INSIDE,
            show_progress=False,
        )
        empty.train_from_iterator(words, trainer)
        vocabulary = empty.get_vocab(with_added_tokens=True)
        return self.build(
            dict(sorted(vocabulary.items(), key=lambda entry: entry[1])), ()
        )

    def join(self, pieces: Sequence[str]) -> str:
        plain = [REPLACEMENT if piece == NAMES[UNKNOWN] else piece for piece in pieces]
        return "".join(
            piece[2:] if piece.startswith(INSIDE) else f" {piece}" for piece in plain
        ).removeprefix(" ")

    def label(self, piece: str) -> str:
        return to_visible(piece)

"""Kinds of tokens, and the settings of a vocabulary."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers

from regard.errors import InputError
from regard.text.special import NAMES, SPECIAL, UNKNOWN, SpecialTokens

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
        (entry for entry, each in vocabulary.items() if each == index), NAMES[UNKNOWN]
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
    kept = [piece for piece, count in counts.items() if count >= settings.minimum_count]
    if not kept:
        raise InputError(
            f"tokenizer minimum_count is {settings.minimum_count}: no {settings.kind} of the training text occurs "
            "that often, lower it"
        )
    kept.sort(key=lambda piece: (-counts[piece], piece))
    return {
        piece: index for index, piece in enumerate([*NAMES, *kept][: settings.size])
    }


def visible(text: str) -> str:
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

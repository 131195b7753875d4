"""What the kinds of token have in common."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers

from regard.errors import InputError
from regard.text.settings import TokenizerSettings
from regard.text.special import NAMES, SPECIAL, UNKNOWN, SpecialTokens

Merges = Sequence[tuple[str, str]]


@runtime_checkable
class Cutter(Protocol):
    """What cuts text: a tokenizer of the library, or what asks one and numbers its pieces anew."""

    normalizer: Any
    pre_tokenizer: Any

    def encode(self, sequence: str, /) -> Any:
        """The `ids` of a text, and the `offsets` of what they stand for."""
        ...

    def to_str(self) -> str:
        """All of it as JSON, whose `model` has a `vocab`."""
        ...


class Kind(Protocol):
    """How text becomes vocabulary entries ("pieces") and back."""

    def build(self, vocabulary: Mapping[str, int], merges: Merges, special: SpecialTokens = SPECIAL) -> Cutter:
        """The backend that encodes with this vocabulary; everything else about it is fixed by the kind."""
        ...

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Cutter:
        """A backend whose vocabulary is learnt from `texts`, which hold no surrogates and are not all blank."""
        ...

    def join(self, pieces: Sequence[str]) -> str:
        """The text of pieces in a row; never raises. `<unk>`, an unknown piece, becomes U+FFFD."""
        ...

    def label(self, piece: str) -> str:
        """One piece as people read it under a picture, on one line and never empty."""
        ...


def entry_of(vocabulary: Mapping[str, int], index: int) -> str:
    """The entry with an id; the name of unknown pieces for an id that the vocabulary lacks."""
    return next((entry for entry, each in vocabulary.items() if each == index), NAMES[UNKNOWN])


def word_level(vocabulary: Mapping[str, int], special: SpecialTokens) -> Backend:
    """A backend that looks whole pieces up; what it does not find is unknown."""
    return Backend(models.WordLevel(dict(vocabulary), unk_token=entry_of(vocabulary, special.unknown)))


class WholePieces:
    """A kind whose vocabulary is whole pieces of the training text, as a splitter cuts them after a normalizer."""

    def __init__(self, normalizer: normalizers.Normalizer, splitter: pre_tokenizers.PreTokenizer) -> None:
        self._normalizer, self._splitter = normalizer, splitter

    def build(self, vocabulary: Mapping[str, int], merges: Merges, special: SpecialTokens = SPECIAL) -> Backend:
        backend = word_level(vocabulary, special)
        backend.normalizer = self._normalizer
        backend.pre_tokenizer = self._splitter
        return backend

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(piece for piece, _ in self._splitter.pre_tokenize_str(self._normalizer.normalize_str(text)))
        return self.build(most_frequent(counts, settings), ())


def most_frequent(counts: Counter[str], settings: TokenizerSettings) -> dict[str, int]:
    """Ids for the special names, then the most frequent pieces, ties in code point order.

    Raises InputError when no piece occurs `minimum_count` times.
    """
    kept = [piece for piece, count in counts.items() if count >= settings.minimum_count]
    if not kept:
        raise InputError(
            f"tokenizer minimum_count is {settings.minimum_count}: no {settings.kind} of the training text occurs "
            "that often, lower it"
        )
    kept.sort(key=lambda piece: (-counts[piece], piece))
    return {piece: index for index, piece in enumerate([*NAMES, *kept][: settings.size])}


def visible(text: str) -> str:
    """`text` with line breaks and controls escaped; text of nothing but blanks or zero-width characters in full."""
    if not text.strip():
        text = text.replace(" ", "·")
    wholly_hidden = not any(character.isprintable() for character in text)
    return "".join(_escape(character) if wholly_hidden or _breaks_line(character) else character for character in text)


def _breaks_line(character: str) -> bool:
    return character < " " or "\x7f" <= character <= "\x9f" or character in "\u2028\u2029"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")

"""One token per Unicode code point."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import Regex, decoders, pre_tokenizers
from tokenizers import Tokenizer as Backend

from regard.text.kind import (
    Merges,
    TokenizerSettings,
    most_frequent,
    visible,
    word_level,
)
from regard.text.special import NAMES, REPLACEMENT, SPECIAL, UNKNOWN, SpecialTokens


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
        return visible(piece)

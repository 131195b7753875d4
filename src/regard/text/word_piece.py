"""WordPiece: cut each word from the left into the longest pieces of the vocabulary.

Schuster and Nakajima 2012, as in BERT (Devlin 2019): text is cut at blanks and at every punctuation character, and a
piece inside a word is written with ## in front. Entry `MASK` of every such vocabulary is the mask of masked language
models. A word that cannot be cut is unknown as a whole. Blanks are not kept: decoding puts one blank between words.
"""

from collections.abc import Iterable, Mapping, Sequence

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.text.kind import Merges, TokenizerSettings, entry_of, visible
from regard.text.special import (
    MASK_NAME,
    NAMES,
    REPLACEMENT,
    SPECIAL,
    UNKNOWN,
    SpecialTokens,
)

INSIDE = "##"
LONGEST = 100
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
                max_input_chars_per_word=LONGEST,
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
        return visible(piece)

r"""Byte-level BPE: no character is unknown, and decoding returns the text exactly.

Sennrich et al. 2016 (1508.07909) on UTF-8 bytes, each written as one printable character (Radford et al. 2019). Text
is first cut into words, each with the space before it. Encoding adds one space in front of a text, and decoding
removes it, so that a word has the same pieces at the start of a line as inside it. Every text gets the space, also one
that begins with a space; therefore decode(encode(text)) == text holds for every text.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from regard.text.kind import Merges, TokenizerSettings, visible
from regard.text.special import NAMES, REPLACEMENT, SPECIAL, UNKNOWN, SpecialTokens

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
_BYTES = {character: bytes([byte]) for byte, character in enumerate(ALPHABET)}


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
            model["vocab"], [(left, right) for left, right in model["merges"]]
        )

    def join(self, pieces: Sequence[str]) -> str:
        return _text(pieces).removeprefix(" ")

    def label(self, piece: str) -> str:
        text = _bytes(piece).decode("utf-8", errors="backslashreplace")
        return visible(text.removeprefix(" ") or text)


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
        return _text(pieces)


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


def _text(pieces: Sequence[str]) -> str:
    return b"".join(map(_bytes, pieces)).decode("utf-8", errors="replace")


def _bytes(piece: str) -> bytes:
    if piece == NAMES[UNKNOWN]:
        return REPLACEMENT.encode()
    return b"".join(_BYTES[character] for character in piece)

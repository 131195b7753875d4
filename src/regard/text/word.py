r"""One token a word or a punctuation mark.

A word is a run of letters, combining marks and digits. Every other character (punctuation, symbols, emoji with their
modifiers, and the characters of scripts written without spaces between words that have a code block of their own: Han,
Hiragana, Katakana) is a mark, and a mark carries the space on either side of it: `Hello, "you"` is
`Hello|, |"|you|"`. Two words in a row can only have been separated by space, so joining pieces, with one space
between two words, restores the text exactly up to the length of its blanks. No rule about any language is needed.
Scripts without spaces or blocks above, such as Thai, are better served by bpe.
"""

from collections.abc import Sequence
from functools import lru_cache

from tokenizers import Regex, normalizers, pre_tokenizers

from regard.text.kind import WholePieces, visible
from regard.text.special import NAMES, REPLACEMENT, UNKNOWN

_EAST_ASIAN = (
    r"\x{2E80}-\x{2FDF}\x{3005}-\x{3007}\x{3021}-\x{3029}\x{3031}-\x{3035}\x{303B}\x{3040}-\x{30FF}\x{31F0}-\x{31FF}"
    r"\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}\x{FF66}-\x{FF9F}\x{20000}-\x{3FFFF}"
)
# The zero-width joiners belong to words of Persian and the Indic scripts.
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}\x{{200C}}\x{{200D}}]&&[^{_EAST_ASIAN}]]"
_SYMBOL = rf"(?!{_LETTER})\S"
_FLAG = r"[\x{1F1E6}-\x{1F1FF}]{2}"
# A symbol keeps its accents, its skin tone and whatever a zero-width joiner ties to it.
_MARK = rf"\ ?(?:{_FLAG}|{_SYMBOL}(?:[\p{{M}}\x{{1F3FB}}-\x{{1F3FF}}]|\x{{200D}}{_SYMBOL})*)\ ?"

_NORMALIZER = normalizers.Sequence([normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()])
_SPLITTER = pre_tokenizers.Sequence(
    [pre_tokenizers.Split(Regex(f"{_LETTER}+|{_MARK}"), "isolated"), pre_tokenizers.Split(Regex("^ $"), "removed")]
)
_NO_WORDS = pre_tokenizers.Split(Regex(f"^{_LETTER}+$"), "removed")


class Word(WholePieces):
    """The vocabulary is the words and marks of the training text; any other is UNKNOWN."""

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
        return visible(piece.strip(" "))


@lru_cache(maxsize=2**16)
def _is_word(piece: str) -> bool:
    # The splitter's own regular expressions decide, because Python's table of categories may be of another Unicode.
    return not _NO_WORDS.pre_tokenize_str(piece)

r"""One token per word or punctuation mark.

A word is a run of letters, combining marks and digits. Every other character (punctuation, symbols, emoji with their
modifiers, and the characters of scripts written without spaces between words that have a code block of their own: Han,
Hiragana, Katakana) is a mark, and a mark includes the space on either side of it: `Hello, "you"` is
`Hello|, |"|you|"`. Only space can separate two successive words, so joining the pieces, with one space between two
words, restores the text exactly up to the length of its blanks. There are no rules for particular languages. For
scripts without spaces and without these code blocks, such as Thai, bpe is the better choice.
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
        return visible(piece.strip(" "))


@lru_cache(maxsize=2**16)
def _is_word(piece: str) -> bool:
    # The splitter's regular expressions decide: Python's character categories may have another Unicode version.
    return not _NO_WORDS.pre_tokenize_str(piece)

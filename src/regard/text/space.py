"""One token per run of characters between blanks, for text that is split into words already.

The four special names are plain text here too. A word that equals one, perhaps behind backslashes, is stored with one
more backslash in front; decoding removes it.
"""

from collections.abc import Sequence

from tokenizers import Regex, normalizers, pre_tokenizers

from regard.text.kind import WholePieces, visible
from regard.text.special import NAMES, REPLACEMENT, UNKNOWN

_SPECIAL = rf"(?:{'|'.join(name[1:] for name in NAMES)})(?!\S)"  # without their first character, <
_NORMALIZER = normalizers.Sequence(
    [
        normalizers.Replace(Regex(r"\s+"), " "),
        normalizers.Strip(),
        normalizers.Replace(Regex(rf"(?<!\S)\\(?=\\*<{_SPECIAL})"), r"\\"),
        normalizers.Replace(Regex(rf"(?<!\S)<(?={_SPECIAL})"), r"\<"),
    ]
)
_SPLITTER = pre_tokenizers.Split(" ", "removed")


class Space(WholePieces):
    """A vocabulary of the words of the training text. Any other word is UNKNOWN."""

    def __init__(self) -> None:
        super().__init__(_NORMALIZER, _SPLITTER)

    def join(self, pieces: Sequence[str]) -> str:
        return " ".join(_plain(piece) for piece in pieces)

    def label(self, piece: str) -> str:
        return visible(_plain(piece))


def _plain(piece: str) -> str:
    if piece == NAMES[UNKNOWN]:
        return REPLACEMENT
    return (
        piece[1:] if piece.startswith("\\") and piece.lstrip("\\") in NAMES else piece
    )

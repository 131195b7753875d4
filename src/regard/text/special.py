"""The special tokens of a vocabulary.

They are plain vocabulary entries, never patterns that a text is searched for: `<s>` in user data is three ordinary
characters.
"""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class SpecialTokens:
    """The ids of a vocabulary's special tokens: padding, an unknown piece, the start and the end of a text, and a
    masked piece, None in a vocabulary without one.

    A vocabulary may have one token for several of them: GPT-2's has one for the first four. The defaults are the ids of
    vocabularies that are trained here.
    """

    pad: int = 0
    unknown: int = 1
    start: int = 2
    end: int = 3
    mask: int | None = None

    @property
    def silent(self) -> tuple[int, int, int]:
        """The tokens that stand for no text: padding, start and end."""
        return self.pad, self.start, self.end

    @property
    def unwritten(self) -> tuple[int, ...]:
        """The tokens that no model writes: padding and start, unless they are the end."""
        return tuple(sorted({self.pad, self.start} - {self.end}))

    @cached_property
    def all(self) -> tuple[int, ...]:
        """All ids, each once, in rising order."""
        ids = self.pad, self.unknown, self.start, self.end, self.mask
        return tuple(sorted({index for index in ids if index is not None}))


SPECIAL = SpecialTokens()
"""Those of a vocabulary that is trained here."""
MASKED = SpecialTokens(mask=4)
"""Those of a vocabulary that is trained here for models that fill in blanks."""
PAD, UNKNOWN, START, END, MASK = 0, 1, 2, 3, 4
"""The same ids by name."""

NAMES = ("<pad>", "<unk>", "<s>", "</s>")
"""Their names, in the order of their ids."""

MASK_NAME = "<mask>"
"""The entry behind them in vocabularies for models that fill in blanks."""

IGNORED = -100
"""Stands in a batch's targets where there is no token to predict; no vocabulary has it as an id."""

REPLACEMENT = "\ufffd"
"""What `decode` writes for an unknown piece and for bytes that are no character: U+FFFD."""

"""The special tokens of a vocabulary.

They are plain vocabulary entries, and texts are never searched for them: `<s>` in user data is three ordinary
characters.
"""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class SpecialTokens:
    """The ids of a vocabulary's special tokens.

    They are padding, the unknown piece, the start and the end of a text, and the mask,
    which is None in a vocabulary without one.

    One token may have several roles: GPT-2's vocabulary has one for the first four. The defaults are the ids of
    vocabularies trained by this library. In a published vocabulary, `more_ends` are other tokens that end a text, and
    the last `unused` ids have no entry: a model has weights for them and never predicts them. `between` counts the end
    tokens between two texts in one row; RoBERTa's models read two. A row `opens` with the start token and `closes` with
    the end token; T5's has no start, OPT's no end.
    """

    pad: int = 0
    unknown: int = 1
    start: int = 2
    end: int = 3
    mask: int | None = None
    more_ends: tuple[int, ...] = ()
    unused: int = 0
    between: int = 1
    opens: bool = True
    closes: bool = True

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a text, `end` first."""
        return self.end, *self.more_ends

    @property
    def silent(self) -> tuple[int, ...]:
        """Tokens without text: padding, start and ends."""
        return self.pad, self.start, *self.ends

    @property
    def unwritten(self) -> tuple[int, ...]:
        """Tokens that no model predicts: padding and start, unless they are the end."""
        return tuple(sorted({self.pad, self.start} - {*self.ends}))

    @cached_property
    def all(self) -> tuple[int, ...]:
        """All ids, without repeats, in ascending order."""
        ids = self.pad, self.unknown, self.start, *self.ends, self.mask
        return tuple(sorted({index for index in ids if index is not None}))


SPECIAL = SpecialTokens()
"""The special ids of vocabularies trained by this library."""
MASKED = SpecialTokens(mask=4)
"""The special ids of vocabularies trained by this library for masked language models."""
PAD, UNKNOWN, START, END, MASK = 0, 1, 2, 3, 4
"""The same ids by name."""

NAMES = ("<pad>", "<unk>", "<s>", "</s>")
"""The entries with these ids, in order."""

MASK_NAME = "<mask>"
"""The entry with id 4 in vocabularies for masked language models."""

IGNORED = -100
"""Target of positions without a loss. No vocabulary has it as an id."""

REPLACEMENT = "\ufffd"
"""U+FFFD, which `decode` writes for an unknown piece and for bytes that form no character."""

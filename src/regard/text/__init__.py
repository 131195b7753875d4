"""Vocabularies and tokenizers: from text to ids and back."""

from regard.text.kinds import (
    END,
    PAD,
    SPECIAL,
    START,
    UNKNOWN,
    SpecialTokens,
    TokenizerSettings,
)
from regard.text.tokenizer import Tokenizer

__all__ = [
    "END",
    "PAD",
    "SPECIAL",
    "START",
    "UNKNOWN",
    "SpecialTokens",
    "Tokenizer",
    "TokenizerSettings",
]

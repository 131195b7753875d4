"""Vocabularies and tokenizers: text to ids and back."""

from regard.text.settings import TokenizerSettings
from regard.text.special import END, PAD, START, UNKNOWN
from regard.text.tokenizer import Tokenizer

__all__ = ["END", "PAD", "START", "UNKNOWN", "Tokenizer", "TokenizerSettings"]

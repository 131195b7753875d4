"""The labels of a model's positions: tokens with their words, patches of an image, moments of a sound."""

from collections.abc import Sequence
from typing import Any

from regard.maps.heads import Side
from regard.maps.words import Words

MARKS = ("Ġ", "▁")
"""Marks before a token that begins a word, of byte-level BPE and of SentencePiece."""


def side_of(tokenizer: Any, ids: Sequence[int]) -> Side:
    """The tokens with these ids and the words that they form; a special token is a word of its own."""
    found, special = (
        tokenizer.convert_ids_to_tokens(list(ids)),
        set(tokenizer.all_special_ids),
    )
    tokens = [
        f"<{index}>" if token is None else token
        for index, token in zip(ids, found, strict=True)
    ]
    vocabulary = (
        tokenizer.get_vocab()
    )  # a padded model may write an id that is not in it
    marked = any(token.startswith(MARKS) for token in vocabulary)
    pieces, indices, alone = [], [], True
    for index, token in zip(ids, tokens, strict=True):
        own = index in special
        begins = token.startswith(MARKS) if marked else not token.startswith("##")
        indices.append((indices[-1] if indices else -1) + (own or alone or begins))
        pieces.append(token if own else _label(tokenizer, index, token))
        alone = own
    words = [""] * (indices[-1] + 1 if indices else 0)
    for piece, index in zip(pieces, indices, strict=True):
        words[index] += piece.removeprefix("##")
    return Side(tuple(pieces), Words(tuple(words), tuple(indices)))


def _label(tokenizer: Any, index: int, token: str) -> str:
    """A token as text: without the mark of a word's beginning, bytes as characters where they are some."""
    if token.startswith("##"):
        return token
    text = tokenizer.decode([index]).strip()
    return text if text and "\ufffd" not in text else token


def numbered(count: int, name: str) -> Side:
    """Labels of positions without text."""
    return Side.of([f"{name} {number}" for number in range(count)])


def moments(count: int, seconds: float) -> Side:
    """Labels of a sound's positions: when each begins."""
    return Side.of([f"{number * seconds / count:.2f} s" for number in range(count)])

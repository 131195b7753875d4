"""Check that an exported tokenizer encodes texts as its run does."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from regard.errors import RunError, quoted
from regard.hub.formats.tokenizer_json import TOKENIZER
from regard.hub.tolerances import as_transformers
from regard.text import Tokenizer

TEXTS = (
    "",
    "The cat sat on the mat, 12.5 % of the time; DON'T ask (why)…",
    "ÉCOLE naïve Übermut e\u0301te\u0301 İstanbul Straße",
    "日本語のテスト 한국어 العربية हिन्दी 🙂👍🏽",
    "  two  blanks\tand\nlines\r\n",
    "[MASK] <mask> [SEP] </s> <pad> <|endoftext|>",
    "a" * 101,
)
"""Accents, capitals, scripts, blanks, names of special tokens as plain text, and a word longer than WordPiece reads."""
BEFORE, AFTER = "The cat", " on the mat"
"""Text before and after a mask."""


def check_tokens(tokenizer: Tokenizer, out: Path) -> None:
    """Compare the run's ids of some texts with those of tokenizers, and of transformers if installed, in `out`.

    Raises:
        RunError: the two differ; the message has the text.
    """
    if not (out / TOKENIZER).is_file():
        return
    backend = Backend.from_file(str(out / TOKENIZER))
    backend.encode_special_tokens = True  # the name of a special token is plain text
    cuts: dict[str, Callable[[str], Sequence[int]]] = {
        "tokenizers": lambda text: backend.encode(text, add_special_tokens=False).ids
    }
    loaded = as_transformers(out, "AutoTokenizer")
    if loaded is not None:
        cuts["transformers"] = lambda text: _ids(
            loaded, text, add_special_tokens=False, split_special_tokens=True
        )
    texts = [text for text in TEXTS if not _names_pieces(tokenizer, text)]
    for name, cut in cuts.items():
        for text in texts:
            _compare(tokenizer.encode(text), cut, text, f"{out}: {name}")
    if loaded is not None and loaded.mask_token is not None:
        for text, ids in _masked_examples(tokenizer, loaded.mask_token):
            _compare(ids, lambda text: _ids(loaded, text), text, f"{out}: transformers")


def _names_pieces(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a text has the name of a special token that is also one of a Unigram model's pieces: those libraries cut
    it as that piece, and regard as plain text."""
    if (
        tokenizer.settings.kind != "pipeline"
        or tokenizer.backend["model"]["type"] != "Unigram"
    ):
        return False
    return any(name in text for name in tokenizer.pieces(tokenizer.special.all))


def _masked_examples(
    tokenizer: Tokenizer, mask: str
) -> Iterator[tuple[str, list[int]]]:
    """Yield texts and the ids that a masked language model reads."""
    before, after, special = (
        tokenizer.encode(BEFORE),
        tokenizer.encode(AFTER),
        tokenizer.special,
    )
    assert special.mask is not None
    yield BEFORE, [special.start, *before, special.end]
    yield (
        f"{BEFORE} {mask}{AFTER}",
        [special.start, *before, special.mask, *after, special.end],
    )


def _compare(
    ids: Sequence[int], cut: Callable[[str], Sequence[int]], text: str, who: str
) -> None:
    """Raises RunError for a text with other ids."""
    if (found := list(cut(text))) != list(ids):
        difference = f"{quoted(text)} becomes {quoted(str(found))}, expected {quoted(str(list(ids)))}"
        raise RunError(
            f"{who} segments text differently from the run: {difference}; it is removed"
        )


def _ids(loaded: Any, text: str, **how: Any) -> Sequence[int]:
    return loaded(text, verbose=False, **how)["input_ids"]

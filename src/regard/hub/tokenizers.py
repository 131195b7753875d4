"""Tokenizers of runs in their published form, and the check that both cut text alike."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import processors

from regard.data.batches import bert_input
from regard.errors import InputError, RunError, quote
from regard.hub.sentencepiece import write_pieces
from regard.models.published import quiet_library, require_transformers
from regard.text import Tokenizer
from regard.text.special import SpecialTokens
from regard.text.unigram import pieces_of

TEXTS = (
    "",
    "The cat sat on the mat, 12.5 % of the time; DON'T ask (why)…",
    "ÉCOLE naïve Übermut e\u0301te\u0301 İstanbul Straße",
    "日本語のテスト 한국어 العربية हिन्दी 🙂👍🏽",
    "  two  blanks\tand\nlines\r\n",
    "[MASK] <mask> [SEP] </s> <pad> <|endoftext|>",
    "a" * 101,
)
"""Accents, capitals, scripts, blanks, names of special tokens, and a long word."""
VOCABULARY, SOURCE, TARGET = "vocab.json", "source.spm", "target.spm"


def publish_tokenizer(tokenizer: Tokenizer, context: int, layout: SpecialTokens) -> Any:
    """Return a tokenizer as one of transformers.

    Args:
        tokenizer: The tokenizer of a run.
        context: The most tokens of a row.
        layout: What stands around a text, and between two.

    Raises:
        InputError: No published tokenizer cuts text like this kind.
    """
    library = require_transformers("this run")
    if tokenizer.settings.kind == "unigram":
        raise InputError(
            "the tokenizer is of kind unigram, which only Marian publishes"
        )
    document, special = tokenizer.backend, tokenizer.special
    entries = document.pop("entries", {})
    known = tokenizer.size - special.unused
    if tokenizer.settings.kind != "pipeline":
        vocabulary = tokenizer.vocabulary
        document["model"]["vocab"] = {
            entry: index for entry, index in vocabulary.items() if index < known
        }
    named = {index: entry for entry, index in entries.items() if index < known}
    named |= dict(zip(special.all, tokenizer.pieces(special.all), strict=True))
    document["added_tokens"] = [
        {
            "id": index,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, content in sorted(named.items())
    ]
    backend = Backend.from_str(json.dumps(document))
    add_layout(backend, tokenizer, layout)
    roles = {
        "pad_token": special.pad,
        "unk_token": special.unknown,
        "bos_token": special.start,
        "eos_token": special.end,
        "cls_token": special.start,
        "sep_token": special.end,
        "mask_token": special.mask,
    }
    names = {
        role: tokenizer.pieces([index])[0]
        for role, index in roles.items()
        if index is not None
    }
    return library.PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=context, **names
    )


def add_layout(backend: Backend, tokenizer: Tokenizer, layout: SpecialTokens) -> None:
    """Let a backend put special tokens around a text, and between two."""
    if not layout.opens and not layout.closes:
        return
    start, end = tokenizer.pieces([layout.start, layout.end])
    first = [start] if layout.opens else []
    last = [end] if layout.closes else []
    single = [*first, "$A", *last]
    pair = [
        *first,
        "$A",
        *[end] * layout.between,
        "$B:1",
        *(f"{name}:1" for name in last),
    ]
    ids = {start: layout.start, end: layout.end}
    backend.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=list(ids.items())
    )


def layout_of(tokenizer: Tokenizer, before: str | None) -> SpecialTokens:
    """Return what stands around a text: of a language model only what is before it."""
    if before is None:
        return tokenizer.special
    opens = before == "start"
    return replace(tokenizer.special, opens=opens, closes=False, between=0)


def save_tokenizer(
    tokenizer: Tokenizer, out: Path, context: int, before: str | None = None
) -> None:
    """Write a tokenizer for transformers, and check that it cuts text alike.

    Raises:
        InputError: No published tokenizer cuts text like this kind.
        RunError: transformers cuts text differently.
    """
    layout = layout_of(tokenizer, before)
    with quiet_library():
        publish_tokenizer(tokenizer, context, layout).save_pretrained(out)
        library = require_transformers(str(out))
        loaded = library.AutoTokenizer.from_pretrained(out, local_files_only=True)
    for text, expected, ids in compare_texts(tokenizer, loaded, layout):
        if expected != ids:
            raise RunError(
                f"{out}: transformers segments text differently from the run: "
                f"{quote(text)} becomes {quote(str(ids))}, expected "
                f"{quote(str(expected))}; it is removed"
            )


def compare_texts(
    tokenizer: Tokenizer, loaded: Any, layout: SpecialTokens
) -> Iterator[tuple[str, list[int], list[int]]]:
    """Yield texts with the ids of a run's tokenizer and those of a published one."""
    names = tokenizer.pieces(tokenizer.special.all)
    scored = tokenizer.backend["model"].get("type") == "Unigram"
    for text in TEXTS:
        if scored and any(name in text for name in names):
            continue  # the library cuts these names as pieces, regard as plain text
        options = {"add_special_tokens": False, "split_special_tokens": True}
        ids = loaded(text, verbose=False, **options)["input_ids"]
        yield text, tokenizer.encode(text), list(ids)
    first, second = tokenizer.encode("The cat"), tokenizer.encode("sat")
    row, _ = bert_input(layout, first)
    yield "The cat", row, list(loaded("The cat")["input_ids"])
    if layout.closes:
        row, _ = bert_input(layout, first, second)
        yield "The cat | sat", row, list(loaded("The cat", "sat")["input_ids"])


def marian_files(
    source: Tokenizer, target: Tokenizer, context: int
) -> dict[str, dict[str, Any] | bytes]:
    """Return the files of both tokenizers of a Marian model.

    Raises:
        InputError: They are not of unigram pieces and one vocabulary.
    """
    if {source.settings.kind, target.settings.kind} != {"unigram"}:
        raise InputError("its tokenizers are not of unigram pieces, as Marian's are")
    if (source.vocabulary, source.special) != (target.vocabulary, target.special):
        raise InputError("its tokenizers are not of one vocabulary")
    special = source.special
    unknown, start, end = source.pieces([special.unknown, special.start, special.end])
    about = {
        "tokenizer_class": "MarianTokenizer",
        "unk_token": unknown,
        "eos_token": end,
        "pad_token": start,
        "model_max_length": context,
        "separate_vocabs": False,
    }
    known = source.size - special.unused
    vocabulary = source.vocabulary
    return {
        VOCABULARY: {
            entry: index for entry, index in vocabulary.items() if index < known
        },
        SOURCE: write_pieces(pieces_of(source.backend)),
        TARGET: write_pieces(pieces_of(target.backend)),
        "tokenizer_config.json": about,
    }

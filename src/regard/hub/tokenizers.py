"""Tokenizers of runs in their published form, and the check that both cut text alike."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, processors
from tokenizers import Tokenizer as Backend

from regard.data.batches import bert_input
from regard.errors import RunError, quote
from regard.models.published import quiet_library, require_transformers
from regard.text import Tokenizer
from regard.text.kinds import SpecialTokens

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


def save_tokenizer(
    tokenizer: Tokenizer, out: Path, context: int, before: str | None = None
) -> None:
    """Write a tokenizer for transformers, and check that it cuts text alike.

    Args:
        tokenizer: The tokenizer of a run.
        out: The folder of the export.
        context: The most tokens of a row.
        before: What stands before a text of a language model: `start` or another token
            or nothing.

    Raises:
        RunError: transformers cuts text differently.
    """
    layout = tokenizer.special
    if before is not None:
        layout = replace(layout, opens=before == "start", closes=False, between=0)
    library = require_transformers(str(out))
    with quiet_library():
        publish_tokenizer(tokenizer, context, layout).save_pretrained(out)
        loaded = library.AutoTokenizer.from_pretrained(out, local_files_only=True)
    check_texts(tokenizer, loaded, layout, out)


def publish_tokenizer(tokenizer: Tokenizer, context: int, layout: SpecialTokens) -> Any:
    """Return a tokenizer as one of transformers, with tokens around texts."""
    document = tokenizer.backend
    special = tokenizer.special
    count = tokenizer.size - special.unused
    entries = document.pop("entries", None)
    if entries is None:
        names = list(tokenizer.vocabulary)[:count]
        document["model"]["vocab"] = {name: id_ for id_, name in enumerate(names)}
    added = {id_: name for name, id_ in (entries or {}).items() if id_ < count}
    added |= dict(zip(special.all, tokenizer.pieces(special.all), strict=True))
    document |= {"version": "1.0", "truncation": None, "padding": None}
    document.setdefault("post_processor", None)
    backend = Backend.from_str(json.dumps(document | {"added_tokens": []}))
    backend.add_special_tokens(
        [AddedToken(added[id_], normalized=False) for id_ in sorted(added)]
    )
    start, end = tokenizer.pieces([layout.start, layout.end])
    if layout.opens or layout.closes:
        single = [*[start] * layout.opens, "$A", *[end] * layout.closes]
        pair = [*single[: 1 + layout.opens], *[end] * layout.between, "$B:1"]
        backend.post_processor = processors.TemplateProcessing(
            single=single,
            pair=[*pair, *[f"{end}:1"] * layout.closes],
            special_tokens=[(start, layout.start), (end, layout.end)],
        )
    roles = {
        "pad_token": special.pad,
        "unk_token": special.unknown,
        "bos_token": special.start,
        "cls_token": special.start,
        "eos_token": special.end,
        "sep_token": special.end,
        "mask_token": special.mask,
    }
    named = {
        role: tokenizer.pieces([id_])[0]
        for role, id_ in roles.items()
        if id_ is not None
    }
    return require_transformers("this run").PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=context, **named
    )


def check_texts(
    tokenizer: Tokenizer, loaded: Any, layout: SpecialTokens, out: Path
) -> None:
    """Raise RunError for a text that a published tokenizer cuts differently."""
    is_scored = tokenizer.backend["model"].get("type") == "Unigram"
    names = tokenizer.pieces(tokenizer.special.all)
    options = {"add_special_tokens": False, "split_special_tokens": True}
    rows = [
        (text, tokenizer.encode(text), loaded(text, verbose=False, **options))
        for text in TEXTS
        # the library cuts these names as pieces of Unigram, regard as plain text
        if not (is_scored and any(name in text for name in names))
    ]
    first, second = "The cat", "sat"
    ids = tokenizer.encode(first)
    second_ids = tokenizer.encode(second)
    rows.append((first, bert_input(layout, ids)[0], loaded(first)))
    if layout.closes:
        pair = bert_input(layout, ids, second_ids)[0]
        rows.append((f"{first} | {second}", pair, loaded(first, second)))
    for text, expected, encoding in rows:
        if expected != list(encoding["input_ids"]):
            raise RunError(
                f"{out}: transformers segments text differently from the run: "
                f"{quote(text)} becomes {quote(str(encoding['input_ids']))}, expected "
                f"{quote(str(expected))}; it is removed"
            )

"""Published vocabularies of language models."""

import json
from collections.abc import Mapping
from typing import Any

from regard.errors import InputError
from regard.hub.formats import tokenizer_json
from regard.hub.formats.folder import Folder
from regard.hub.formats.tokenizer_json import TOKENIZER, Merges, added
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kind import SMALLEST, KindName
from regard.text.special import NAMES, SpecialTokens
from regard.text.storage import KINDS

VOCABULARY, MERGES = "vocab.json", "merges.txt"
OURS: Mapping[str, tuple[KindName, ...]] = {
    "BPE": ("bpe", "gpt2"),
    "WordLevel": ("character", "word", "space"),
    "WordPiece": ("wordpiece", "wordpiece-uncased"),
}
"""For each type of model: the kinds of tokenizer with which regard trains language models."""
PUBLISHED: tuple[KindName, ...] = ("gpt2", "qwen2", "llama3")
"""Kinds of the released language models."""
CUTTING = ("normalizer", "pre_tokenizer", "decoder")


def read(folder: Folder, size: int, end: int) -> Tokenizer:
    """Read the tokenizer of a language model with `size` embeddings. In a vocabulary that regard did not export the id
    `end` separates texts, pads and starts.

    Raises:
        InputError: the tokenizer is missing, belongs to another model, or segments text as no kind of ours.
    """
    vocabulary, merges, kind = _document(folder) if folder.has(TOKENIZER) else (*_files(folder), "gpt2")
    vocabulary = counted(vocabulary, size, folder)
    if all(vocabulary.get(name) == index for index, name in enumerate(NAMES)):
        return Tokenizer.of(settings(kind, size), vocabulary, merges)
    if not end < size:
        raise InputError(f"{folder.path}: eos_token_id is {end}, beyond the {size} entries of the tokenizer")
    return Tokenizer.of(settings(kind, size), vocabulary, merges, SpecialTokens(end, end, end, end))


def counted(vocabulary: Mapping[str, int], size: int, folder: Folder) -> dict[str, int]:
    """Sort a vocabulary by id. Raises InputError unless the ids are 0 to `size` - 1."""
    if len(vocabulary) != size or sorted(vocabulary.values()) != list(range(size)):
        raise InputError(
            f"{folder.path}: the tokenizer has {len(vocabulary)} entries and {folder.path.name}/config.json a "
            f"vocab_size of {size}; it belongs to another model"
        )
    return dict(sorted(vocabulary.items(), key=lambda entry: entry[1]))


def settings(kind: KindName, size: int) -> TokenizerSettings:
    """Return the settings of a vocabulary, which may be smaller than a trained one."""
    return TokenizerSettings(kind, max(size, SMALLEST[kind]))


def tokenizer_document(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the tokenizer.json of a tokenizer."""
    document = tokenizer.backend
    special = tokenizer.special.all
    document["added_tokens"] = added(zip(special, tokenizer.pieces(special), strict=True))
    return document


def tokenizer_config(tokenizer: Tokenizer, context: int) -> dict[str, Any]:
    """Return the tokenizer_config.json: GPT2Tokenizer for a released vocabulary, PreTrainedTokenizerFast for another,
    and the special tokens."""
    special = tokenizer.special
    padding, unknown, end = tokenizer.pieces([special.pad, special.unknown, special.end])
    own = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": padding, "unk_token": unknown}
    theirs = {"tokenizer_class": "GPT2Tokenizer", "unk_token": end, "add_prefix_space": False}
    released = special.unknown == special.end
    return (theirs if released else own) | {"bos_token": end, "eos_token": end, "model_max_length": context}


def _document(folder: Folder) -> tuple[dict[str, int], Merges, KindName]:
    """Read vocabulary and merges of a tokenizer.json, and its kind: one of ours in a file that regard exported, else a
    published one. Raises InputError for another."""
    document = tokenizer_json.read(folder, tuple(OURS))
    exported = all(document.vocabulary.get(name) == index for index, name in enumerate(NAMES))
    for kind in (*(OURS[document.type] if exported else ()), *(PUBLISHED if document.type == "BPE" else ())):
        if document.cuts_as(json.loads(KINDS[kind].build({}, ()).to_str()), CUTTING):
            return document.vocabulary, document.merges, kind
    if document.type == "BPE" and document.is_gpt2_byte_level:
        return document.vocabulary, document.merges, "gpt2"
    raise InputError(
        f"{document.place}: segments text differently from the byte-level BPE of GPT-2, Qwen 2 and Llama 3; does it "
        "belong to another model?"
    )


def _files(folder: Folder) -> tuple[dict[str, int], Merges]:
    if not folder.has(VOCABULARY) or not folder.has(MERGES):
        raise InputError(f"{folder.path}: has neither {TOKENIZER} nor {VOCABULARY} with {MERGES}")
    vocabulary = tokenizer_json.entries(folder.json(VOCABULARY), str(folder.path / VOCABULARY))
    lines = [line for line in folder.text(MERGES).split("\n") if line and not line.startswith("#version")]
    return vocabulary, tokenizer_json.pairs(lines, vocabulary, str(folder.path / MERGES))

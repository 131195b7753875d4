"""Published vocabularies of language models."""

import json
from collections.abc import Mapping
from typing import Any

from regard.decoding.continuation import Before
from regard.errors import InputError
from regard.hub.formats import generation, pipelines, special_tokens, tokenizer_json
from regard.hub.formats.folder import Folder
from regard.hub.formats.pretrained_model import Continues, PretrainedModel
from regard.hub.formats.tokenizer_classes import overridden
from regard.hub.formats.tokenizer_json import ABOUT, TOKENIZER, Document, Merges, added
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kind import SMALLEST, KindName
from regard.text.special import NAMES, UNKNOWN, SpecialTokens
from regard.text.storage import KINDS

VOCABULARY, MERGES = "vocab.json", "merges.txt"
OURS: Mapping[str, tuple[KindName, ...]] = {
    "BPE": ("bpe", "gpt2"),
    "WordLevel": ("character", "word", "space"),
    "WordPiece": ("wordpiece", "wordpiece-uncased"),
    "Unigram": (),
}
"""For each type of model: the kinds of tokenizer with which regard trains language models."""
PUBLISHED: tuple[KindName, ...] = ("gpt2", "qwen2", "llama3", "llama2", "mistral")
"""Kinds of the released language models."""
CUTTING = ("normalizer", "pre_tokenizer", "decoder")


def read(folder: Folder, size: int, ends: tuple[int, ...]) -> tuple[Tokenizer, Before]:
    """Read the tokenizer of a language model with `size` embeddings, and what precedes a text. In a vocabulary that
    regard did not export the first of the ids `ends` separates texts and pads; it starts them if no other id does.

    Raises:
        InputError: the tokenizer is missing, belongs to another model, or segments text as no kind of ours.
    """
    document, kind = _document(folder)
    merges = document.merges
    start, place = special_tokens.start_of(folder), str(folder.path)
    if document.whole["model"].get("byte_fallback") and folder.has(ABOUT):
        tokenizer_json.require(
            folder.json(ABOUT),
            {"add_prefix_space": (None, True)},
            str(folder.path / ABOUT),
        )
    tokenizer_json.check_added(folder, document.vocabulary)
    vocabulary, unused = counted(document.vocabulary, size, folder)
    ours = all(vocabulary.get(name) == index for index, name in enumerate(NAMES))
    if ours and not unused and kind != "pipeline":
        return Tokenizer.of(
            settings(kind, size), vocabulary, merges
        ), "end" if start is None else "start"
    if not ends:
        raise InputError(
            f"{place}/config.json: has no eos_token_id; expected the id that ends a text"
        )
    if beyond := [index for index in ends if index >= size - unused]:
        raise InputError(
            f"{place}: eos_token_id is {beyond[0]}, beyond the {size - unused} entries of the tokenizer"
        )
    end = ends[0]
    first = end if start is None else special_tokens.id_of(start, vocabulary, place)
    unknown = document.unknown if kind == "pipeline" else vocabulary.get(NAMES[UNKNOWN])
    unknown = end if unknown is None else unknown
    special = SpecialTokens(end, unknown, first, end, more_ends=ends[1:], unused=unused)
    before: Before = "nothing" if start is None else "end" if first == end else "start"
    if kind == "pipeline":
        return pipelines.tokenizer_of(document, vocabulary, special), before
    return Tokenizer.of(settings(kind, size), vocabulary, merges, special), before


def counted(
    vocabulary: Mapping[str, int], size: int, folder: Folder
) -> tuple[dict[str, int], int]:
    """Sort a vocabulary by id. A model may have more ids than it, for speed: they get entries that no text has, and
    their number is returned too. Raises InputError unless the ids are 0 to `size` - 1 at most."""
    count = len(vocabulary)
    if count > size or sorted(vocabulary.values()) != list(range(count)):
        raise InputError(
            f"{folder.path}: the tokenizer has {count} entries, with ids up to {max(vocabulary.values(), default=0)}, "
            f"and {folder.path.name}/config.json a vocab_size of {size}; it belongs to another model"
        )
    unused = {f"<unused:{index}>": index for index in range(count, size)}
    return dict(sorted(vocabulary.items(), key=lambda entry: entry[1])) | unused, len(
        unused
    )


def entries_of(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the vocabulary of a tokenizer without entries that no text has."""
    known = tokenizer.size - tokenizer.special.unused
    return {
        entry: index for entry, index in tokenizer.vocabulary.items() if index < known
    }


def settings(kind: KindName, size: int) -> TokenizerSettings:
    """Return the settings of a vocabulary, which may be smaller than a trained one."""
    return TokenizerSettings(kind, max(size, SMALLEST[kind]))


def tokenizer_document(tokenizer: Tokenizer, before: Before) -> dict[str, Any]:
    """Return the tokenizer.json of a tokenizer, which puts the start token `before` each text or nothing."""
    document, special = tokenizer.backend, tokenizer.special.all
    behind, known = (
        document.pop("entries", {}),
        tokenizer.size - tokenizer.special.unused,
    )
    if tokenizer.settings.kind != "pipeline":
        document["model"]["vocab"] = entries_of(tokenizer)
    named = {index: entry for entry, index in behind.items() if index < known}
    named |= dict(zip(special, tokenizer.pieces(special), strict=True))
    document["added_tokens"] = added(sorted(named.items()))
    if before == "start":
        start = tokenizer.special.start
        document["post_processor"] = special_tokens.starting(
            tokenizer.pieces([start])[0], start
        )
    return document


def tokenizer_config(
    tokenizer: Tokenizer, context: int, before: Before
) -> dict[str, Any]:
    """Return the tokenizer_config.json: GPT2Tokenizer for a released vocabulary, PreTrainedTokenizerFast for another,
    and the special tokens."""
    special = tokenizer.special
    padding, unknown, end = tokenizer.pieces(
        [special.pad, special.unknown, special.end]
    )
    own = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": padding,
        "unk_token": unknown,
    }
    theirs = {
        "tokenizer_class": "GPT2Tokenizer",
        "unk_token": end,
        "add_prefix_space": False,
    }
    released = special.unknown == special.end and tokenizer.settings.kind != "pipeline"
    [start] = tokenizer.pieces([special.start]) if before == "start" else [end]
    marks = {"bos_token": start, "eos_token": end, "model_max_length": context}
    return (
        (theirs if released else own)
        | marks
        | ({"add_bos_token": True} if before == "start" else {})
    )


def documents(pretrained: PretrainedModel, context: int) -> dict[str, dict[str, Any]]:
    """Return the files of a language model's tokenizer and of its search."""
    tokenizer, before = (
        pretrained.tokenizer,
        (pretrained.continues or Continues()).before,
    )
    found = {
        TOKENIZER: tokenizer_document(tokenizer, before),
        ABOUT: tokenizer_config(tokenizer, context, before),
    }
    if pretrained.search is None:
        return found
    special, search = tokenizer.special, pretrained.search
    written = generation.write(search, special.ends) | generation.least_key(
        search, encodes=False
    )
    tokens = pretrained.continues.tokens if pretrained.continues else None
    written |= {} if tokens is None else {"max_new_tokens": tokens}
    return found | {generation.GENERATION: written | {"bos_token_id": special.start}}


def _document(folder: Folder) -> tuple[Document, KindName]:
    """Read the vocabulary of a folder and its kind: one of ours in a file that regard exported, else that of a released
    model, or a pipeline of other steps. Raises InputError for a missing or broken one."""
    if not folder.has(TOKENIZER):
        plain = pipelines.of_kind(
            "gpt2", "BPE", str(folder.path / VOCABULARY), *files(folder)
        )
        document = overridden(plain, folder)
        return document, "gpt2" if document.is_gpt2_byte_level else "pipeline"
    document = overridden(tokenizer_json.read(folder, tuple(OURS)), folder)
    exported = all(
        document.vocabulary.get(name) == index for index, name in enumerate(NAMES)
    )
    for kind in (
        *(OURS[document.type] if exported else ()),
        *(PUBLISHED if document.type == "BPE" else ()),
    ):
        if document.cuts_as(json.loads(KINDS[kind].build({}, ()).to_str()), CUTTING):
            return document, kind
    return (
        document,
        "gpt2"
        if document.type == "BPE" and document.is_gpt2_byte_level
        else "pipeline",
    )


def files(folder: Folder) -> tuple[dict[str, int], Merges]:
    """Read vocab.json and merges.txt. Raises InputError where one is missing or broken."""
    if not folder.has(VOCABULARY) or not folder.has(MERGES):
        raise InputError(
            f"{folder.path}: has neither {TOKENIZER} nor {VOCABULARY} with {MERGES}"
        )
    vocabulary = tokenizer_json.entries(
        folder.json(VOCABULARY), str(folder.path / VOCABULARY)
    )
    lines = [
        line
        for line in folder.text(MERGES).split("\n")
        if line and not line.startswith("#version")
    ]
    return vocabulary, tokenizer_json.pairs(
        lines, vocabulary, str(folder.path / MERGES)
    )

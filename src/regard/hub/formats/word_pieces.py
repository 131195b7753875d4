"""Published vocabularies of masked language models."""

from dataclasses import astuple
from typing import Any

from regard.errors import InputError
from regard.hub.formats import pipelines, special_tokens, tokenizer_json
from regard.hub.formats.folder import Folder
from regard.hub.formats.tokenizer_classes import overridden
from regard.hub.formats.tokenizer_json import ABOUT, TOKENIZER, Document, added
from regard.hub.formats.vocabulary import (
    MERGES,
    VOCABULARY,
    counted,
    entries_of,
    files,
    settings,
)
from regard.text import Tokenizer
from regard.text.kind import KindName
from regard.text.special import SpecialTokens

LIST = "vocab.txt"
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
MPNET = ("<pad>", "[UNK]", "<s>", "</s>", "<mask>")
Names = tuple[str, ...]
"""The published names of padding, unknown, start, end and mask."""
TRIMMED = {"add_prefix_space": False, "trim_offsets": True}
"""Blanks in RoBERTa's tokenizer: no blank is put in front."""
GENERIC = {"tokenizer_class": "PreTrainedTokenizerFast"}
"""The class that reads the steps from tokenizer.json; those of families make their own."""


def read(folder: Folder, size: int, names: Names | None = None) -> Tokenizer:
    """Read the tokenizer of a model with `size` embeddings, whose special tokens have these names; by default BERT's
    for word pieces and RoBERTa's for others.

    Raises:
        InputError: the tokenizer is missing, belongs to another model, or segments text differently.
    """
    document = overridden(_document(folder), folder)
    vocabulary, kind = document.vocabulary, _kind(document)
    tokenizer_json.check_added(folder, vocabulary)
    names = names or (BERT if document.type == "WordPiece" else ROBERTA)
    missing = [name for name in names if name not in vocabulary]
    if missing:
        raise InputError(
            f"{document.place}: has no entry {missing[0]}; is it the tokenizer of another model?"
        )
    between = special_tokens.between(
        folder, names[2], names[3], 1 if names is BERT else 2
    )
    entries, unused = counted(vocabulary, size, folder)
    pad, unknown, start, end, mask = (vocabulary[name] for name in names)
    special = SpecialTokens(
        pad, unknown, start, end, mask, unused=unused, between=between
    )
    if kind == "pipeline":
        return pipelines.tokenizer_of(document, entries, special)
    return Tokenizer.of(settings(kind, size), entries, document.merges, special)


def tokenizer_document(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the tokenizer.json of a tokenizer, with the published names of its special tokens."""
    document, special = tokenizer.backend, tokenizer.special
    names = names_of(tokenizer)
    named = dict(zip(astuple(special)[:5], names, strict=True))
    model, behind = document["model"], document.pop("entries", {})
    if tokenizer.settings.kind != "pipeline":
        model["vocab"] = {
            named.get(index, entry): index
            for entry, index in entries_of(tokenizer).items()
        }
    known = tokenizer.size - special.unused
    named = {index: entry for entry, index in behind.items() if index < known} | named
    if model.get("unk_token") is not None:
        model["unk_token"] = named[special.unknown]
    document["added_tokens"] = added(sorted(named.items()), stripping=ROBERTA[-1])
    first, last = ([named[index], index] for index in (special.start, special.end))
    kind, more = (
        ("RobertaProcessing", TRIMMED)
        if named[special.pad] == ROBERTA[0]
        else ("BertProcessing", {})
    )
    document["post_processor"] = {"type": kind, "cls": first, "sep": last, **more}
    return document


def tokenizer_config(tokenizer: Tokenizer, called: str, context: int) -> dict[str, Any]:
    """Return the tokenizer_config.json: the class `called`, its settings and the special tokens."""
    names, kind = names_of(tokenizer), tokenizer.settings.kind
    keys = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    settings = {"tokenizer_class": called, "model_max_length": context} | dict(
        zip(keys, names, strict=True)
    )
    if names == BERT and kind == "pipeline":
        return settings | GENERIC
    cased = {
        "do_lower_case": kind == "wordpiece-uncased",
        "strip_accents": None,
        "tokenize_chinese_chars": True,
    }
    if names == BERT:
        return settings | cased
    [mask] = added([(0, names[-1])], stripping=names[-1])
    del mask["id"]
    marks = {
        "bos_token": names[2],
        "eos_token": names[3],
        "mask_token": {"__type": "AddedToken"} | mask,
    }
    return (
        settings
        | marks
        | (GENERIC if kind == "pipeline" else TRIMMED if kind == "gpt2" else cased)
    )


def names_of(tokenizer: Tokenizer) -> Names:
    """Return the published names of the special tokens."""
    special = tokenizer.special
    own = tuple(tokenizer.pieces(index for index in astuple(special)[:5]))
    if own == MPNET or tokenizer.settings.kind == "pipeline":
        return own
    return BERT if tokenizer.settings.kind.startswith("wordpiece") else ROBERTA


def _document(folder: Folder) -> Document:
    """Read the tokenizer of a folder: tokenizer.json, or the vocabularies of older models. Raises InputError for a
    missing or broken one."""
    if folder.has(TOKENIZER):
        return tokenizer_json.read(folder, ("WordPiece", "BPE", "Unigram"))
    if folder.has(VOCABULARY) and folder.has(MERGES):
        vocabulary, merges = files(folder)
        return pipelines.of_kind(
            "gpt2", "BPE", str(folder.path / VOCABULARY), vocabulary, merges
        )
    entries = folder.text(LIST).split("\n")
    if folder.has(ABOUT):
        tokenizer_json.require(
            folder.json(ABOUT),
            {"do_basic_tokenize": (None, True)},
            str(folder.path / ABOUT),
        )
    vocabulary = {entry: index for index, entry in enumerate(entries) if entry}
    return pipelines.of_kind(
        "wordpiece-uncased", "WordPiece", str(folder.path / LIST), vocabulary, []
    )


def _kind(document: Document) -> KindName:
    """Return the kind of a tokenizer: BERT's or RoBERTa's, or a pipeline of other steps."""
    cleaning, cutting = document.part("normalizer"), document.part("pre_tokenizer")
    match document.type, cleaning.get("type"), cutting.get("type"):
        case "WordPiece", "BertNormalizer", "BertPreTokenizer":
            lower, accents = (
                cleaning.get("lowercase", True),
                cleaning.get("strip_accents"),
            )
            whole = (
                cleaning.get("clean_text", True) is True
                and cleaning.get("handle_chinese_chars", True) is True
            )
            if whole and lower in (True, False) and accents in (None, lower):
                return "wordpiece-uncased" if lower else "wordpiece"
        case "BPE", _, _ if document.is_gpt2_byte_level:
            return "gpt2"
        case _:
            pass
    return "pipeline"

"""Published vocabularies of masked language models."""

from dataclasses import astuple
from typing import Any

from regard.errors import InputError
from regard.hub.formats import special_tokens, tokenizer_json
from regard.hub.formats.folder import Folder
from regard.hub.formats.tokenizer_json import ABOUT, TOKENIZER, Document, added
from regard.hub.formats.vocabulary import MERGES, VOCABULARY, counted, entries_of, files, settings
from regard.text import Tokenizer
from regard.text.kind import KindName
from regard.text.special import SpecialTokens

LIST = "vocab.txt"
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
"""The published names of padding, unknown, start, end and mask."""
TRIMMED = {"add_prefix_space": False, "trim_offsets": True}
"""Blanks in RoBERTa's tokenizer: no blank is put in front."""


def read(folder: Folder, size: int) -> Tokenizer:
    """Read the tokenizer of a model with `size` embeddings.

    Raises:
        InputError: the tokenizer is missing, belongs to another model, or segments text differently.
    """
    place = str(folder.path / (TOKENIZER if folder.has(TOKENIZER) else LIST))
    if folder.has(TOKENIZER):
        document = tokenizer_json.read(folder, ("WordPiece", "BPE"))
        vocabulary, merges, kind = document.vocabulary, document.merges, _overridden(folder, _kind(document))
    elif folder.has(VOCABULARY) and folder.has(MERGES):
        place, (vocabulary, merges) = str(folder.path / VOCABULARY), files(folder)
        kind = _overridden(folder, "gpt2")
    else:
        entries = folder.text(LIST).split("\n")
        vocabulary, merges = {entry: index for index, entry in enumerate(entries) if entry}, []
        kind = _listed(folder)
    tokenizer_json.check_added(folder, vocabulary)
    names = BERT if kind.startswith("wordpiece") else ROBERTA
    missing = [name for name in names if name not in vocabulary]
    if missing:
        raise InputError(f"{place}: has no entry {missing[0]}; is it the tokenizer of another model?")
    if folder.has(TOKENIZER):
        special_tokens.check_around(folder, names[2], names[3])
    counted_entries, unused = counted(vocabulary, size, folder)
    pad, unknown, start, end, mask = (vocabulary[name] for name in names)
    special = SpecialTokens(pad, unknown, start, end, mask, unused=unused, between=1 if names is BERT else 2)
    return Tokenizer.of(settings(kind, size), counted_entries, merges, special)


def tokenizer_document(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the tokenizer.json of a tokenizer, with the published names of its special tokens."""
    document, special = tokenizer.backend, tokenizer.special
    named = dict(zip(astuple(special)[:5], _names(tokenizer), strict=True))
    model = document["model"]
    model["vocab"] = {named.get(index, entry): index for entry, index in entries_of(tokenizer).items()}
    if model.get("unk_token") is not None:
        model["unk_token"] = named[special.unknown]
    document["added_tokens"] = added(sorted(named.items()), stripping=ROBERTA[-1])
    first, last = ([named[index], index] for index in (special.start, special.end))
    kind, more = ("RobertaProcessing", TRIMMED) if named[special.pad] == ROBERTA[0] else ("BertProcessing", {})
    document["post_processor"] = {"type": kind, "cls": first, "sep": last, **more}
    return document


def tokenizer_config(tokenizer: Tokenizer, called: str, context: int) -> dict[str, Any]:
    """Return the tokenizer_config.json: the class `called`, its settings and the special tokens."""
    names = _names(tokenizer)
    keys = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    settings = {"tokenizer_class": called, "model_max_length": context} | dict(zip(keys, names, strict=True))
    if names is BERT:
        lower = tokenizer.settings.kind == "wordpiece-uncased"
        return settings | {"do_lower_case": lower, "strip_accents": None, "tokenize_chinese_chars": True}
    [mask] = added([(0, names[-1])], stripping=names[-1])
    del mask["id"]
    marks = {"bos_token": names[2], "eos_token": names[3], "mask_token": {"__type": "AddedToken"} | mask}
    return settings | marks | TRIMMED


def _names(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the published names of the special tokens."""
    return BERT if tokenizer.settings.kind.startswith("wordpiece") else ROBERTA


def _listed(folder: Folder) -> KindName:
    """Return the kind of a tokenizer with a vocab.txt. Raises InputError for settings that are not BERT's."""
    values = folder.json(ABOUT) if folder.has(ABOUT) else {}
    lower = values.get("do_lower_case", True)
    plain = {"do_lower_case": (False, True), "strip_accents": (None, lower)}
    plain |= dict.fromkeys(("tokenize_chinese_chars", "do_basic_tokenize"), (None, True))
    tokenizer_json.require(values, plain, str(folder.path / ABOUT))
    return "wordpiece-uncased" if lower else "wordpiece"


def _overridden(folder: Folder, kind: KindName) -> KindName:
    """Return the kind after the settings of tokenizer_config.json, which override those of tokenizer.json. Raises
    InputError for settings that no kind has."""
    values, place = (folder.json(ABOUT) if folder.has(ABOUT) else {}), str(folder.path / ABOUT)
    values = {key: value for key, value in values.items() if value is not None}
    if kind == "gpt2":
        tokenizer_json.require(values, {"add_prefix_space": (False,)}, place)
        return kind
    lower = values.get("do_lower_case", kind == "wordpiece-uncased")
    plain = {"do_lower_case": (False, True), "strip_accents": (lower,), "tokenize_chinese_chars": (True,)}
    tokenizer_json.require(values, plain, place)
    return "wordpiece-uncased" if lower else "wordpiece"


def _kind(document: Document) -> KindName:
    """Return the kind of a tokenizer.json. Raises InputError for a kind that is not BERT's or RoBERTa's."""
    cleaning, cutting = document.part("normalizer"), document.part("pre_tokenizer")
    match document.type, cleaning.get("type"), cutting.get("type"):
        case "WordPiece", "BertNormalizer", "BertPreTokenizer":
            lower, accents = cleaning.get("lowercase", True), cleaning.get("strip_accents")
            whole = cleaning.get("clean_text", True) is True and cleaning.get("handle_chinese_chars", True) is True
            if whole and lower in (True, False) and accents in (None, lower):
                return "wordpiece-uncased" if lower else "wordpiece"
        case "BPE", _, _ if document.is_gpt2_byte_level:
            return "gpt2"
        case _:
            pass
    raise InputError(
        f"{document.place}: segments text differently from BERT's or RoBERTa's; does it belong to another model?"
    )

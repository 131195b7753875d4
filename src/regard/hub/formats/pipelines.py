"""Published tokenizers whose steps no kind of regard has: they are computed by the tokenizers library itself.

tokenizer_config.json overrides some steps, as transformers lets it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from regard.errors import InputError
from regard.hub.formats.folder import Folder
from regard.hub.formats.tokenizer_json import ABOUT, Document
from regard.text import Tokenizer, TokenizerSettings
from regard.text.pipeline import Pipeline
from regard.text.special import SpecialTokens
from regard.text.storage import KINDS

NORMALIZED = {"do_lower_case": "lowercase", "tokenize_chinese_chars": "handle_chinese_chars"}
"""Switches of tokenizer_config.json and of BERT's normalizer."""
ACCENTS, PREFIX = "strip_accents", "add_prefix_space"
Step = dict[str, Any]


def overridden(document: Document, folder: Folder) -> Document:
    """Return a document with the settings of tokenizer_config.json. Raises InputError for a setting that is neither
    true nor false."""
    about = folder.json(ABOUT) if folder.has(ABOUT) else {}
    place = str(folder.path / ABOUT)
    changed: Step = {own: _switch(about, key, place) for key, own in NORMALIZED.items() if about.get(key) is not None}
    if ACCENTS in about:
        changed[ACCENTS] = None if about[ACCENTS] is None else _switch(about, ACCENTS, place)
    prefixed = None if about.get(PREFIX) is None else _switch(about, PREFIX, place)

    def normalized(step: Step) -> Step:
        return step | changed if step.get("type") == "BertNormalizer" else step

    def cut(step: Step) -> Step:
        match step.get("type"):
            case "ByteLevel" if prefixed is not None:
                return step | {PREFIX: prefixed}
            case "Metaspace" if prefixed is False:
                return step | {"prepend_scheme": "never"}
            case "Metaspace" if prefixed and step.get("prepend_scheme") == "never":
                return step | {"prepend_scheme": "always"}
        return step

    whole = dict(document.whole)
    whole |= {name: _each(whole.get(name), way) for name, way in (("normalizer", normalized), ("pre_tokenizer", cut))}
    return replace(document, whole=whole)


def of_kind(kind: str, type_: str, place: str, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Document:
    """Return the document of a vocabulary that is published without steps, which are those of a kind."""
    whole = json.loads(KINDS[kind].build({}, ()).to_str())
    if whole["normalizer"] and ACCENTS in whole["normalizer"]:
        whole["normalizer"][ACCENTS] = None  # they go where capitals go
    whole["model"] |= {"vocab": vocabulary} | ({"merges": merges} if merges else {"unk_token": "[UNK]"})
    return Document(place, type_, vocabulary, merges, whole)


def tokenizer_of(document: Document, vocabulary: Mapping[str, int], special: SpecialTokens) -> Tokenizer:
    """Return the tokenizer of a document with all entries of a `vocabulary`. Raises InputError for steps that the
    library cannot read, that lose characters, or that have regular expressions of their own."""
    _check_unknown(document, special)
    inner = document.whole["model"]["vocab"]
    known = inner if isinstance(inner, dict) else {piece for piece, _ in inner}
    behind = {entry: index for entry, index in vocabulary.items() if entry not in known}
    try:
        backend = Pipeline(document.whole, behind, special)
    except ValueError as error:
        raise InputError(f"{document.place}: {error}") from error
    except Exception as error:  # the library raises bare Exception
        why = " ".join(str(error).split())[:200]
        raise InputError(f"{document.place}: the tokenizers library cannot read it ({why})") from error
    return Tokenizer.of_backend(TokenizerSettings("pipeline", len(vocabulary)), backend, special)


def _check_unknown(document: Document, special: SpecialTokens) -> None:
    """Raises InputError for a model that loses characters which it lacks, or whose unknown piece is not `special`."""
    bytewise = document.whole["model"].get("byte_fallback") or "ByteLevel" in json.dumps(
        document.whole["pre_tokenizer"]
    )
    if document.unknown is None and not bytewise:
        raise InputError(
            f"{document.place}: segments text without bytes and without an unknown piece, so that characters are lost; "
            "does it belong to another model?"
        )
    if document.unknown is not None and document.unknown != special.unknown and not bytewise:
        raise InputError(
            f"{document.place}: its unknown piece has the id {document.unknown}; expected {special.unknown}"
        )


def _each(step: Any, way: Callable[[Step], Step]) -> Any:
    """A part of a pipeline whose steps, also inside a sequence, are changed."""
    if not isinstance(step, dict):
        return step
    for name in ("normalizers", "pretokenizers"):
        if isinstance(step.get(name), list):
            step = step | {name: [_each(each, way) for each in step[name]]}
    return way(step)


def _switch(values: Mapping[str, Any], key: str, place: str) -> bool:
    """True or false. Raises InputError for anything else."""
    if not isinstance(values[key], bool):
        raise InputError(f"{place}: {key} is {values[key]!r}; expected true or false")
    return values[key]

"""Published tokenizers whose steps no kind of regard has: they are computed by the tokenizers library itself."""

import json
from collections.abc import Mapping

from regard.errors import InputError
from regard.hub.formats.tokenizer_json import Document
from regard.text import Tokenizer, TokenizerSettings
from regard.text.pipeline import Pipeline
from regard.text.special import SpecialTokens
from regard.text.storage import KINDS

ACCENTS = "strip_accents"


def of_kind(
    kind: str,
    type_: str,
    place: str,
    vocabulary: dict[str, int],
    merges: list[tuple[str, str]],
) -> Document:
    """Return the document of a vocabulary that is published without steps, which are those of a kind."""
    whole = json.loads(KINDS[kind].build({}, ()).to_str())
    if whole["normalizer"] and ACCENTS in whole["normalizer"]:
        whole["normalizer"][ACCENTS] = None  # they go where capitals go
    whole["model"] |= {"vocab": vocabulary} | (
        {"merges": merges} if merges else {"unk_token": "[UNK]"}
    )
    return Document(place, type_, vocabulary, merges, whole)


def tokenizer_of(
    document: Document, vocabulary: Mapping[str, int], special: SpecialTokens
) -> Tokenizer:
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
        raise InputError(
            f"{document.place}: the tokenizers library cannot read it ({why})"
        ) from error
    return Tokenizer.of_backend(
        TokenizerSettings("pipeline", len(vocabulary)), backend, special
    )


def _check_unknown(document: Document, special: SpecialTokens) -> None:
    """Raises InputError for a model that loses characters which it lacks, or whose unknown piece is not `special`."""
    bytewise = document.whole["model"].get(
        "byte_fallback"
    ) or "ByteLevel" in json.dumps(document.whole["pre_tokenizer"])
    if document.unknown is None and not bytewise:
        raise InputError(
            f"{document.place}: segments text without bytes and without an unknown piece, so that characters are lost; "
            "does it belong to another model?"
        )
    if (
        document.unknown is not None
        and document.unknown != special.unknown
        and not bytewise
    ):
        raise InputError(
            f"{document.place}: its unknown piece has the id {document.unknown}; expected {special.unknown}"
        )

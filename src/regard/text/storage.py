"""The tokenizer file: JSON that contains the format of the Hugging Face tokenizers library.

    {"format": "regard-tokenizer", "version": 1, "settings": {...}, "tokenizer": {...}}

A published vocabulary also stores its special ids, under "special". The same training
gives the same bytes. Of a kind that is trained only the vocabulary, the merges and the
special ids may differ from what the kind builds, so that a foreign file cannot bring
patterns or tokens of its own. A file of kind pipeline has the parts of a published
tokenizer.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from pydantic import TypeAdapter
from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.text.kinds import ALPHABET, KINDS, TokenizerSettings
from regard.text.pipeline import Pipeline
from regard.text.special import MASK, MASK_NAME, NAMES, UNKNOWN, SpecialTokens

FORMAT, VERSION = "regard-tokenizer", 1
Cutter = Backend | Pipeline
"""What cuts text: a tokenizer of the tokenizers library, or a published one."""
SETTINGS = TypeAdapter(TokenizerSettings)
LATER = {"more_ends": (), "unused": 0, "between": 1, "opens": True, "closes": True}
"""Fields of the special tokens that older files lack, and their defaults."""


def write(
    settings: TokenizerSettings, backend: Cutter, special: SpecialTokens | None = None
) -> bytes:
    """Return the content of the file; `special` are ids of a published vocabulary."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "settings": asdict(settings),
    }
    if special is not None:
        document["special"] = {
            name: value
            for name, value in asdict(special).items()
            if name not in LATER or value != LATER[name]
        }
    document["tokenizer"] = json.loads(backend.to_str())
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()


def read(content: bytes, place: str) -> tuple[TokenizerSettings, Cutter, SpecialTokens]:
    """Read settings, backend and special ids from a file's content.

    Raises:
        InputError: It is no such file, or altered; the message begins with `place`.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{place}: not a tokenizer file, its JSON is broken or cut off; train it again"
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(
            f"{place}: not a tokenizer file, expected JSON with format {FORMAT!r}"
        )
    if document.get("version") != VERSION:
        raise InputError(
            f"{place}: tokenizer file of version {document.get('version')!r}, this "
            f"release reads version {VERSION}"
        )
    try:
        settings = SETTINGS.validate_python(document["settings"])
        stored = document["tokenizer"]
        special = _read_special(document.get("special"), settings, stored)
        backend = _build(settings, stored, special)
        _check(settings, backend, special)
    except Exception as error:  # the tokenizers library raises bare Exception
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{place}: broken tokenizer file, {reason}") from error
    return settings, backend, special


def _read_special(
    values: Any, settings: TokenizerSettings, stored: Any
) -> SpecialTokens:
    """Return the special ids, by default those of vocabularies trained here."""
    if values is None:
        vocabulary = stored["model"]["vocab"]
        has_mask = settings.kind.startswith("wordpiece")
        for index, name in enumerate((*NAMES, MASK_NAME)[: 5 if has_mask else 4]):
            if vocabulary.get(name) != index:
                raise ValueError(f"entry {name!r} is missing or misplaced")
        return SpecialTokens(mask=MASK if vocabulary.get(MASK_NAME) == MASK else None)
    names = {field.name for field in fields(SpecialTokens)}
    expected = names - set(LATER)
    if not isinstance(values, dict) or not expected <= set(values) <= names:
        raise ValueError(f"its special ids are not {', '.join(sorted(expected))}")
    return SpecialTokens(**{**values, "more_ends": tuple(values.get("more_ends", ()))})


def _build(settings: TokenizerSettings, stored: Any, special: SpecialTokens) -> Cutter:
    """Build the backend of a file."""
    if settings.kind == "pipeline":
        return Pipeline(stored, stored["entries"], special)
    model = stored["model"]
    merges = [(first, second) for first, second in model.get("merges", ())]
    built = KINDS[settings.kind].build(model["vocab"], merges, special)
    text = json.dumps(stored, ensure_ascii=False)
    if Backend.from_str(text).to_str() != built.to_str():
        raise ValueError(f"its pipeline is not that of kind {settings.kind}")
    return built


def _check(
    settings: TokenizerSettings, backend: Cutter, special: SpecialTokens
) -> None:
    """Check the vocabulary.

    Raises:
        ValueError: Ids do not count up from 0, are too many, or an entry is missing.
    """
    vocabulary: Mapping[str, int] = backend.get_vocab()
    count = len(vocabulary)
    if sorted(vocabulary.values()) != list(range(count)):
        raise ValueError("its ids do not count up from 0")
    if count > settings.size:
        raise ValueError(f"{count} entries where its settings allow {settings.size}")
    ids = [special.pad, special.unknown, special.start, *special.ends, special.unused]
    if special.mask is not None:
        ids.append(special.mask)
    for index in ids:
        if type(index) is not int or not 0 <= index < count:
            raise ValueError("a special id is not one of its vocabulary")
    if special.between not in (0, 1, 2):
        raise ValueError(f"it has {special.between!r} end tokens between two texts")
    kind = settings.kind
    if kind not in ("wordpiece", "wordpiece-uncased", "pipeline"):
        name = NAMES[UNKNOWN]  # MPNet has <unk> beside [UNK]
        if vocabulary.get(name, special.unknown) != special.unknown:
            raise ValueError(f"entry {name!r} is not its unknown piece")
    if kind == "bpe" and not {*ALPHABET} <= vocabulary.keys():
        raise ValueError("an entry of a byte is missing")

"""The tokenizer file: JSON that contains the format of the Hugging Face tokenizers library.

    {"format": "regard-tokenizer", "version": 1, "settings": {...}, "tokenizer": {...}}

A published vocabulary also stores its special ids, under "special"; a vocabulary trained by this library has those of
`SPECIAL`. The same training gives the same bytes. Reading checks the whole file: only the vocabulary, the merges and
the special ids may differ from what the kind builds, so that a foreign file cannot bring patterns or tokens of its own.
A file of kind unigram stores pieces with log-probabilities in place of that format, and one of kind pipeline the steps
of a published tokenizer, without regular expressions of its own.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.text.kinds import (
    ALPHABET,
    BYTES,
    ByteFallback,
    BytePair,
    Character,
    Cutter,
    GPT2BytePair,
    Kind,
    PatternBytePair,
    Space,
    TokenizerSettings,
    Word,
    WordPiece,
    Writing,
    problem_with,
)
from regard.text.pipeline import Pipeline, Pipelines, entries_of
from regard.text.special import MASK, MASK_NAME, NAMES, UNKNOWN, SpecialTokens
from regard.text.unigram import Segmenter, Unigram, pieces_of

FORMAT = "regard-tokenizer"
VERSION = 1
KINDS: Mapping[str, Kind] = {
    "character": Character(),
    "word": Word(),
    "space": Space(),
    "bpe": BytePair(),
    "gpt2": GPT2BytePair(),
    "qwen2": PatternBytePair(1, nfc=True),
    "llama2": ByteFallback(always=True),
    "mistral": ByteFallback(always=False),
    "llama3": PatternBytePair(3, whole_words=True),
    "wordpiece": WordPiece(uncased=False),
    "wordpiece-uncased": WordPiece(uncased=True),
    "unigram": Unigram(),
    "pipeline": Pipelines(),
}
LATER: Mapping[str, Any] = {
    "more_ends": (),
    "unused": 0,
    "between": 1,
    "opens": True,
    "closes": True,
}
"""Fields of the special tokens that older files do not have, and their defaults."""
BYTE_LEVEL = ("bpe", "gpt2", "qwen2", "llama3")
"""Kinds whose vocabulary consists of bytes and merges."""
FALLBACK = ("llama2", "mistral")
"""Kinds whose vocabulary has an entry for each byte beside those of characters."""
MERGING = (*BYTE_LEVEL, *FALLBACK)


def write(
    settings: TokenizerSettings, backend: Cutter, special: SpecialTokens | None = None
) -> bytes:
    """The content of the file. `special` are the ids of a published vocabulary."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "settings": asdict(settings),
        **({} if special is None else {"special": _plain(special)}),
        "tokenizer": json.loads(backend.to_str()),
    }
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()


def read(content: bytes, place: str) -> tuple[TokenizerSettings, Cutter, SpecialTokens]:
    """Read settings, backend and special ids from a file's content. `place` names the file in errors. Raises
    InputError."""
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
            f"{place}: tokenizer file of version {document.get('version')!r}, this release reads version {VERSION}"
        )
    settings = _settings(document.get("settings"), place)
    vocabulary, merges = _model(settings, document.get("tokenizer"), place)
    special = _special(document.get("special"), settings, vocabulary, place)
    if settings.kind in FALLBACK and (
        missing := [entry for entry in BYTES if entry not in vocabulary]
    ):
        raise InputError(
            f"{place}: broken tokenizer file, entry {missing[0]!r} is missing"
        )
    if settings.kind in BYTE_LEVEL:
        _check_bytes(vocabulary, special, place)
    with _refuse_errors(place):
        stored = document["tokenizer"]
        text = json.dumps(stored, ensure_ascii=False)
        if settings.kind == "unigram":
            built: Cutter = Segmenter(vocabulary, pieces_of(stored), special)
        elif settings.kind == "pipeline":
            built = Pipeline(stored, stored["entries"], special)
        else:
            text = Backend.from_str(text).to_str()
            built = KINDS[settings.kind].build(vocabulary, merges, special)
    if text != built.to_str():
        raise InputError(
            f"{place}: broken tokenizer file, its pipeline is not that of kind {settings.kind}"
        )
    return settings, built, special


def model_of(backend: Cutter) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocabulary in the order of its ids, and the merges (if the kind has any) in the order in which they were
    learnt."""
    document = json.loads(backend.to_str())
    merges = [(first, right) for first, right in document["model"].get("merges", [])]
    return entries_of(document) if isinstance(backend, Pipeline) else document["model"][
        "vocab"
    ], merges


def writing_of(settings: TokenizerSettings, backend: Cutter) -> Writing:
    """What joins the pieces of a tokenizer: its kind, or a published pipeline by its own decoder."""
    return backend if isinstance(backend, Pipeline) else KINDS[settings.kind]


def _settings(value: Any, place: str) -> TokenizerSettings:
    expected = {field.name for field in fields(TokenizerSettings)}
    if not isinstance(value, dict) or set(value) != expected:
        raise InputError(
            f"{place}: broken tokenizer file, its settings are not {', '.join(sorted(expected))}"
        )
    problem = problem_with(value)
    if problem:
        raise InputError(f"{place}: broken tokenizer file, {problem}")
    return TokenizerSettings(
        value["kind"], value["size"], float(value["dropout"]), value["minimum_count"]
    )


def _model(
    settings: TokenizerSettings, value: Any, place: str
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    model = value.get("model") if isinstance(value, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if settings.kind == "pipeline":
        with _refuse_errors(place):
            vocabulary = entries_of(value)
    if not isinstance(model, dict) or not isinstance(vocabulary, dict):
        raise InputError(f"{place}: broken tokenizer file, it has no vocabulary")
    ids = list(vocabulary.values())
    if any(type(index) is not int for index in ids) or sorted(ids) != list(
        range(len(ids))
    ):
        raise InputError(
            f"{place}: broken tokenizer file, its ids do not count up from 0"
        )
    if len(ids) > settings.size:
        raise InputError(
            f"{place}: broken tokenizer file, {len(ids)} entries where its settings allow {settings.size}"
        )
    merges = model.get("merges", []) if settings.kind in MERGING else []
    if not isinstance(merges, list) or not all(
        _is_merge(merge, vocabulary) for merge in merges
    ):
        raise InputError(
            f"{place}: broken tokenizer file, a merge is not of two entries that make a third"
        )
    return vocabulary, [(first, right) for first, right in merges]


def _special(
    value: Any, settings: TokenizerSettings, vocabulary: Mapping[str, int], place: str
) -> SpecialTokens:
    """The special ids; without an entry in the file, those of vocabularies trained by this library."""
    if value is None:
        masking = (MASK_NAME,) if settings.kind.startswith("wordpiece") else ()
        missing = [
            name
            for index, name in enumerate((*NAMES, *masking))
            if vocabulary.get(name) != index
        ]
        if missing:
            raise InputError(
                f"{place}: broken tokenizer file, entry {missing[0]!r} is missing or misplaced"
            )
        return SpecialTokens(mask=MASK if vocabulary.get(MASK_NAME) == MASK else None)
    names = {field.name for field in fields(SpecialTokens)}
    expected = names - set(LATER)
    if not isinstance(value, dict) or not expected <= set(value) <= names:
        raise InputError(
            f"{place}: broken tokenizer file, its special ids are not {', '.join(sorted(expected))}"
        )
    ends, unused, between = (
        value.get("more_ends", []),
        value.get("unused", 0),
        value.get("between", 1),
    )
    single = [
        index
        for name, index in value.items()
        if name in expected and (name != "mask" or index is not None)
    ]
    ids = [*single, *(ends if isinstance(ends, list) else [ends]), unused]
    if any(type(index) is not int or not 0 <= index < len(vocabulary) for index in ids):
        raise InputError(
            f"{place}: broken tokenizer file, a special id is not one of its vocabulary"
        )
    if between not in (0, 1, 2):
        raise InputError(
            f"{place}: broken tokenizer file, it has {between!r} end tokens between two texts; expected 0, 1 or 2"
        )
    named = (
        settings.kind.startswith("wordpiece") or settings.kind == "pipeline"
    )  # MPNet has <unk> beside [UNK]
    if (
        not named
        and vocabulary.get(NAMES[UNKNOWN], value["unknown"]) != value["unknown"]
    ):
        raise InputError(
            f"{place}: broken tokenizer file, entry {NAMES[UNKNOWN]!r} is not its unknown piece"
        )
    return SpecialTokens(**{**value, "more_ends": tuple(ends)})


def _plain(special: SpecialTokens) -> dict[str, Any]:
    """The special ids as plain values, without those that only some published vocabularies have."""
    return {
        name: value
        for name, value in asdict(special).items()
        if name not in LATER or value != LATER[name]
    }


def _check_bytes(
    vocabulary: Mapping[str, int], special: SpecialTokens, place: str
) -> None:
    """Raises InputError if the vocabulary lacks a byte or has an entry that is not written in bytes."""
    alphabet = set(ALPHABET)
    missing = [character for character in ALPHABET if character not in vocabulary]
    if missing:
        raise InputError(
            f"{place}: broken tokenizer file, entry {missing[0]!r} is missing or misplaced"
        )
    if any(
        not set(piece) <= alphabet
        for piece, index in vocabulary.items()
        if index not in special.all
    ):
        raise InputError(
            f"{place}: broken tokenizer file, an entry is not written in byte-level characters"
        )


@contextmanager
def _refuse_errors(place: str) -> Iterator[None]:
    """Raise InputError for any error in the block: the library raises bare Exception for content that it cannot
    read."""
    try:
        yield
    except Exception as error:
        raise InputError(
            f"{place}: broken tokenizer file, the tokenizers library refuses its content"
        ) from error


def _is_merge(merge: Any, vocabulary: Mapping[str, int]) -> bool:
    pair = (
        isinstance(merge, list)
        and len(merge) == 2
        and all(isinstance(part, str) for part in merge)
    )
    return (
        pair
        and merge[0] in vocabulary
        and merge[1] in vocabulary
        and merge[0] + merge[1] in vocabulary
    )

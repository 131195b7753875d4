"""The tokenizer file: JSON, with the Hugging Face tokenizers format inside.

    {"format": "regard-tokenizer", "version": 1, "settings": {...}, "tokenizer": {...}}

The same training gives the same bytes. What is read is checked in full: only the vocabulary and the merges may differ
from what the settings' kind builds, so a file from elsewhere cannot bring in patterns or tokens of its own. Of kind
unigram the pieces with their log-probabilities stand in place of that format.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.text.byte_pair import ALPHABET, BytePair, GPT2BytePair
from regard.text.character import Character
from regard.text.kind import Cutter, Kind
from regard.text.settings import TokenizerSettings, problem_with
from regard.text.space import Space
from regard.text.special import MASK_NAME, NAMES
from regard.text.unigram import Segmenter, Unigram, pieces_of
from regard.text.word import Word
from regard.text.word_piece import WordPiece

FORMAT = "regard-tokenizer"
VERSION = 1
KINDS: Mapping[str, Kind] = {
    "character": Character(),
    "word": Word(),
    "space": Space(),
    "bpe": BytePair(),
    "gpt2": GPT2BytePair(),
    "wordpiece": WordPiece(uncased=False),
    "wordpiece-uncased": WordPiece(uncased=True),
    "unigram": Unigram(),
}
MERGING = ("bpe", "gpt2")
"""The kinds whose vocabulary is made of bytes and merges."""


def write(settings: TokenizerSettings, backend: Cutter) -> bytes:
    """The content of the file."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "settings": asdict(settings),
        "tokenizer": json.loads(backend.to_str()),
    }
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()


def read(content: bytes, place: str) -> tuple[TokenizerSettings, Cutter]:
    """Settings and backend of a file's content; `place` names the file in errors. Raises InputError."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not a tokenizer file, its JSON is broken or cut off; train it again") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"{place}: not a tokenizer file, expected JSON with format {FORMAT!r}")
    if document.get("version") != VERSION:
        raise InputError(
            f"{place}: tokenizer file of version {document.get('version')!r}, this release reads version {VERSION}"
        )
    settings = _settings(document.get("settings"), place)
    return settings, _backend(settings, document.get("tokenizer"), place)


def model_of(backend: Cutter) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocabulary in the order of its ids, and the merges in the order they were learnt, of a kind that has any."""
    model = json.loads(backend.to_str())["model"]
    return model["vocab"], [(left, right) for left, right in model.get("merges", [])]


def _settings(given: Any, place: str) -> TokenizerSettings:
    expected = {field.name for field in fields(TokenizerSettings)}
    if not isinstance(given, dict) or set(given) != expected:
        raise InputError(f"{place}: broken tokenizer file, its settings are not {', '.join(sorted(expected))}")
    problem = problem_with(given)
    if problem:
        raise InputError(f"{place}: broken tokenizer file, {problem}")
    return TokenizerSettings(given["kind"], given["size"], float(given["dropout"]), given["minimum_count"])


def _backend(settings: TokenizerSettings, given: Any, place: str) -> Cutter:
    vocabulary, merges = _model(settings, given, place)
    try:
        if settings.kind == "unigram":
            found, built = json.dumps(given, ensure_ascii=False), Segmenter(vocabulary, pieces_of(given))
        else:
            found = Backend.from_str(json.dumps(given)).to_str()
            built = KINDS[settings.kind].build(vocabulary, merges)
    except Exception as error:  # the backend raises bare Exception for whatever it cannot read
        raise InputError(f"{place}: broken tokenizer file, the tokenizers library refuses its content") from error
    if found != built.to_str():
        raise InputError(f"{place}: broken tokenizer file, its pipeline is not that of kind {settings.kind}")
    return built


def _model(settings: TokenizerSettings, given: Any, place: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    model = given.get("model") if isinstance(given, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(vocabulary, dict):
        raise InputError(f"{place}: broken tokenizer file, it has no vocabulary")
    ids = list(vocabulary.values())
    if any(type(index) is not int for index in ids) or sorted(ids) != list(range(len(ids))):
        raise InputError(f"{place}: broken tokenizer file, its ids do not count up from 0")
    if len(ids) > settings.size:
        raise InputError(f"{place}: broken tokenizer file, {len(ids)} entries where its settings allow {settings.size}")
    alphabet = ALPHABET if settings.kind in MERGING else []
    masking = (MASK_NAME,) if settings.kind.startswith("wordpiece") else ()
    missing = [name for index, name in enumerate((*NAMES, *masking)) if vocabulary.get(name) != index]
    missing += [character for character in alphabet if character not in vocabulary]
    if missing:
        raise InputError(f"{place}: broken tokenizer file, entry {missing[0]!r} is missing or misplaced")
    merges = model.get("merges", []) if settings.kind in MERGING else []
    if not isinstance(merges, list) or not all(_is_merge(merge, vocabulary) for merge in merges):
        raise InputError(f"{place}: broken tokenizer file, a merge is not of two entries that make a third")
    if alphabet and any(not set(piece) <= set(alphabet) for piece in vocabulary if piece not in NAMES):
        raise InputError(f"{place}: broken tokenizer file, an entry is not written in byte-level characters")
    return vocabulary, [(left, right) for left, right in merges]


def _is_merge(merge: Any, vocabulary: Mapping[str, int]) -> bool:
    pair = isinstance(merge, list) and len(merge) == 2 and all(isinstance(part, str) for part in merge)
    return pair and merge[0] in vocabulary and merge[1] in vocabulary and merge[0] + merge[1] in vocabulary

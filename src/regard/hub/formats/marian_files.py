"""The files of a Marian model beside its weights: one vocabulary, two SentencePiece models and the search."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.decoding.search import Search
from regard.errors import InputError
from regard.hub.formats import generation
from regard.hub.formats import sentencepiece as sentence_pieces
from regard.hub.formats.folder import Folder
from regard.hub.formats.tokenizer_json import ABOUT, entries
from regard.hub.formats.vocabulary import VOCABULARY, counted, entries_of, settings
from regard.text import Tokenizer
from regard.text.special import NAMES, UNKNOWN, SpecialTokens
from regard.text.unigram import Segmenter, pieces_of

SOURCE, TARGET = "source.spm", "target.spm"
KNOWN = 0.5
"""Least share of a SentencePiece model's pieces that the vocabulary must contain."""


def read_tokenizers(
    folder: Folder, size: int, start: int, ends: tuple[int, ...]
) -> tuple[Tokenizer, Tokenizer]:
    """Read the source and the target tokenizer of a model with `size` embeddings; the id `start` also pads, and the
    first of the `ends` follows each source.

    Raises:
        InputError: a file is missing or broken, or belongs to another model.
    """
    place = folder.path / VOCABULARY
    about: Mapping[str, Any] = folder.json(ABOUT) if folder.has(ABOUT) else {}
    if about.get("separate_vocabs"):
        raise InputError(
            f"{folder.path / ABOUT}: separate_vocabs is true; regard reads models of one vocabulary"
        )
    vocabulary = entries(folder.json(VOCABULARY), str(place))
    unknown = vocabulary.get(NAMES[UNKNOWN])
    used = {start, unknown, *ends}
    if (
        unknown is None
        or not ends
        or not max(start, *ends) < size
        or len(used) < 2 + len(ends)
    ):
        raise InputError(
            f"{place}: has no entry {NAMES[UNKNOWN]}, or none for start and end; is it of another model?"
        )
    ids, unused = counted(vocabulary, size, folder)
    special = SpecialTokens(
        start, unknown, start, ends[0], more_ends=ends[1:], unused=unused
    )
    return _side(folder, SOURCE, ids, special), _side(folder, TARGET, ids, special)


def _side(
    folder: Folder, name: str, ids: Mapping[str, int], special: SpecialTokens
) -> Tokenizer:
    pieces = sentence_pieces.read(folder, name)
    known = sum(piece in ids for piece in pieces.scores)
    if known < KNOWN * len(pieces.scores):
        raise InputError(
            f"{folder.path / name}: {VOCABULARY} has {known} of its {len(pieces.scores)} pieces; "
            "it belongs to another model"
        )
    return Tokenizer.of_backend(
        settings("unigram", len(ids)), Segmenter(ids, pieces, special), special
    )


def tokenizer_files(
    source: Tokenizer, target: Tokenizer, longest: int
) -> dict[str, Mapping[str, Any] | bytes]:
    """Return the files of both tokenizers."""
    special = source.special
    unknown, start, end = source.pieces([special.unknown, special.start, special.end])
    about = {
        "tokenizer_class": "MarianTokenizer",
        "unk_token": unknown,
        "eos_token": end,
        "pad_token": start,
        "model_max_length": longest,
        "separate_vocabs": False,
    }
    return {
        VOCABULARY: entries_of(source),
        SOURCE: sentence_pieces.write(pieces_of(source.backend)),
        TARGET: sentence_pieces.write(pieces_of(target.backend)),
        ABOUT: about,
    }


def read_search(
    folder: Folder, longest: int, size: int, start: int
) -> tuple[Search, tuple[int, ...]]:
    """Read the search of a model that writes at most `longest` of `size` tokens by default and never `start`, and the
    ids that end a text. Raises InputError for a setting that regard does not compute."""
    found = generation.read(folder, start)
    found.check(size, folder)
    banned = tuple(each for each in found.search.banned if each != (start,))
    most = max(1, longest - 1) if found.most is None else found.most
    return replace(
        found.search, banned=banned, length_ratio=0.0, length_extra=most
    ), found.ends


def generation_config(
    search: Search, special: SpecialTokens, longest: int
) -> dict[str, Any]:
    """Return the settings of a search that transformers computes equally, with at most `longest` tokens."""
    document = generation.write(
        search, special.ends, [[special.start]]
    ) | generation.least_key(search, encodes=True)
    return document | {
        "max_length": longest if search.length_ratio else search.length_extra + 1
    }

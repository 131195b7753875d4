"""Published pairs of tokenizers whose unigram pieces are of one vocabulary."""

from collections.abc import Mapping
from typing import Any

from regard.errors import InputError
from regard.hub.formats import sentencepiece as sentence_pieces
from regard.hub.formats.folder import Folder
from regard.hub.formats.tokenizer_json import ABOUT, entries
from regard.hub.formats.vocabulary import VOCABULARY, counted, settings
from regard.text import Tokenizer
from regard.text.special import NAMES, UNKNOWN, SpecialTokens
from regard.text.unigram import Segmenter, pieces_of

SOURCE, TARGET = "source.spm", "target.spm"
KNOWN = 0.5
"""The share of a tokenizer's pieces that its vocabulary has at least."""


def read(folder: Folder, size: int, start: int, end: int) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target of a model whose embedding has `size` rows, where the ids `start` and `end`
    begin and end a text; `start` also pads.

    Raises:
        InputError: one is missing or broken, or they do not belong to the model or to each other.
    """
    place = folder.path / VOCABULARY
    about: Mapping[str, Any] = folder.json(ABOUT) if folder.has(ABOUT) else {}
    if about.get("separate_vocabs"):
        raise InputError(f"{folder.path / ABOUT}: separate_vocabs is true; regard reads models of one vocabulary")
    vocabulary = entries(folder.json(VOCABULARY), str(place))
    unknown = vocabulary.get(NAMES[UNKNOWN])
    if unknown is None or not max(start, end) < size or len({start, end, unknown}) < 3:
        raise InputError(f"{place}: has no entry {NAMES[UNKNOWN]}, or none for start and end; is it of another model?")
    ids, special = counted(vocabulary, size, folder), SpecialTokens(start, unknown, start, end)
    return _side(folder, SOURCE, ids, special), _side(folder, TARGET, ids, special)


def _side(folder: Folder, name: str, ids: Mapping[str, int], special: SpecialTokens) -> Tokenizer:
    pieces = sentence_pieces.read(folder, name)
    known = sum(piece in ids for piece in pieces.scores)
    if known < KNOWN * len(pieces.scores):
        raise InputError(
            f"{folder.path / name}: {VOCABULARY} has {known} of its {len(pieces.scores)} pieces; "
            "it is that of another model"
        )
    return Tokenizer.cutting(settings("unigram", len(ids)), Segmenter(ids, pieces, special), special)


def tokenizer_files(source: Tokenizer, target: Tokenizer, longest: int) -> dict[str, Mapping[str, Any] | bytes]:
    """The files of both tokenizers."""
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
        VOCABULARY: source.vocabulary,
        SOURCE: sentence_pieces.write(pieces_of(source.backend)),
        TARGET: sentence_pieces.write(pieces_of(target.backend)),
        ABOUT: about,
    }

"""Published pairs of tokenizers whose unigram pieces are of one vocabulary, and how their tokens are numbered here."""

from collections.abc import Mapping
from typing import Any

from regard.errors import InputError
from regard.hub.formats import sentencepiece as sentence_pieces
from regard.hub.formats.folder import Folder
from regard.hub.formats.names import Order
from regard.hub.formats.tokenizer_json import ABOUT, entries
from regard.hub.formats.vocabulary import VOCABULARY, renumbered
from regard.text import Tokenizer, TokenizerSettings
from regard.text.special import END, NAMES, START, UNKNOWN
from regard.text.unigram import Segmenter, pieces_of

SOURCE, TARGET = "source.spm", "target.spm"
KNOWN = 0.5
"""The share of a tokenizer's pieces that its vocabulary has at least."""


def read(folder: Folder, size: int, start: int, end: int) -> tuple[Tokenizer, Tokenizer, Order]:
    """The tokenizers of source and target of a model whose embedding has `size` rows, where the ids `start` and `end`
    begin and end a text.

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
    ids, order = renumbered(vocabulary, NAMES, [None, unknown, start, end], size, folder)
    return _side(folder, SOURCE, ids), _side(folder, TARGET, ids), order


def _side(folder: Folder, name: str, ids: Mapping[str, int]) -> Tokenizer:
    pieces = sentence_pieces.read(folder, name)
    known = sum(piece in ids for piece in pieces.scores)
    if known < KNOWN * len(pieces.scores):
        raise InputError(
            f"{folder.path / name}: {VOCABULARY} has {known} of its {len(pieces.scores)} pieces; "
            "it is that of another model"
        )
    return Tokenizer.cutting(TokenizerSettings("unigram", len(ids)), Segmenter(ids, pieces))


def numbered(size: int) -> Order:
    """The published ids of a vocabulary: the end is 0, the unknown 1, the start, which also pads, last."""
    return [None, 1, size - len(NAMES) + 2, 0, *range(2, size - len(NAMES) + 2)]


def written(source: Tokenizer, target: Tokenizer, order: Order, longest: int) -> dict[str, Mapping[str, Any] | bytes]:
    """The files of both tokenizers with the published ids; the name of the start is that of padding."""
    names = {UNKNOWN: NAMES[UNKNOWN], START: NAMES[0], END: NAMES[END]}
    entries = [(names.get(ours, entry), order[ours]) for entry, ours in source.vocabulary.items()]
    vocabulary = sorted((theirs, entry) for entry, theirs in entries if theirs is not None)
    about = {
        "tokenizer_class": "MarianTokenizer",
        "unk_token": names[UNKNOWN],
        "eos_token": names[END],
        "pad_token": names[START],
        "model_max_length": longest,
        "separate_vocabs": False,
    }
    return {
        VOCABULARY: {entry: theirs for theirs, entry in vocabulary},
        SOURCE: sentence_pieces.write(pieces_of(source.backend)),
        TARGET: sentence_pieces.write(pieces_of(target.backend)),
        ABOUT: about,
    }

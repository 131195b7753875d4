"""The files of a Marian model beside its weights: one vocabulary, two SentencePiece models and the search."""

from collections.abc import Mapping
from typing import Any

from regard.decoding.search import Search
from regard.errors import InputError
from regard.hub.formats import sentencepiece as sentence_pieces
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.settings import Settings
from regard.hub.formats.tokenizer_json import ABOUT, entries
from regard.hub.formats.vocabulary import VOCABULARY, counted, settings
from regard.text import Tokenizer
from regard.text.special import NAMES, UNKNOWN, SpecialTokens
from regard.text.unigram import Segmenter, pieces_of

SOURCE, TARGET = "source.spm", "target.spm"
KNOWN = 0.5
"""Least share of a SentencePiece model's pieces that the vocabulary must contain."""
GENERATION = "generation_config.json"
"""The file of the search's settings; older models keep them in config.json."""


def read_tokenizers(folder: Folder, size: int, start: int, end: int) -> tuple[Tokenizer, Tokenizer]:
    """Read the source and the target tokenizer of a model with `size` embeddings; the id `start` also pads.

    Raises:
        InputError: a file is missing or broken, or belongs to another model.
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
            "it belongs to another model"
        )
    return Tokenizer.of_backend(settings("unigram", len(ids)), Segmenter(ids, pieces, special), special)


def tokenizer_files(source: Tokenizer, target: Tokenizer, longest: int) -> dict[str, Mapping[str, Any] | bytes]:
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
        VOCABULARY: source.vocabulary,
        SOURCE: sentence_pieces.write(pieces_of(source.backend)),
        TARGET: sentence_pieces.write(pieces_of(target.backend)),
        ABOUT: about,
    }


def read_search(folder: Folder, longest: int) -> Search:
    """Read the search of a model that writes at most `longest` tokens by default. The length penalty divides the
    log-probability by length^p. Raises InputError for an invalid value."""
    values = folder.json(CONFIG)
    place = folder.path / (GENERATION if folder.has(GENERATION) else CONFIG)
    values |= folder.json(GENERATION) if folder.has(GENERATION) else {}
    config = Settings({key: value for key, value in values.items() if value is not None}, str(place))
    penalty = config.values.get("length_penalty", 1.0)
    if not isinstance(penalty, int | float) or isinstance(penalty, bool) or not penalty >= 0:
        raise InputError(f"{place}: length_penalty is {penalty!r}; expected a number of at least 0")
    return Search(
        beam=config.size("num_beams", 1),
        length_penalty=float(penalty),
        length_offset=0.0,
        no_repeat=config.index("no_repeat_ngram_size", 0),
        length_ratio=0.0,
        length_extra=max(1, config.size("max_length", longest) - 1),  # there START is counted
    )


def generation_config(search: Search, longest: int) -> dict[str, Any]:
    """Return the settings of a search that transformers computes equally."""
    comparable = search.beam > 1 and (not search.length_penalty or not search.length_offset)
    return {
        "num_beams": search.beam,
        "do_sample": False,
        **({"length_penalty": search.length_penalty} if comparable else {}),
        **({"no_repeat_ngram_size": search.no_repeat} if search.no_repeat else {}),
        "max_length": longest if search.length_ratio else search.length_extra + 1,
    }

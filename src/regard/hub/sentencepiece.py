"""Tokenizers of Marian models: two SentencePiece files of unigram models."""

import re
from collections.abc import Mapping

from tokenizers import models

from regard.errors import InputError
from regard.storage.published_folder import PublishedFolder
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import NAMES, UNKNOWN, SpecialTokens
from regard.text.pipeline import HIDDEN, Pipeline
from regard.text.tokenizer_files import (
    BLANK,
    UNIGRAM,
    build_sentencepiece,
    has_bytes,
    list_scores,
    parse_sentencepiece,
)

MARK = re.compile(r">>.*<<", re.DOTALL)
"""A mark of the target's language, which begins a text."""
SHARED_PIECES = 0.5
"""Least share of the pieces that a vocabulary must contain."""


def read_sides(
    folder: PublishedFolder, size: int, start: int, ends: tuple[int, ...]
) -> tuple[Tokenizer, Tokenizer]:
    """Read both tokenizers of a Marian model as pipelines of the tokenizers library.

    Args:
        folder: The folder of the model.
        size: Number of the model's embeddings.
        start: The id that begins targets and pads.
        ends: The ids that end a text.

    Raises:
        InputError: A file is missing or broken, or belongs to another model.
    """
    entries = folder.json("vocab.json")
    place = folder.path / "vocab.json"
    ids = [index for index in entries.values() if type(index) is int]
    if sorted(ids) != list(range(len(entries))) or len(entries) > size:
        raise InputError(
            f"{place}: expected ids from 0 to at most {size - 1}, found {len(entries)} "
            "entries; it belongs to another model"
        )
    unknown = entries.get(NAMES[UNKNOWN])
    if unknown is None or not ends or len({start, unknown, *ends}) < 2 + len(ends):
        raise InputError(
            f"{place}: has no entry {NAMES[UNKNOWN]}, or none for start and end; is it "
            "of another model?"
        )
    unused = {f"<unused:{index}>": index for index in range(len(entries), size)}
    vocabulary = dict(sorted(entries.items(), key=lambda entry: entry[1])) | unused
    special = SpecialTokens(
        start, unknown, start, ends[0], more_ends=ends[1:], unused=len(unused)
    )
    source = read_side(folder, "source.spm", vocabulary, special)
    return source, read_side(folder, "target.spm", vocabulary, special)


def read_side(
    folder: PublishedFolder,
    name: str,
    vocabulary: Mapping[str, int],
    special: SpecialTokens,
) -> Tokenizer:
    """Read the tokenizer of one side of a Marian model.

    A text never has entries that are no pieces of this side. A piece that the vocabulary
    lacks is cut into smaller ones.

    Raises:
        InputError: The file is broken, or belongs to another vocabulary.
    """
    place = folder.path / name
    try:
        model = parse_sentencepiece(folder.data(name))
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    scores = list_scores(model)
    if model.trainer_spec.model_type != UNIGRAM or has_bytes(model):
        raise InputError(
            f"{place}: has pieces of bytes or byte pairs; expected a unigram model"
        )
    shared = scores.keys() & vocabulary.keys()
    if len(shared) < SHARED_PIECES * len(scores):
        raise InputError(
            f"{place}: the vocabulary has {len(shared)} of its "
            f"{len(scores)} pieces; it belongs to another model"
        )
    beginning = BLANK if model.normalizer_spec.add_dummy_prefix else ""
    pieces = []
    entries = {}
    for entry, index in vocabulary.items():
        if entry in shared and index not in special.all:
            pieces.append((entry, scores[entry]))
            continue
        entries[entry] = index
        is_mark = MARK.fullmatch(entry)
        piece = beginning + entry if is_mark else HIDDEN + entry
        pieces.append((piece, 0.0 if is_mark else min(scores.values())))
    backend = models.Unigram(pieces, special.unknown, False)
    document = build_sentencepiece(backend, model)
    settings = TokenizerSettings("pipeline", max(5, len(vocabulary)))
    pipeline = Pipeline(document, entries, special)
    return Tokenizer.of_backend(settings, pipeline, special)

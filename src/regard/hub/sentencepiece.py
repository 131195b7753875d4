"""SentencePiece files of unigram models (Kudo and Richardson 2018), which Marian has."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.models.published import first_line
from regard.storage.published_folder import PublishedFolder
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import NAMES, UNKNOWN, SpecialTokens
from regard.text.pipeline import HIDDEN, Pipeline

UNIGRAM = 1
"""The type of the model."""
NORMAL, USER_DEFINED, BYTE = 1, 4, 6
"""Types of pieces."""
BLANK = "▁"
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
    from transformers.convert_slow_tokenizer import import_protobuf

    data = folder.data(name)
    library = import_protobuf()
    model: Any = library.ModelProto()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        model.ParseFromString(data)
        scores = read_scores(model)
    except Exception as error:  # protobuf's own errors have no common class
        raise InputError(
            f"{folder.path / name}: is not a SentencePiece model that regard reads: "
            f"{first_line(error)}"
        ) from error
    shared = scores.keys() & vocabulary.keys()
    if len(shared) < SHARED_PIECES * len(scores):
        raise InputError(
            f"{folder.path / name}: the vocabulary has {len(shared)} of its "
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
    backend = Backend(models.Unigram(pieces, special.unknown, False))
    backend.normalizer = build_normalizer(model.normalizer_spec)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(BLANK, "never", split=False)
    backend.decoder = decoders.Metaspace(BLANK, "always")
    settings = TokenizerSettings("pipeline", max(5, len(vocabulary)))
    pipeline = Pipeline(json.loads(backend.to_str()), entries, special)
    return Tokenizer.of_backend(settings, pipeline, special)


def read_scores(model: Any) -> dict[str, float]:
    """Return the log-probabilities of a model's pieces.

    Raises:
        ValueError: The model computes something that regard does not.
    """
    scores: dict[str, float] = {}
    for piece in model.pieces:
        if piece.type == NORMAL:
            scores[piece.piece] = piece.score
    types = {piece.type for piece in model.pieces}
    trainer = model.trainer_spec
    normalizer = model.normalizer_spec
    problems = {
        "it does not say how text is prepared": not model.HasField("normalizer_spec"),
        "it is no unigram model": trainer.model_type != UNIGRAM,
        "its blanks stand behind words": trainer.treat_whitespace_as_suffix,
        "it has pieces defined by its user": USER_DEFINED in types,
        "it has pieces of single bytes": BYTE in types or trainer.byte_fallback,
        "its blanks are not written as ▁": not normalizer.escape_whitespaces,
        "it shows another text than it encodes": (
            model.denormalizer_spec.precompiled_charsmap
        ),
        "it has no pieces, or scores that are no numbers": (
            not scores or not all(map(math.isfinite, scores.values()))
        ),
    }
    for problem, holds in problems.items():
        if holds:
            raise ValueError(problem)
    return scores


def build_normalizer(settings: Any) -> normalizers.Normalizer:
    """Return the normalizer of a SentencePiece model."""
    steps: list[Any] = []
    if "nfkc" in settings.name:
        # The table alone would lose the second of two marks on a letter.
        steps.append(normalizers.NFKC())
    if settings.precompiled_charsmap:
        steps.append(normalizers.Precompiled(settings.precompiled_charsmap))
    if settings.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
        steps.append(normalizers.Replace(Regex(f"^ +|[ {BLANK}]+$"), ""))
    if settings.add_dummy_prefix:
        steps.append(normalizers.Prepend(BLANK))
    return normalizers.Sequence(steps)

"""Files of published word vectors, as word2vec, fastText and GloVe write them as text."""

import re
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

import numpy as np

from regard.config.file_kinds import suffix
from regard.data.files import DEFAULT_LIMITS, Line, iterate_lines
from regard.errors import InputError

HEADER = re.compile(r"(\d+) (\d+) *")
"""The first line of word2vec and fastText: the numbers of words and of their components."""
STREAMED = replace(DEFAULT_LIMITS, max_decompressed=sys.maxsize, max_lines=sys.maxsize)
"""Limits of a file that is never in memory as a whole."""


def read_word_vectors(
    path: str, words: Mapping[str, object], width: int
) -> dict[str, np.ndarray]:
    """Return the vectors of words, from the first line of each.

    Args:
        path: The file, one word a line with its numbers, with or without a header.
        words: The words to look for.
        width: How many numbers a word must have.

    Raises:
        InputError: The file is missing, binary, cut off or of another width.
    """
    if suffix(path) == "bin":
        raise InputError(
            f"{path}: binary word vectors are not supported; use the text form (.vec or "
            ".txt), which gensim's save_word2vec_format(..., binary=False) writes"
        )
    vectors: dict[str, np.ndarray] = {}
    count = 0
    with closing(iterate_lines(path, STREAMED)) as lines:
        first = next(lines)
        header = HEADER.fullmatch(first.text)
        found_width = int(header[2]) if header else first.text.rstrip(" ").count(" ")
        if found_width != width:
            raise InputError(
                f"{path}: has vectors of {found_width} numbers, but the model's have "
                f"{width}; set model.embedding={found_width} (model.width={found_width} "
                "of a Transformer)"
                if found_width > 1
                else f"{path}:1: expected a word and its numbers, or a header such as "
                "'2000000 300'"
            )
        if header is None:
            count = _add_vector(path, first, words, width, vectors)
        for line in lines:
            count += _add_vector(path, line, words, width, vectors)
    if header and count != int(header[1]):
        raise InputError(
            f"{path}: has {count:,} words, but its header says {int(header[1]):,}; it "
            "may be cut off, fetch it again"
        )
    return vectors


def _add_vector(
    path: str,
    line: Line,
    words: Mapping[str, object],
    width: int,
    vectors: dict[str, np.ndarray],
) -> int:
    """Add the vector of a line if its word is looked for; return the words of the line.

    Raises:
        InputError: Numbers are missing or no numbers.
    """
    text = line.text.rstrip(" ")
    if not text:
        return 0
    # GloVe has words with blanks, such as ". . .".
    word = text.partition(" ")[0]
    count = text.count(" ")
    if count < width:
        raise InputError(
            f"{path}:{line.number}: has {count} numbers; expected a word and {width} "
            "numbers. The file may be cut off, fetch it again."
        )
    if count == width and word in words and word not in vectors:
        try:
            vector = np.array(text.split(" ")[1:], np.float32)
        except ValueError as error:
            raise InputError(f"{path}:{line.number}: {error}") from error
        if not np.isfinite(vector).all():
            raise InputError(f"{path}:{line.number}: has numbers that are not finite")
        vectors[word] = vector
    return 1

"""The sentences of CoNLL's files: a word and its columns a line, and a blank line between sentences."""

import re
from collections.abc import Iterable, Iterator, Sequence

Columns = list[str]
FIELDS = 10
"""The columns of CoNLL-U."""
WORD = re.compile(r"\d+")
OTHER = re.compile(r"\d+-\d+|\d+\.\d+")
"""The first column of CoNLL-U's lines that are no words: a range of words, `4-5`, and an empty node, `2.1`."""


def sentence_blocks(
    lines: Iterable[tuple[int, str]],
) -> Iterator[tuple[int, list[Columns]]]:
    """The columns of each sentence's lines, with the number of the first. Comments of CoNLL-U, its ranges of words and
    its empty nodes are left out."""
    block: list[tuple[int, Columns]] = []
    for number, line in lines:
        if line.strip() and not (line.startswith("# ") and " = " in line):
            block.append(
                (
                    number,
                    line.rstrip("\t ").split("\t") if "\t" in line else line.split(),
                )
            )
        elif block and not line.strip():
            yield from _sentence(block)
            block = []
    if block:
        yield from _sentence(block)


def _sentence(
    block: Sequence[tuple[int, Columns]],
) -> Iterator[tuple[int, list[Columns]]]:
    """The lines of a block that are words; of a block of CoNLL-U without any there is no sentence."""
    rows = [row for _, row in block if not row[0].startswith("#")]
    if rows and all(
        len(row) == FIELDS and (WORD.fullmatch(row[0]) or OTHER.fullmatch(row[0]))
        for row in rows
    ):
        block = [(number, row) for number, row in block if WORD.fullmatch(row[0])]
    if block:
        yield block[0][0], [row for _, row in block]

